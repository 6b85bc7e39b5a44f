"""Network namespaces on the running kernel: real time, full speed."""

from __future__ import annotations

from imtcp_lab.netns.probe import has_netem
from imtcp_lab.netns.runner import NetnsRunner

__all__ = ["NetnsRunner", "has_netem"]
