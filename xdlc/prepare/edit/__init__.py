"""Changes of a model before compilation: other outputs, types and dimensions."""

from xdlc.prepare.edit.edit import edit, optimize

__all__ = ["edit", "optimize"]
