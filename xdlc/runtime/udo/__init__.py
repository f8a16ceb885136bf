"""User-defined operations on the host: their libraries and Python kernels, run in child processes."""
