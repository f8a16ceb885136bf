"""Lowerings, one op or one family of ops a module; each registers itself."""
