"""Guests in virtual time: same job, same kernel, same bytes."""

from __future__ import annotations

from imtcp_lab.vm import kernels, uml_kernel
from imtcp_lab.vm.runner import DEFAULT_KERNEL, VmRunner
from imtcp_lab.vm.uml import UmlRunner

#: What ``--kernel`` knows: stock kernels in QEMU, and the fast one.
FAST = uml_kernel.SERIES
KERNELS = (*kernels.SERIES, FAST)


def runner(kernel: str = DEFAULT_KERNEL) -> VmRunner | UmlRunner:
    """Guests of one of :data:`KERNELS`."""
    return UmlRunner() if kernel == FAST else VmRunner(kernel=kernel)


def is_built() -> bool:
    """Whether the fast guests' kernel is there."""
    return uml_kernel.cached() is not None


__all__ = ["DEFAULT_KERNEL", "FAST", "KERNELS", "UmlRunner", "VmRunner", "is_built", "runner"]
