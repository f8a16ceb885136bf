"""Operations of channel-last frameworks, written with canonical operators.

Functions raise ``ModelError`` where shapes, sizes or axes do not fit, and ``UnsupportedOp`` where an axis is
open whose size they need.  Their docstrings state other errors.
"""
