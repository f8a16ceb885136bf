"""Other extents for a model's inputs, and what follows from them op by op."""

from xdlc.prepare.edit.redimension.run import redimension

__all__ = ["redimension"]
