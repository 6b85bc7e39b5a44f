"""QEMU's control channel (QMP), over an inherited socket: no path, no port."""

from __future__ import annotations

import json
import socket
from typing import Any

from imtcp_lab.job import GuestCrashed, LabError


class Monitor:
    """The host's end of a QMP connection."""

    def __init__(self) -> None:
        self._host, self.guest_end = socket.socketpair()
        self._buffer = b""
        self._events: list[dict[str, Any]] = []

    def arguments(self) -> list[str]:
        """The part of QEMU's command line that opens the other end."""
        return [
            *("-chardev", f"socket,id=monitor,fd={self.guest_end.fileno()}"),
            *("-mon", "chardev=monitor,mode=control"),
        ]

    def close(self) -> None:
        """Close both ends."""
        self._host.close()
        self.guest_end.close()

    def connect(self, timeout_s: float) -> None:
        """Does the greeting with QEMU; call it after the start of the child."""
        self.guest_end.close()
        self._host.settimeout(timeout_s)
        self._message()  # the greeting
        self.command("qmp_capabilities")

    def command(self, name: str, **arguments: object) -> Any:  # noqa: ANN401
        """Runs one command; returns its value."""
        text = json.dumps({"execute": name, "arguments": arguments}).encode()
        self._host.sendall(text)
        while True:
            message = self._message()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise LabError(f"QEMU refuses {name}: {message['error'].get('desc')}")
            self._events.append(message)

    def wait_event(self, name: str) -> None:
        """Waits for the event."""
        while True:
            while self._events:
                if self._events.pop(0).get("event") == name:
                    return
            self._events.append(self._message())

    def save_devices(self, path: str) -> None:
        """Writes the state of the stopped guest's processor and devices.

        ``migrate`` aborts QEMU under rr, because its own thread reads clocks.  This command does
        the same work in the main loop, except for the memory.
        """
        self.command("xen-save-devices-state", filename=path)

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
