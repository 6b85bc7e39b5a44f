"""Network namespaces on the running kernel: real time, full speed."""
