"""A deterministic initramfs archive (cpio "newc"): an equal tree gives equal bytes."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import PurePosixPath


@dataclass
class Archive:
    """Files by absolute path; in the archive the owner is root, the time 0 and the order sorted."""

    _entries: dict[str, tuple[int, bytes, int]] = field(default_factory=dict)

    def __contains__(self, path: str) -> bool:
        return _relative(path) in self._entries

    def directory(self, path: str, mode: int = 0o755) -> None:
        """Adds a directory and its parents."""
        self._parents(path)
        self._entries.setdefault(_relative(path), (stat.S_IFDIR | mode, b"", 0))

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Adds a regular file, which replaces an earlier one."""
        self._parents(path)
        self._entries[_relative(path)] = (stat.S_IFREG | mode, content, 0)

    def symlink(self, path: str, to: str) -> None:
        """Adds a symbolic link at `path` that points to `to`."""
        self._parents(path)
        self._entries[_relative(path)] = (stat.S_IFLNK | 0o777, to.encode(), 0)

    def device(self, path: str, major: int, minor: int, mode: int = 0o600) -> None:
        """Adds a character device."""
        self._parents(path)
        self._entries[_relative(path)] = (stat.S_IFCHR | mode, b"", (major << 8) | minor)

    def _parents(self, path: str) -> None:
        for parent in reversed(PurePosixPath(_relative(path)).parents):
            if str(parent) != ".":
                self._entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b"", 0))

    def to_bytes(self) -> bytes:
        """The archive.  Parents come before their contents."""
        pieces: list[bytes] = []
        size = 0

        def add(piece: bytes) -> None:
            nonlocal size
            pieces.append(piece)
            size += len(piece)
            if size % 4:
                pieces.append(b"\0" * (4 - size % 4))
                size += 4 - size % 4

        for number, name in enumerate(sorted(self._entries), start=1):
            mode, content, device = self._entries[name]
            add(_header(number, mode, len(content), device, name) + name.encode() + b"\0")
            add(content)
        add(_header(0, 0, 0, 0, "TRAILER!!!") + b"TRAILER!!!\0")
        return b"".join(pieces)


def _relative(path: str) -> str:
    return path.lstrip("/")


def _header(inode: int, mode: int, size: int, device: int, name: str) -> bytes:
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (inode, mode, 0, 0, links, 0, size, 0, 0, device >> 8, device & 0xFF)
    tail = (len(name.encode()) + 1, 0)
    return b"070701" + b"".join(b"%08X" % value for value in (*fields, *tail))
