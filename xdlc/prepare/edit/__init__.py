"""Changes to a model before it is compiled: other outputs, types and dimensions."""

from xdlc.prepare.edit.edit import edit, optimize

__all__ = ["edit", "optimize"]
