"""Changes of a model before compilation: other outputs, types and dimensions."""

from xdlc.prepare.edit.edit import edit, optimize
from xdlc.prepare.edit.link import link

__all__ = ["edit", "link", "optimize"]
