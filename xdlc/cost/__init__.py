"""Cost of a network on a device, from the op trace of the compiler."""
