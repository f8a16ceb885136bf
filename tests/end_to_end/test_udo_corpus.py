"""onnxruntime's test models with custom operators, quantized with kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdlc import api
from xdlc.ir import DType
from xdlc.ir.dtype import INT32, UFIXED8

PER_CORE = {"CPU": "FLOAT_32", "DSP": "UINT_8"}
MARKS = "import numpy as np\nfrom xdlc.udo import TensorSpec, kernel, shape_function\n"


def real(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "per_core_data_types": PER_CORE} for name in names]


def integer(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "data_type": "INT_32"} for name in names]


CASES: dict[str, tuple[dict[str, Any], str, list[tuple[str, list[DType], DType]]]] = {
    "custom_op_test": (
        {"CustomOpOne": (real("a", "b"), real("y")), "CustomOpTwo": (real("a"), integer("y"))},
        """
@shape_function("Pkg", "CustomOpOne")
def like(op):
    return op.inputs[0]

@kernel("Pkg", "CustomOpOne")
def add(inputs, params, outputs):
    return inputs[0] + inputs[1]

@kernel("Pkg", "CustomOpTwo")
def nearest(inputs, params, outputs):
    return np.rint(inputs[0]).astype(np.int32)
""",
        [("CustomOpOne", [UFIXED8, UFIXED8], UFIXED8), ("CustomOpTwo", [UFIXED8], INT32)],
    ),
    "custom_mul": (
        {"Custom_Mul": (real("a", "b"), real("y"))},
        """
@shape_function("Pkg", "Custom_Mul")
def like(op):
    return op.inputs[0]

@kernel("Pkg", "Custom_Mul")
def multiply(inputs, params, outputs):
    return inputs[0] * inputs[1]
""",
        [("Custom_Mul", [UFIXED8, UFIXED8], UFIXED8)],
    ),
    "VariedInputCustomOp": (
        {"Slice": (real("x") + integer("begin", "end"), real("y"))},
        """
@shape_function("Pkg", "Slice")
def part(op):
    x, begin, end = op.inputs
    return TensorSpec((int(end.data.numpy()[0] - begin.data.numpy()[0]),), x.dtype)

@kernel("Pkg", "Slice")
def cut(inputs, params, outputs):
    x, begin, end = inputs
    return x[int(begin[0]) : int(end[0])]
""",
        [("Slice", [UFIXED8, INT32, INT32], UFIXED8)] * 2,
    ),
}


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest, corpus: Path, tmp_path: Path) -> tuple[str, Any, Any, Path]:
    """Return the name of a model, it in float and quantized, and its kernels."""
    name = request.param
    operators, code, _ = CASES[name]
    definitions = [
        {"type": type, "inputs": inputs, "outputs": outputs, "core_types": ["CPU", "DSP"]}
        for type, (inputs, outputs) in operators.items()
    ]
    config, kernels = tmp_path / "pkg.json", tmp_path / "pkg.py"
    config.write_text(json.dumps({"P": {"Operators": definitions, "UDO_PACKAGE_NAME": "Pkg"}}))
    kernels.write_text(MARKS + code)
    source = corpus / "onnx" / "ort_misc" / name / f"{name}.onnx"
    model = api.convert(source, udo_config_paths=[config], converter_op_package_lib=[kernels])
    made = api.quantize(model, samples_of(model), udo_package_path=kernels)
    return name, model, made, kernels


def samples_of(model: Any) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        {tensor.name: rng.uniform(-3, 3, tensor.shape).astype("f4") for tensor in model.main.inputs}
        for _ in range(8)
    ]


@pytest.mark.corpus
def test_results_are_close_to_those_in_float(case: tuple[str, Any, Any, Path]) -> None:
    name, model, quantized_model, kernels = case
    rows = [
        (op.type, [t.dtype for t in op.inputs if t is not None], op.outputs[0].dtype)
        for op in quantized_model.main.ops
        if op.package == "Pkg"
    ]
    assert rows == CASES[name][2]
    for sample in samples_of(model):
        wanted = api.run(model, sample, udo_package_path=kernels)
        given = api.run(quantized_model, sample, udo_package_path=kernels)
        for key, array in wanted.items():
            assert given[key].dtype == array.dtype
            limit = 1 if array.dtype.kind == "i" else 0.15
            assert np.abs(given[key].astype("f8") - array).max() <= limit


@pytest.mark.corpus
@pytest.mark.vendor
def test_the_vendors_reader_takes_them(
    case: tuple[str, Any, Any, Path], tmp_path: Path, vendor_check: Callable[..., dict[str, Any]]
) -> None:
    _, _, model, _ = case
    model.save(tmp_path / "q.dlc")
    answer = vendor_check("read", tmp_path / "q.dlc")
    assert answer["ok"], answer
    found = [(op["package"], op["type"]) for graph in answer["graphs"] for op in graph["ops"]]
    assert [("Pkg", op.type) for op in model.main.ops if op.package == "Pkg"] == [
        entry for entry in found if entry[0] == "Pkg"
    ]
