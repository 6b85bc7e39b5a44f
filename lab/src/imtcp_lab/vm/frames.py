"""Frames from the guest's agent; ``lab/guest/agent.c`` defines them."""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD_BYTES = 5


@dataclass
class Frames:
    """Splits a growing byte stream into (type, payload)."""

    _pending: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """The frames that become complete with `data`."""
        self._pending += data
        done: list[tuple[str, bytes]] = []
        start = 0
        while len(self._pending) - start >= HEAD_BYTES:
            length = int.from_bytes(self._pending[start + 1 : start + HEAD_BYTES], "big")
            end = start + HEAD_BYTES + length
            if len(self._pending) < end:
                break
            kind = chr(self._pending[start])
            done.append((kind, bytes(self._pending[start + HEAD_BYTES : end])))
            start = end
        del self._pending[:start]
        return done


def named_file(payload: bytes) -> tuple[str, bytes]:
    """Name and content of an ``F`` frame."""
    length = int.from_bytes(payload[:2], "big")
    return payload[2 : 2 + length].decode("utf-8", "surrogateescape"), payload[2 + length :]
