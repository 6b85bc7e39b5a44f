"""QEMU's control channel (QMP), over an inherited socket: no path, no port."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from imtcp_lab.job import GuestCrashed, LabError


class Monitor:
    """The host's end of a QMP connection."""

    def __init__(self) -> None:
        self._host, self.guest_end = socket.socketpair()
        self._buffer = b""
        self._events: list[dict[str, Any]] = []

    def arguments(self) -> list[str]:
        """The part of QEMU's command that opens the other end."""
        return [
            *("-chardev", f"socket,id=monitor,fd={self.guest_end.fileno()}"),
            *("-mon", "chardev=monitor,mode=control"),
        ]

    def close(self) -> None:
        """Close both ends."""
        self._host.close()
        self.guest_end.close()

    def connect(self, timeout_s: float) -> None:
        """Greet QEMU; call it once the child is started."""
        self.guest_end.close()
        self._host.settimeout(timeout_s)
        self._message()  # the greeting
        self.command("qmp_capabilities")

    def command(self, name: str, fd: int | None = None, **arguments: object) -> Any:  # noqa: ANN401
        """Run one command; its return value."""
        text = json.dumps({"execute": name, "arguments": arguments}).encode()
        if fd is None:
            self._host.sendall(text)
        else:
            socket.send_fds(self._host, [text], [fd])
        while True:
            message = self._message()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise LabError(f"QEMU refuses {name}: {message['error'].get('desc')}")
            self._events.append(message)

    def wait_event(self, name: str) -> None:
        """Wait until the event has come."""
        while True:
            while self._events:
                if self._events.pop(0).get("event") == name:
                    return
            self._events.append(self._message())

    def resume(self, timeout_s: float) -> None:
        """Let a guest that was loaded from a snapshot go on.

        It comes as the save left it, stopped by pvpanic.  While it is stopped
        no virtual time passes, so the moment of this command does not matter.
        """
        deadline = time.monotonic() + timeout_s
        while self.command("query-status")["status"] == "inmigrate":
            if time.monotonic() > deadline:
                raise GuestCrashed(f"the snapshot was not loaded within {timeout_s:.0f} s")
            time.sleep(0.005)
        self.command("cont")

    def save_to(self, fd: int, timeout_s: float) -> None:
        """Write the stopped guest's state into the open file `fd`."""
        self.command("getfd", fd=fd, fdname="snapshot")
        # The default limit is meant for networks.
        self.command("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.command("migrate", uri="fd:snapshot")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = self.command("query-migrate")
            if state.get("status") == "completed":
                return
            if state.get("status") in ("failed", "cancelled"):
                reason = state.get("error-desc", "the disk may be full")
                raise LabError(f"the guest's snapshot cannot be written: {reason}")
            time.sleep(0.02)
        raise LabError(f"the guest's snapshot was not written within {timeout_s:.0f} s")

    def _message(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            try:
                data = self._host.recv(65536)
            except TimeoutError:
                raise GuestCrashed("QEMU does not answer on its monitor") from None
            except ConnectionError:
                data = b""
            if not data:
                raise GuestCrashed("QEMU went away")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)
