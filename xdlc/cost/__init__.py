"""Cost of a network on a device: traffic and engines, from the compiler's op trace."""
