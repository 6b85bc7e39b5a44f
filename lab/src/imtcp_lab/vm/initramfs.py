"""The guest's only file system: tools, libraries, modules, the agent."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import native, paths, tools
from imtcp_lab.vm import modules
from imtcp_lab.vm.cpio import Archive
from imtcp_lab.vm.kernels import Kernel

#: /bin, /sbin and /lib are links into /usr, as on Debian.
_LINKS = {
    "/bin": "usr/bin",
    "/sbin": "usr/bin",
    "/usr/sbin": "bin",
    "/lib": "usr/lib",
    "/lib64": "usr/lib64",
    "/var/run": "/run",
}
_DIRECTORIES = (
    "/dev",
    "/etc/ssh",
    "/out",
    "/proc",
    "/root",
    "/run",
    "/sys",
    "/tmp",
    "/usr/lib64",
    "/var/lib/nginx",
    "/var/log/nginx",
    "/work",
)
_ETC = {
    "/etc/passwd": "root:*:0:0:root:/root:/bin/sh\n"
    "www-data:*:33:33::/var/www:/bin/false\n"
    "sshd:*:100:65534::/run/sshd:/bin/false\n"
    "nobody:*:65534:65534::/nonexistent:/bin/false\n",
    "/etc/group": "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost lab\n::1 localhost\n",
    "/etc/hostname": "lab\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/shells": "/bin/sh\n",
}


@dataclass(frozen=True)
class Initramfs:
    """The archive, and data that identifies it."""

    content: bytes
    digest: str
    missing: tuple[str, ...]
    programs: tuple[str, ...]


def build(kernel: Kernel, warmup: str = "") -> Initramfs:
    """Makes the archive for `kernel` from this machine's tools.

    The guest runs the script `warmup` before its snapshot.
    """
    available = tools.find()
    archive = Archive()
    for name in _DIRECTORIES:
        archive.directory(name)
    for path, to in _LINKS.items():
        archive.symlink(path, to)
    for path, text in _ETC.items():
        archive.file(path, text.encode())
    archive.device("/dev/console", 5, 1)
    _add_programs(archive, available)
    _add_applets(archive, available.programs["busybox"])
    if available.bpf_object is not None:
        archive.file("/usr/lib/imtcp/imtcp.bpf.o", available.bpf_object.read_bytes())
    if available.ftp_module is not None:
        _add_executable(archive, "/usr/lib/imtcp/mod_imtcp.so", available.ftp_module)
    _add_modules(archive, kernel)
    guest = paths.checkout() / "lab" / "guest"
    archive.file("/init", (guest / "init").read_bytes(), 0o755)
    archive.file("/usr/lib/imtcp-guest/agent", native.build("agent").read_bytes(), 0o755)
    if warmup:
        archive.file("/usr/lib/imtcp-guest/warmup", warmup.encode())
    content = archive.to_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Initramfs(content, digest, available.missing, tuple(sorted(available.programs)))


def _add_programs(archive: Archive, available: tools.Tools) -> None:
    for name, path in available.programs.items():
        _add_executable(archive, f"/usr/bin/{name}", path)
    # The shell is dash, because busybox's shell would run its own ip and tc.
    archive.symlink("/usr/bin/sh", "dash")
    for helper in map(Path, tools.HELPER_FILES):
        if helper.is_file():
            _add_executable(archive, str(helper), helper)


def _add_executable(archive: Archive, to: str, path: Path) -> None:
    archive.file(to, path.read_bytes(), 0o755)
    for library in tools.shared_libraries(path):
        inside = str(library)
        if inside.startswith(("/lib/", "/lib64/")):
            inside = f"/usr{inside}"
        if inside not in archive:
            archive.file(inside, library.read_bytes(), 0o755)


def _add_applets(archive: Archive, busybox: Path) -> None:
    """Adds a link for every applet, except where a real program has the name."""
    done = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in done.stdout.split():
        if f"/usr/bin/{name}" not in archive:
            archive.symlink(f"/usr/bin/{name}", "busybox")


def _add_modules(archive: Archive, kernel: Kernel) -> None:
    ordered = modules.in_order(kernel.modules)
    for name, elf in ordered.items():
        archive.file(f"/usr/lib/modules/{name}.ko", elf)
    order = "".join(f"{name}.ko\n" for name in ordered)
    archive.file("/usr/lib/modules/order", order.encode())
