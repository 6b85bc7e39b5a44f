"""The imtcp laboratory: experiments on real kernels in virtual or real time."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("imtcp-lab")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"
