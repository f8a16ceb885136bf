"""One op, or one family of ops, a module; each registers itself with ``registry.compiler``."""
