"""onnxruntime's test models with operators whose domains they do not import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.custom_ops import custom, like_first, param, place
from xdlc.converter.onnx import FRONTEND
from xdlc.errors import XdlcError
from xdlc.ir import Model
from xdlc.ir.dtype import FLOAT32, FLOAT64, INT32, STRING, UINT32
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Udo, UdoSet

pytestmark = pytest.mark.corpus
ANY, REALS = (FLOAT32, INT32), (FLOAT32, FLOAT64)


def _first_elements(op: OpView) -> list[TensorSpec]:
    first, begin, end = op.inputs
    assert first is not None
    assert begin is not None
    assert end is not None
    assert begin.data is not None
    assert end.data is not None
    return [TensorSpec((int(end.data.numpy()[0] - begin.data.numpy()[0]),), first.dtype)]


def _model(corpus: Path, name: str, *ops: Udo, **options: Any) -> Model:
    shapes = options.pop("shapes", {})
    path = corpus / "onnx" / "ort_misc" / name / f"{name}.onnx"
    return FRONTEND.convert(path, udos=UdoSet(ops, {}, shapes), **options)


BOX = custom(
    "Box",
    [place("a"), place("b"), place("c", mandatory=False)],
    [place("y"), place("z", mandatory=False)],
)
COPY = (
    [place("a"), place("more", mandatory=False, repeated=True)],
    [place("y"), place("others", mandatory=False, repeated=True)],
)
CASES: dict[str, tuple[list[Udo], dict[str, Any], list[str]]] = {
    "custom_mul": ([custom("Custom_Mul", [place("a"), place("b")], [place("y")])], {}, ["Custom_Mul"]),
    "custom_op_test": (
        [
            custom("CustomOpOne", [place("a"), place("b")], [place("y")]),
            custom("CustomOpTwo", [place("a")], [place("y", [INT32])]),
        ],
        {"shapes": {("Pkg", "CustomOpOne"): like_first}},
        ["CustomOpOne", "CustomOpTwo"],
    ),
    "attr_tester": (
        [
            custom(
                "AttrTesterIntFloat",
                [place("a")],
                [place("y")],
                param("a_int", UINT32),
                param("a_float", FLOAT32),
                param("ints", INT32, rank=1),
                param("floats", FLOAT32, rank=1),
            ),
            custom(
                "AttrTesterString",
                [place("a")],
                [place("y")],
                param("a_string", STRING),
                param("strings", STRING),
            ),
        ],
        {"shapes": {("Pkg", "AttrTesterIntFloat"): like_first}},
        ["AttrTesterIntFloat", "AttrTesterString"],
    ),
    "copy_2_inputs_2_outputs": (
        [custom("CopyTensorArrayAllVariadic", *COPY)],
        {},
        ["CopyTensorArrayAllVariadic"],
    ),
    "copy_3_inputs_3_outputs": ([custom("CopyTensorArrayCombined", *COPY)], {}, ["CopyTensorArrayCombined"]),
    "optional_1": (
        [
            custom(
                "OptionalOp",
                [place("a"), place("b", mandatory=False)],
                [place("y"), place("z", mandatory=False)],
            )
        ],
        {},
        ["OptionalOp"],
    ),
    "optional_2": ([BOX], {}, ["Box"]),
    "optional_3": ([BOX], {}, ["Box"]),
    "VariedInputCustomOp": (
        [
            custom(
                "Slice",
                [place("x", REALS), place("begin", [INT32]), place("end", [INT32])],
                [place("y", REALS)],
            )
        ],
        {"shapes": {("Pkg", "Slice"): _first_elements}},
        ["Slice", "Slice"],
    ),
    "custom_op_single_schema_multi_kernel": (
        [custom("MulTop", [place("x", ANY)], [place("y", ANY)])],
        {"shapes": {("Pkg", "MulTop"): like_first}},
        ["MulTop", "MulTop"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_of_a_models_own_domain(corpus: Path, name: str) -> None:
    ops, options, types = CASES[name]
    with pytest.raises(XdlcError) as caught:
        _model(corpus, name)
    assert "has no mapping onto QNN operations" in str(caught.value)
    model = _model(corpus, name, *ops, **options)
    assert [op.type for op in model.main.ops if op.package == "Pkg"] == types


def test_the_dimensions_of_dynamic_inputs_can_be_bound(corpus: Path) -> None:
    ops, _, _ = CASES["optional_2"]
    notices: list[str] = []
    dims = {"float_in_1": (3,), "float_in_2": (3,)}
    model = _model(corpus, "optional_2", *ops, input_dims=dims, notify=notices.append)
    assert [tensor.shape for tensor in model.main.inputs] == [(3,), (3,)]
    assert any("'float_out_1', an output" in text for text in notices)
    model = _model(corpus, "optional_2", *ops, input_dims=dims, shapes={("Pkg", "Box"): like_first})
    assert [(tensor.shape, tensor.dynamic_axes) for tensor in model.main.outputs] == [((3,), ())]


def test_an_op_with_dynamic_dimensions_runs(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "box.py").write_text(
        "from xdlc.udo import kernel\n"
        "@kernel('Pkg', 'Box')\n"
        "def box(inputs, params, outputs):\n"
        "    return inputs[0] + inputs[1]\n"
    )
    ops, _, _ = CASES["optional_2"]
    model = _model(corpus, "optional_2", *ops)
    feeds = {"float_in_1": np.arange(3, dtype=np.float32), "float_in_2": np.ones(3, np.float32)}
    result = xdlc.run(model, feeds, udo_package_path=tmp_path / "box.py")
    assert result["float_out_1"].tolist() == [1, 2, 3]
