"""Kernels of plugins in the runtime: compiled and in Python, ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.runtime.udo.kernel_meta import call
from tests.support.compilers import needs_cc
from tests.support.onnx_models import build
from tests.udo.plugin.plugins import node, spec, view, written
from xdlc import api
from xdlc.container.udo import add_definitions
from xdlc.errors import BackendError, XdlcError
from xdlc.ir import Graph, Model, Op, Tensor, make_op, static
from xdlc.ir.dtype import UFIXED8, from_numpy
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Udo
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.runtime.udo.kernel_files import kernel_files
from xdlc.udo.plugin.collection import plugin_set

SHAPES = """class Shapes(Plugin):
    op_type = "Shapes"
    domain = "custom"
    package = "Pack"
    inputs = [Input("a", (TYPE,)), Input("b", (TYPE,)), Input("c", (TYPE,), optional=True)]
    outputs = [Output("y", dtypes=(TYPE,)), Output("z", dtypes=(TYPE,))]

    def infer_shape_and_type(self, op):
        return [same_as(op.inputs[0]), same_as(op.inputs[1])]

    def build_kernel(self, op):
        return compile_c(op, SOURCE, entry="shapes", arguments="i", values=(op.inputs[2] is not None,))

    def compute(self, inputs, params, outputs):
        a, b, c = inputs
        assert outputs[0].shape == a.shape and outputs[1].shape == b.shape
        result = a + a.dtype.type(1)
        return [result if c is None else result + c, b * b.dtype.type(2)]
"""
SOURCE = r"""
#define _GNU_SOURCE
#include "CPU/QnnCpuOpPackage.h"

static uint64_t count(const QnnCpuOpPackage_Tensor_t *tensor) {
  uint64_t total = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) total *= tensor->currentDimensions[axis];
  return total;
}

