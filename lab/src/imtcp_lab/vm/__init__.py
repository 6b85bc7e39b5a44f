"""The virtual-time kernel VM: same job, same kernel, same bytes."""
