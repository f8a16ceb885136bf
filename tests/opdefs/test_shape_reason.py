"""An output whose text does not determine its shape has a reason."""

import pytest

from xdlc.ir import dtype as dt
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.shape_text import why_unknown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ""),
        ("[n, h / 2, w]", ""),
        ("same as in[0]", ""),
        ("[n, q]", "'q' is neither in the Shape/Text of an input nor a parameter (its text is [n, q])"),
        ("[n, o + 1]", "no input or parameter of the op binds dimension 'o'"),
        ("[n, b]", "'b' is the name of a tensor, not of a dimension"),
        ("[n, times]", "parameter 'times' is not set"),
        ("[n, n / 0]", "'n / 0' is not a whole number for this op"),
        ("[n, _]", "'_' matches any dimension"),
        ("[.., n]", "no input binds '..'"),
        ("[n, h h]", "'h h' is not an expression: 'h' after 'h'"),
        ("as many as boxes", "its text 'as many as boxes' is not a list of dimensions"),
        ("[n, 2, h]", "input 'w': expected dimension 5 (w, as in 'x')"),
    ],
)
def test_reasons(text, reason):
    def place(name, text):
        return TensorDef(name, True, (dt.FLOAT32,), None, text)

    inputs = (place("x", "[n, h, w]"), place("w", "[w]"), place("b", ""), place("maybe", "[o]"))
    y = place("y", text)
    definition = OpDef("A", "P", inputs, (y,), {"times": ParamDef("times", False, (dt.INT32,), 0)})
    wide = 6 if "dimension 5" in reason else 5
    specs = [TensorSpec(shape, dt.FLOAT32) for shape in ((2, 4, 5), (wide,), (3,))]
    found = why_unknown(definition, OpView("P", "A", "a", (*specs, None), ()), y)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)
