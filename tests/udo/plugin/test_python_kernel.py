"""Kernels of plugins in the runtime: compiled and in Python, in their formats."""

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
from xdlc.errors import BackendError, UsageError, XdlcError
from xdlc.ir import Graph, Model, Op, Tensor, make_op, static
from xdlc.ir.dtype import BY_NAME, FLOAT32, UFIXED8, from_numpy
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Udo
from xdlc.runtime import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.runtime.udo.kernel_files import kernel_files
from xdlc.udo.plugin import plugin_ops

SHAPES = """class Shapes(Plugin):
    op_type = "Shapes"
    domain = "custom"
    package = "Pack"
    inputs = [Input("a", (TYPE,)), Input("b", (TYPE,)), Input("c", (TYPE,), optional=True)]
    outputs = [Output("y", dtypes=(TYPE,)), Output("z", dtypes=(TYPE,))]
    formats = (["NC1HWC0", "ND", "NC1HWC0"], ["NC1HWC0", "ND"])

    def infer_shape_and_type(self, op):
        return [same_as(op.inputs[0]), same_as(op.inputs[1])]

    def build_kernel(self, op):
        return compile_c(op, SOURCE, entry="shapes", arguments="i", values=(op.inputs[2] is not None,))

    def compute(self, inputs, params, outputs):
        a, b, c = inputs
        block = 32 if a.dtype.itemsize == 1 else 16
        assert a.shape[-1] == block and a.ndim == 5, a.shape
        assert outputs[0].shape == a.shape and outputs[1].shape == b.shape
        result = a + a.dtype.type(1)
        return [result if c is None else result + c, b * b.dtype.type(2)]
"""
SOURCE = r"""
#define _GNU_SOURCE
#include "xdlc_udo.h"

static uint64_t count(const xdlc_udo_tensor *tensor) {
  uint64_t total = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) total *= tensor->dims[axis];
  return total;
}

xdlc_udo_status shapes(uint32_t num_inputs, const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                       const xdlc_udo_tensor *outputs, uint32_t num_arguments,
                       const xdlc_udo_argument *arguments) {
  if (num_inputs < 2 || num_outputs != 2 || num_arguments != 1) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  const int has_c = num_inputs > 2 && !(inputs[2].flags & XDLC_UDO_OMITTED);
  if (has_c != arguments[0].integer) return XDLC_UDO_ERROR_STATE;
  const uint32_t block = sizeof(ELEMENT) == 1 ? 32 : 16;
  if (inputs[0].rank != 5 || outputs[0].rank != 5 || inputs[0].dims[4] != block || inputs[1].rank == 5)
    return XDLC_UDO_ERROR_UNSUPPORTED;
  const uint64_t bytes = count(&inputs[0]) * sizeof(ELEMENT);
  if (inputs[0].num_bytes != bytes || outputs[0].num_bytes != bytes)
    return XDLC_UDO_ERROR_UNSUPPORTED;
  const ELEMENT *a = inputs[0].data, *b = inputs[1].data, *c = has_c ? inputs[2].data : 0;
  ELEMENT *y = outputs[0].data, *z = outputs[1].data;
  for (uint64_t i = 0; i < count(&inputs[0]); i++) y[i] = (ELEMENT)(a[i] + 1 + (c ? c[i] : 0));
  for (uint64_t i = 0; i < count(&inputs[1]); i++) z[i] = (ELEMENT)(2 * b[i]);
  return XDLC_UDO_OK;
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
    results = op.hooks.infer_shape_and_type(op_view)
    op_view = OpView(op_view.package, op_view.type, "custom", op_view.inputs, results, op_view.params)
    stored = op.hooks.stored_inputs(op_view)
    graph = Graph("graph")
    inputs: list[Tensor | None] = []
    for place, (name, array) in enumerate(arrays.items()):
        if array is None:
            inputs.append(None)
        elif name.startswith("w"):
            inputs.append(static(name, stored[place].numpy() if place in stored else array))
        else:
            inputs.append(graph.add_input(Tensor(name, array.shape, from_numpy(array.dtype))))
    outputs = [Tensor(f"out{place}", found.shape, found.dtype) for place, found in enumerate(results)]
    params = {key: stored_param(op, key, value) for key, value in op_view.params.items()}
    appended = graph.append(
        make_op(
            graph, op.definition.name, inputs, outputs, params, package=op.definition.package, name="custom"
        )
    )
    for tensor in outputs:
        graph.add_output(tensor)
    model = Model({"graph": graph})
    kernel = op.hooks.build_kernel(op_view)
    if kernel is not None:
        model.files |= kernel_files([call(model, kernel, "custom")])
    return model, appended


def stored_param(op: Udo, name: str, value: Any) -> Any:
    from xdlc.ir import Scalar

    param = op.definition.params[name]
    if param.enumeration:
        return Scalar(BY_NAME["uint32"], param.enumeration.index(value))
    if param.is_scalar:
        return Scalar(param.dtypes[0], value)
    return static(name, np.asarray(value, param.dtypes[0].numpy))


def run(model: Model, arrays: dict[str, Any], *paths: Path) -> list[Any]:
    feeds = {name: array for name, array in arrays.items() if array is not None and not name.startswith("w")}
    with Kernels(paths, model=model) as kernels:
        return list(CpuSession(model, kernels=kernels).run(feeds, native=True).values())


@needs_cc
@pytest.mark.parametrize(
    ("dtype", "shape", "has_c"),
    [
        ("float32", (1, 3, 4, 5), True),
        ("int8", (2, 33, 3, 2), False),
        ("int32", (3, 37), True),
        ("float32", (41,), False),
    ],
)
def test_tensors_come_and_go_in_their_formats(tmp_path, dtype, shape, has_c):
    path = plugin_file(tmp_path, dtype)
    (op,) = plugin_ops([str(path)], False).ops
    rng = np.random.default_rng(1)
    a, c = (rng.integers(-20, 20, shape).astype(dtype) for _ in range(2))
    arrays = {"a": a, "b": np.arange(6).reshape(2, 3).astype(dtype), "c": c if has_c else None}
    model, _ = model_of(op, arrays)
    expected = [a + 1 + (c if has_c else 0), 2 * arrays["b"]]
    model.save(tmp_path / "model.dlc")
    for source in (tmp_path / "kernel_meta", path):
        found = run(model, arrays, source)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


@needs_cc
def test_quantized_activations_come_in_blocks_of_reals(tmp_path):
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


def test_packed_outputs_need_their_shapes(tmp_path):
    path = plugin_file(tmp_path)
    (op,) = plugin_ops([str(path)], False).ops
    outputs = (TensorSpec((1, None, 3, 3), FLOAT32), TensorSpec((2,), FLOAT32))
    given = OpView("Pack", "Shapes", "n", (outputs[0], outputs[1], None), outputs)
    with pytest.raises(UsageError, match="output 0 has dynamic dimensions, but format NC1HWC0"):
        op.hooks.build_kernel(given)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("return [result", "return 1 / 0; [result"), "raised ZeroDivisionError"),
        (("b * b.dtype.type(2)]", "b * b.dtype.type(2), a]"), "returned 3 results, but the op has 2 outputs"),
        (("result = a +", "result = a[:, :, :1] +"), r"failed: .*in format NC1HWC0, not \[1, 1, 1, 3, 16\]"),
        (("else result + c,", "else result + c, 'x' or"), "an object of type str for output 1"),
    ],
)
def test_a_compute_method_that_fails_is_told(tmp_path, change, problem):
    path = plugin_file(tmp_path, text=SHAPES.replace(*change).replace("def build_kernel", "def unused"))
    (op,) = plugin_ops([str(path)], False).ops
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
    custom = plugin_ops([str(path)], False)
    arrays = {"x": np.ones(2, np.float32)}
    model, _ = model_of(custom.ops[0], arrays)
    add_definitions(model, custom.collections)
    np.testing.assert_array_equal(run(model, arrays, path)[0], arrays["x"])


def test_a_file_of_incomplete_plugins_is_told(tmp_path):
    path = written(tmp_path, 'class Mine(Plugin):\n    op_type = "Mine"\n')
    model, _ = model_of(
        plugin_ops([str(plugin_file(tmp_path / ".."))], False).ops[0],
        {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)},
    )
    with pytest.raises(XdlcError, match="package is ''"):
        run(model, {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)}, path)
