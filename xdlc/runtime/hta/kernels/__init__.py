"""One kind of instruction a module; each registers itself with ``registry.kernel``."""
