"""Changes to a model before it is compiled: other outputs, other types at its ports, other extents."""

from xdlc.prepare.edit.edit import edit

__all__ = ["edit"]
