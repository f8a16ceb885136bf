"""Shapes of outputs follow from the texts of definitions."""

import numpy as np
import pytest

from xdlc.errors import ConstraintError
from xdlc.ir import dtype as dt
from xdlc.opdefs.model import Constraint, OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.shape_text import infer

PARAMS = {
    "axis": ParamDef("axis", False, (dt.INT32,), 0, default="2"),
    "stride": ParamDef("stride", True, (dt.UINT32,), 1),
    "factor": ParamDef("factor", False, (dt.FLOAT32,), 0),
    "mode": ParamDef("mode", False, (dt.UINT32,), 0, enumeration=("A", "B")),
}


def tensor(name, text="", *, rank=None, **more):
    return TensorDef(name, more.pop("mandatory", True), (dt.FLOAT32,), rank, text, **more)


def outputs(text, *shapes, texts=(), params=None, out=None, inputs=None):
    """Return the output shapes of an op by the texts of its tensors."""
    entries = inputs or tuple(
        tensor(f"in[{i}]", texts[i] if i < len(texts) else "") for i in range(max(len(shapes), 1))
    )
    entry = out or tensor("out[0]", text)
    definition = OpDef("Op", "Pkg", tuple(entries), (entry,), PARAMS)
    specs = tuple(None if shape is None else TensorSpec(tuple(shape), dt.FLOAT32) for shape in shapes)
    found = infer(definition, OpView("Pkg", "Op", "node", specs, (), params or {}))
    return found and [None if spec is None else list(spec.shape) for spec in found]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("[2, 3]", [2, 3]),
        ("[N, C, H, W]", [1, 8, 6, 5]),
        ("[N, H * 2, W + 1, C]", [1, 12, 6, 8]),
        ("[N, H / 4]", [1, 1]),
        ("[N, ceil(H / 4), floor(W / 2), W % 3]", [1, 2, 2, 2]),
        ("[N, (H - 1) * stride[0] + 1]", [1, 11]),
        ("[in[0].dim[0], in[0].dim[1] * 2]", [1, 12]),
        ("[shape(in[0])[-1], rank(in[0]), axis + 1]", [8, 4, 3]),
        ("[size of in[0]]", [240]),
        ("[N, H * factor]", [1, 9]),
        ("[max(H, W), min(H, W), abs(W - H)]", [6, 5, 1]),
        ("[.., 10]", None),
        ("shape = shape of in[0]", [1, 6, 5, 8]),
        ("shape(in[0])", [1, 6, 5, 8]),
        ("in[0].shape", [1, 6, 5, 8]),
        ("in[0]", [1, 6, 5, 8]),
        ("same as in[0]", [1, 6, 5, 8]),
        ("The same shape as in[0]", [1, 6, 5, 8]),
        ("broadcast(in[0], in[0])", [1, 6, 5, 8]),
        ("shape of in[0] * 2", [2, 12, 10, 16]),
        ("[N, unknown]", None),
        ("[N, _]", None),
        ("as many as there are boxes", None),
        ("[batch size, boxes]", None),
        ("[N, H] of the input", None),
        ("", None),
        ("[]", None),
        ("[mode]", None),
        ("[N, in[1].dim[0]]", None),
        ("[N / 0]", None),
        ("[N, C, 9999999999 * 9999999999]", None),
    ],
)
def test_of_one_input(text, shape):
    params = {"stride": np.array([2, 2]), "factor": 1.5, "mode": "A"}
    found = outputs(text, (1, 6, 5, 8), texts=["[N, H, W, C]"], params=params)
    assert found == (shape and [shape])


def test_any_number_of_axes_is_taken_over():
    assert outputs("[.., 7]", (2, 3, 4), texts=["[.., C]"]) == [[2, 3, 7]]
    assert outputs("[batch, ..]", (2, 3, 4), texts=["[batch, .., C]"]) == [[2, 3]]
    assert outputs("[..., C, C]", (4,), texts=["[..., C]"]) == [[4, 4]]


def test_extents_come_from_several_inputs():
    assert outputs("[M, N]", (2, 3), (3, 4), texts=["[M, K]", "[K, N]"]) == [[2, 4]]
    assert outputs("broadcast(in[0], in[1])", (2, 1, 3), (4, 1)) == [[2, 4, 3]]


