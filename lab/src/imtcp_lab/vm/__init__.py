"""Guests in virtual time: an equal job on an equal kernel gives equal bytes."""

from __future__ import annotations

from imtcp_lab.vm import kernels, uml_kernel
from imtcp_lab.vm.kernels import Kernel
from imtcp_lab.vm.runner import DEFAULT_KERNEL, DEFAULT_MEMORY_MB, VmRunner
from imtcp_lab.vm.uml import UmlRunner

#: Kernels for ``--kernel``: stock ones in QEMU, and the fast one.
FAST = uml_kernel.SERIES
KERNELS = (*kernels.SERIES, FAST)


def guests_of(
    kernel: str = DEFAULT_KERNEL, memory_mb: int = DEFAULT_MEMORY_MB
) -> VmRunner | UmlRunner:
    """A runner with guests of one of :data:`KERNELS`, each with this many MiB of memory."""
    if kernel == FAST:
        return UmlRunner(memory_mb=memory_mb)
    return VmRunner(kernel=kernel, memory_mb=memory_mb)


def get_kernel(kernel: str, *, update: bool = False) -> Kernel:
    """The kernel of this name: a cached one, or (also with `update`) the newest.

    Raises :class:`~imtcp_lab.job.MissingPrerequisite` if it is not available.
    """
    return uml_kernel.get(update=update) if kernel == FAST else kernels.get(kernel, update=update)


def is_built() -> bool:
    """Whether the fast guests' kernel is built."""
    return uml_kernel.cached() is not None


__all__ = [
    "DEFAULT_KERNEL",
    "DEFAULT_MEMORY_MB",
    "FAST",
    "KERNELS",
    "UmlRunner",
    "VmRunner",
    "get_kernel",
    "guests_of",
    "is_built",
]
