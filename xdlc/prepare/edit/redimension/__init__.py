"""Resize of model inputs, propagated op by op."""

from xdlc.prepare.edit.redimension.run import redimension

__all__ = ["redimension"]