def test_open_extents_stay_open():
    assert outputs("[M, N]", (None, 3), (3, 4), texts=["[M, K]", "[K, N]"]) == [[None, 4]]
    assert outputs("[M, K]", (2, None), (3, 4), texts=["[M, K]", "[K, N]"]) == [[2, 3]]
    assert outputs("shape = in[0]", (None, 3)) == [[None, 3]]
    assert outputs("[M * 2, max(M, 1)]", (None,), texts=["[M]"]) == [[None, None]]


def test_inputs_that_are_left_out_tell_nothing():
    assert outputs("[N]", None, (4,), texts=["[N]", "[M]"]) is None
    assert outputs("[M]", None, (4,), texts=["[N]", "[M]"]) == [[4]]
    assert outputs("shape of in[0]", None, (4,)) is None


def test_parameters_have_their_defaults_and_repeated_inputs_their_places():
    assert outputs("[axis]", (1,)) == [[2]]
    assert outputs("[axis]", (1,), params={"axis": 5}) == [[5]]
    inputs = (tensor("x", "[N]"), tensor("rest", "[N, K]", repeated=True))
    assert outputs("[N, number of rest, K]", (2,), (2, 3), (2, 3), inputs=inputs) == [[2, 2, 3]]
    assert outputs("[rest[1].dim[1]]", (2,), (2, 3), (2, 3), inputs=inputs) == [[3]]
    assert outputs("[in[2].dim[0]]", (2,), (2, 3), (2, 3), inputs=inputs) == [[2]]


def test_a_rule_that_fixes_the_shape_speaks_where_the_text_does_not():
    rule = (Constraint("0", "Shape", "shape = in[0]"),)
    assert outputs("", (2, 3), out=tensor("y", "in words", constraints=rule)) == [[2, 3]]
    rule = (Constraint("0", "Shape", "shape(y) == broadcast(in[0], in[1])"),)
    assert outputs("", (2, 3), (1, 1), out=tensor("y", constraints=rule)) == [[2, 3]]
    rule = (Constraint("0", "Shape", "rank = 2"),)
    assert outputs("", (2, 3), out=tensor("y", constraints=rule)) is None


def test_types_come_with_the_shape_where_there_is_one():
    entries = (
        TensorDef("a", True, (dt.INT32,), None, "[N]"),
        TensorDef("b", True, (dt.INT32, dt.INT64), None, "[N]"),
        TensorDef("c", False, (), None, "words"),
        TensorDef("d", False, (), None, "[2]", repeated=True),
    )
    definition = OpDef("Op", "Pkg", (tensor("x", "[N]"),), entries, {})
    view = OpView("Pkg", "Op", "node", (TensorSpec((3,), dt.FLOAT32),), (), {})
    found = infer(definition, view, 6)
    assert [spec and (spec.name, spec.shape, spec.dtype) for spec in found] == [
        ("a", (3,), dt.INT32),
        ("b", (3,), dt.UNDEFINED),
        None,
        *[("d", (2,), dt.UNDEFINED)] * 3,
    ]
    assert len(infer(definition, view)) == 4
    assert len(infer(definition, view, 1)) == 1


@pytest.mark.parametrize(
    ("text", "shapes", "texts", "message"),
    [
        (
            "[N]",
            [(2,), (3,)],
            ["[N]", "[N]"],
            "input 'in[1]': expected dimension 2 (N, as in 'in[0]') on axis 0, found shape [3]",
        ),
        ("[N]", [(2, 3)], ["[N]"], "input 'in[0]': expected [N], found shape [2, 3]"),
        ("[N]", [(2,)], ["[.., N, K]"], "input 'in[0]': expected [.., N, K], found shape [2]"),
        ("[N]", [(2, 3)], ["[N, 4]"], "expected dimension 4 on axis 1, found shape [2, 3]"),
        ("[N]", [(2, 3)], ["[N, N + 2]"], "expected dimension 4 (N + 2) on axis 1"),
        ("[N, axis]", [(2, 3)], ["[N, axis]"], "expected dimension 2 (axis) on axis 1"),
        ("[N - 3]", [(2,)], ["[N]"], "has a negative dimension by its text: [-1]"),
    ],
)
def test_contradictions_are_errors(text, shapes, texts, message):
    with pytest.raises(ConstraintError) as caught:
        outputs(text, *shapes, texts=texts)
    assert message in caught.value.problem
    assert "node" in str(caught.value)


def test_a_text_that_contradicts_the_rank_is_an_error():
    with pytest.raises(ConstraintError, match=r"has rank 4, but its text states \[2\]"):
        outputs("", (2,), out=tensor("y", "[2]", rank=4))