Qnn_ErrorHandle_t shapes(const QnnCpuOpPackage_Node_t *node) {
  if (node->numOfInputs < 2 || node->numOfOutputs != 2 || node->numOfParams != 1)
    return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  const int has_c = node->numOfInputs > 2 && node->inputs[2] != NULL;
  if (has_c != (int64_t)node->params[0]->scalarParam) return QNN_OP_PACKAGE_ERROR_GENERAL;
  if (node->inputs[0]->rank != 4 || node->outputs[0]->rank != 4)
    return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
  const ELEMENT *a = node->inputs[0]->data, *b = node->inputs[1]->data;
  const ELEMENT *c = has_c ? node->inputs[2]->data : 0;
  ELEMENT *y = node->outputs[0]->data, *z = node->outputs[1]->data;
  for (uint64_t i = 0; i < count(node->inputs[0]); i++) y[i] = (ELEMENT)(a[i] + 1 + (c ? c[i] : 0));
  for (uint64_t i = 0; i < count(node->inputs[1]); i++) z[i] = (ELEMENT)(2 * b[i]);
  return QNN_SUCCESS;
}
"""


def plugin_file(folder: Path, dtype: str = "float32", text: str = SHAPES) -> Path:
    element = {"float32": "float", "int8": "signed char", "int32": "int"}[dtype]
    head = f"TYPE = {dtype!r}\nSOURCE = {SOURCE.replace('ELEMENT', element)!r}\n"
    return written(folder, head + text)


def model_of(op: Udo, arrays: dict[str, Any]) -> tuple[Model, Op]:
    """Return a model of one op from arrays; static ones are named w..."""
    tensors = [
        None
        if array is None
        else (spec(data=array) if name.startswith("w") else TensorSpec(array.shape, from_numpy(array.dtype)))
        for name, array in arrays.items()
    ]
    op_view = view(op, node(*tensors), (None,) * len(op.definition.outputs))
    results = op.infer_shape_and_type(op_view)
    op_view = OpView(op_view.package, op_view.type, "custom", op_view.inputs, results, op_view.params)
    graph = Graph("graph")
    inputs: list[Tensor | None] = []
    for name, array in arrays.items():
        if array is None:
            inputs.append(None)
        elif name.startswith("w"):
            inputs.append(static(name, array))
        else:
            inputs.append(graph.add_input(Tensor(name, array.shape, from_numpy(array.dtype))))
    outputs = [Tensor(f"out{place}", found.shape, found.dtype) for place, found in enumerate(results)]
    params = op.parse_params(node(*tensors))
    appended = graph.append(
        make_op(
            graph, op.definition.name, inputs, outputs, params, package=op.definition.package, name="custom"
        )
    )
    for tensor in outputs:
        graph.add_output(tensor)
    model = Model({"graph": graph})
    kernel = op.build_kernel(op_view)
    if kernel is not None:
        model.files |= kernel_files([call(model, kernel, "custom")])
    return model, appended


def run(model: Model, arrays: dict[str, Any], *paths: Path) -> list[Any]:
    feeds = {name: array for name, array in arrays.items() if array is not None and not name.startswith("w")}
    with Kernels(paths, model=model) as kernels:
        return list(CpuSession(model, kernels=kernels).run(feeds, native=True).values())


@needs_cc
@pytest.mark.parametrize(("dtype", "has_c"), [("float32", True), ("int8", False), ("int32", True)])
def test_both_kernels_get_tensors_as_the_model_has_them(tmp_path, dtype, has_c):
    path = plugin_file(tmp_path, dtype)
    (op,) = plugin_set([str(path)], False).ops
    rng = np.random.default_rng(1)
    a, c = (rng.integers(-20, 20, (2, 3, 4, 5)).astype(dtype) for _ in range(2))
    arrays = {"a": a, "b": np.arange(6).reshape(2, 3).astype(dtype), "c": c if has_c else None}
    model, _ = model_of(op, arrays)
    expected = [a + 1 + (c if has_c else 0), 2 * arrays["b"]]
    model.save(tmp_path / "model.dlc")
    for source in (tmp_path / "kernel_meta", path):
        found = run(model, arrays, source)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


@needs_cc
def test_quantized_activations_come_as_reals(tmp_path):
    path = plugin_file(tmp_path)
    path.write_text(path.read_text().replace("(TYPE,)", "('ufixed8',)"))
    rng = np.random.default_rng(2)
    feeds = {"a": rng.standard_normal((1, 19, 4, 4)).astype(np.float32), "b": np.float32([[1, 2, 3]])}
    nodes = [onnx.helper.make_node("Shapes", ["a", "b"], ["y", "z"], "n", domain="custom")]
    onnx.save_model(build(nodes, feeds, None, ["y", "z"], 17), tmp_path / "m.onnx")
    model = api.convert(tmp_path / "m.onnx", plugin=[str(path)])
    quantized = api.quantize(model, [feeds], udo_package_path=path)
    (op,) = quantized.main.ops
    assert [tensor.dtype for tensor in op.outputs] == [UFIXED8, UFIXED8]
    quantized.save(tmp_path / "quantized.dlc")
    for source in (path, tmp_path / "kernel_meta"):
        found = api.run(quantized, feeds, udo_package_path=source)
        np.testing.assert_allclose(found["y"], feeds["a"] + 1, atol=0.05)
        np.testing.assert_allclose(found["z"], 2 * feeds["b"], atol=0.05)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("return [result", "return 1 / 0; [result"), "raised ZeroDivisionError"),
        (("b * b.dtype.type(2)]", "b * b.dtype.type(2), a]"), "returned 3 results, but the op has 2 outputs"),
        (("else result + c,", "else result + c, 'x' or"), "an object of type str for output 1"),
    ],
)
def test_a_compute_method_that_fails_is_told(tmp_path, change, problem):
    path = plugin_file(tmp_path, text=SHAPES.replace(*change).replace("def build_kernel", "def unused"))
    (op,) = plugin_set([str(path)], False).ops
    arrays = {"a": np.ones((1, 2, 3, 3), np.float32), "b": np.ones(2, np.float32), "c": None}
    model, _ = model_of(op, arrays)
    with pytest.raises(BackendError, match=problem) as caught:
        run(model, arrays, path)
    assert "custom" in caught.value.where
    assert str(path) in caught.value.where


def test_kinds_of_params_come_as_they_are_declared(tmp_path):
    text = """class Kinds(Plugin):
    op_type = "Kinds"
    domain = "custom"
    package = "Pack"
    inputs = ["x"]
    outputs = ["y"]
    params = {"i": Int(2), "f": Float(0.5), "b": Bool(True), "s": Str("a"), "e": Enum("A", "B", default="B"),
              "li": Ints([1, -2]), "lf": Floats([0.5]), "lb": Bools([True, False]), "ls": Strs(["a", "b"]),
              "t": Tensor([[1, 2]], rank=2)}

    def infer_shape_and_type(self, op):
        return same_as(op.inputs[0])

    def compute(self, inputs, params, outputs):
        t = params.pop("t")
        assert t.tolist() == [[1.0, 2.0]], t
        assert params == {"i": 2, "f": 0.5, "b": True, "s": "a", "e": "B", "li": [1, -2], "lf": [0.5],
                          "lb": [True, False], "ls": ["a", "b"]}, params
        return inputs[0]
"""
    path = written(tmp_path, text)
    custom = plugin_set([str(path)], False)
    arrays = {"x": np.ones(2, np.float32)}
    model, _ = model_of(custom.ops[0], arrays)
    add_definitions(model, custom.collections)
    np.testing.assert_array_equal(run(model, arrays, path)[0], arrays["x"])


def test_a_file_of_incomplete_plugins_is_told(tmp_path):
    path = written(tmp_path, 'class Mine(Plugin):\n    op_type = "Mine"\n')
    model, _ = model_of(
        plugin_set([str(plugin_file(tmp_path / ".."))], False).ops[0],
        {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)},
    )
    with pytest.raises(XdlcError, match="package is ''"):
        run(model, {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)}, path)
