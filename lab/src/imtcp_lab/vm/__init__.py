"""The virtual-time kernel VM: same job, same kernel, same bytes."""

from __future__ import annotations

from imtcp_lab.vm.runner import VmRunner

__all__ = ["VmRunner"]
