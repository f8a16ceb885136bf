"""Folding by numpy, which equals onnxruntime's, and what numpy does not fold."""

from __future__ import annotations

import numpy as np
import pytest

from xdlc.converter.operators import folding
from xdlc.converter.operators.folding import evaluation
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value, identity
from xdlc.ir import ArrayData, Role, Tensor
from xdlc.ir.dtype import from_numpy

ROWS = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
CASES = {
    "sum of numbers": ("Add", [np.float32(2), np.float32(0.1)], {}),
    "broadcast difference": ("Sub", [ROWS[:, None], ROWS], {}),
    "product that wraps round": ("Mul", [np.int64([1 << 62, 3]), np.int64(4)], {}),
    "integer quotient": ("Div", [np.int32([-7, 7, -8, -1, 9, 8]), np.int32([2, 2, 4, 9, -2, -2])], {}),
    "division by 0": ("Div", [np.float64([0, 1]), np.float64([0, 0])], {}),
    "greatest of numbers and none": ("Max", [np.float32([1, np.nan]), np.float32([2, 2])], {}),
    "least": ("Min", [ROWS, np.float32(0)], {}),
    "root of a negative number": ("Sqrt", [np.float32([-1, 2, 3])], {}),
    "inverses": ("Reciprocal", [np.float32([0, 3, 7])], {}),
    "negated": ("Neg", [ROWS], {}),
    "columns from the end": ("Gather", [ROWS, np.array([[-1, 0]])], {"axis": 1}),
    "one row": ("Gather", [ROWS, np.array(-2)], {}),
    "joined columns": ("Concat", [ROWS[:, :1], ROWS], {"axis": -1}),
    "rows upwards": ("Slice", [ROWS, np.array([5]), np.array([-9]), np.array([0]), np.array([-2])], {}),
    "a part": ("Slice", [ROWS, np.array([-2, 1]), np.array([9, -1])], {}),
    "product of rows": ("ReduceProd", [np.arange(1, 7).reshape(2, 3)], {"axes": [-1]}),
    "product of all": ("ReduceProd", [np.arange(1, 5)], {"axes": [0], "keepdims": 0}),
}
OTHERS = {
    "halves": ("Add", [np.float16([1]), np.float16([2])], {}),
    "shapes that do not fit": ("Add", [ROWS, np.float32([1, 2, 3])], {}),
    "quotient by 0": ("Div", [np.int32([1, 2]), np.int32([2, 0])], {}),
    "an index that is too large": ("Gather", [ROWS, np.array([3])], {}),
    "other rows": ("Concat", [ROWS, ROWS[:2]], {"axis": 1}),
    "nothing": ("Gather", [ROWS, np.zeros(0, np.int64)], {}),
    "steps of nothing": ("Slice", [ROWS, *(np.array([0]) for _ in range(4))], {}),
    "an axis twice": ("ReduceProd", [np.ones((2, 2), np.int64)], {"axes": [0, -2]}),
}


def made(type, arrays, attributes):
    """Return a node of constants."""
    values = []
    for index, array in enumerate(arrays):
        data = ArrayData(array)
        tensor = Tensor(f"i{index}", data.shape, from_numpy(data.dtype), None, data, Role.STATIC)
        values.append(Value(tensor, identity(len(data.shape))))
    names = [value.tensor.name for value in values]
    return Node(
        type=type,
        names=names,
        outputs=["y"],
        inputs=values,
        attributes=attributes,
        own_name="n",
        opset=17,
        is_applied=True,
    )


@pytest.mark.parametrize("case", CASES)
def test_numpy_folds_as_onnxruntime_evaluates(monkeypatch, case):
    node = made(*CASES[case])
    nbytes, compute = evaluation(node, [value.tensor.data for value in node.inputs])
    monkeypatch.setattr(folding, "evaluation", lambda *_: None)
    (wanted,) = folding.Folding(lambda: 0).evaluate(made(*CASES[case]))
    found = compute()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.nbytes <= nbytes
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


@pytest.mark.parametrize("case", OTHERS)
def test_numpy_leaves_other_nodes_alone(case):
    node = made(*OTHERS[case])
    assert evaluation(node, [value.tensor.data for value in node.inputs]) is None
