"""Shared by the laboratory's tests."""

from running_kernel import running_kernel as running_kernel
