"""Weights that a source model stores as integers beside float activations."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import xdlc
from tests.support.contrib_models import RNG, contrib, floats
from tests.support.graph_passes import replace_pass
from tests.support.htp_models import needs_htp, validate
from tests.support.running import run_htp
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, ScaleOffset
from xdlc.ir import dtype as dt

ROWS, WIDTH, UNITS = 3, 64, 32
STORED = {
    "int4": (TensorProto.INT4, -8, 8),
    "uint4": (TensorProto.UINT4, 0, 16),
    "int8": (TensorProto.INT8, -128, 128),
    "uint8": (TensorProto.UINT8, 0, 256),
}
READERS = {
    "MatMul": ((ROWS, WIDTH), (WIDTH, UNITS), {}),
    "Gemm": ((ROWS, WIDTH), (UNITS, WIDTH), {"transB": 1}),
    "Conv": ((1, WIDTH, 4, 5), (UNITS, WIDTH, 1, 1), {}),
    "Gather": ((2, 3), (UNITS, WIDTH), {"axis": 0}),
}


def weight_only(models, reader, kind, scales, zeros=None, **attributes):
    """Save DequantizeLinear of integers and its reader; return the path and feeds."""
    x_shape, shape, options = READERS[reader]
    code, low, high = STORED[kind]
    stored = RNG.integers(low, high, shape)
    weights = [
        helper.make_tensor("w", code, shape, stored.reshape(-1)),
        onnx.numpy_helper.from_array(np.asarray(scales, np.float32), "scales"),
    ]
    names = ["w", "scales"]
    if zeros is not None:
        zeros = np.asarray(zeros)
        weights.append(helper.make_tensor("zeros", code, zeros.shape, zeros.reshape(-1)))
        names.append("zeros")
    is_gather = reader == "Gather"
    x = RNG.integers(0, UNITS, x_shape) if is_gather else floats(*x_shape)
    nodes = [
        helper.make_node("DequantizeLinear", names, ["real"], "dequantize", **attributes),
        helper.make_node(reader, ["real", "x"] if is_gather else ["x", "real"], ["y"], "reader", **options),
    ]
    entry = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [entry], [result], weights)
    opset = [helper.make_opsetid("", 21)]
    return models.save(helper.make_model(graph, opset_imports=opset, ir_version=10)), {"x": x}


def positive(*shape):
    return np.asarray(RNG.uniform(0.01, 0.05, shape), np.float32)


def saved(path):
    """Convert, save and load; return the model and the size of its file."""
    target = path.with_suffix(".dlc")
    xdlc.convert(path).save(target)
    return xdlc.load(target), target.stat().st_size


def weight(model):
    return next(tensor for tensor in model.main.tensors.values() if tensor.dtype.is_fixed)


def with_reals(monkeypatch):
    """Let the converter store weights as reals."""
    replace_pass(monkeypatch, "store_quantized_weights", lambda graph: False)


def exact(path, feeds):
    """Return onnxruntime's outputs of an unfused model; fusion rounds both operands."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([entry.name for entry in session.get_outputs()], session.run(None, feeds), strict=True))


def compare(models, monkeypatch, path, feeds):
    """Compare with onnxruntime, and bit for bit with weights stored as reals."""
    model, size = saved(path)
    results = xdlc.run(model, feeds)
    for name, expected in exact(path, feeds).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-4)
    with_reals(monkeypatch)
    reals, whole = saved(path)
    for name, expected in xdlc.run(reals, feeds).items():
        np.testing.assert_array_equal(results[name], expected)
    return model, size / whole


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("form", ["tensor", "axis", "blocks"])
def test_integers_are_kept(models, monkeypatch, reader, kind, form):
    shape = READERS[reader][1]
    along = 0 if reader == "MatMul" else 1
    axis, grid = 1 - along, list(shape)
    grid[along] //= 16
    count = {"tensor": (), "axis": (shape[axis],), "blocks": tuple(grid)}[form]
    zeros = RNG.integers(0, 8, count)
    options = {"tensor": {}, "axis": {"axis": axis}, "blocks": {"axis": along, "block_size": 16}}[form]
    path, feeds = weight_only(models, reader, kind, positive(*count), zeros, **options)
    model, _ = compare(models, monkeypatch, path, feeds)
    stored = weight(model)
    wanted = {"tensor": ScaleOffset, "axis": AxisScaleOffset, "blocks": BlockScaleOffset}[form]
    assert isinstance(stored.encoding, wanted)
    in_bytes = (reader, form) == ("Gather", "tensor")  # this becomes one on fixed point, with HTP's types
    assert stored.dtype.bits == (4 if kind.endswith("4") and not in_bytes else 8)
    assert stored.data.nbytes == stored.nbytes


def test_blocks_become_an_expansion_where_that_is_exact(models, monkeypatch):
    steps = positive(UNITS, 1) * RNG.integers(1, 17, (UNITS, WIDTH // 16))
    path, feeds = weight_only(models, "Gemm", "int4", steps, axis=1, block_size=16)
    model, _ = compare(models, monkeypatch, path, feeds)
    held = weight(model)
    assert isinstance(held.encoding, BlockwiseExpansion)
    assert held.dtype is dt.SFIXED4


def nbits(models, bits, width=512, units=256, size=32):
    count = width // size
    zeros = RNG.integers(0, 256, (units, count * bits // 8), np.uint8)
    packed = RNG.integers(0, 256, (units, count, size * bits // 8), np.uint8)
    inputs = [floats(2, width), packed, positive(units, count), zeros]
    options = dict(K=width, N=units, bits=bits, block_size=size)
    return contrib(models, "MatMulNBits", inputs, static=(1, 2, 3), **options)


# Of each element 4 or 8 bits are left of 32, and of each block of 32 elements 16 bytes.
@pytest.mark.parametrize(("bits", "ratio"), [(2, 0.27), (4, 0.27), (8, 0.39)])
def test_files_of_products_with_blocks_are_small(models, monkeypatch, bits, ratio):
    path, feeds = nbits(models, bits)
    model, found = compare(models, monkeypatch, path, feeds)
    assert found < ratio
    assert isinstance(weight(model).encoding, BlockScaleOffset)
    assert weight(model).dtype.bits == max(bits, 4)


def test_rows_in_blocks_are_small(models, monkeypatch):
    inputs = [RNG.integers(0, 256, (500, 64), np.uint8), np.asarray([[1, 2, 6]]), positive(500, 4)]
    path, feeds = contrib(
        models, "GatherBlockQuantized", inputs, static=(0, 2), bits=4, block_size=32, quantize_axis=1
    )
    _, ratio = compare(models, monkeypatch, path, feeds)
    assert ratio < 0.3


def test_many_blocks_take_little_memory(models):
    path, _ = nbits(models, 4, 4096, 1024, 16)
    encoding = weight(xdlc.convert(path)).encoding
    assert len(encoding.scales) == 4096 * 64
    assert encoding.scales.content.__sizeof__() < 5 * len(encoding.scales)


def test_what_reads_weights_as_values_keeps_reals(models):
    row = helper.make_node("ReduceMean", ["x"], ["row"], "row", keepdims=0)
    scaled = helper.make_node("Mul", ["real", "row"], ["scaled"], "scaled")
    path, _ = weight_only(models, "Gemm", "int8", positive(), 0)
    proto = onnx.load(path)
    proto.graph.node.extend([row, scaled])
    proto.graph.output.append(helper.make_tensor_value_info("scaled", TensorProto.FLOAT, None))
    model, _ = saved(models.save(proto))
    assert not any(tensor.dtype.is_fixed for tensor in model.main.tensors.values() if tensor.is_static)


def test_quantizing_takes_the_reals(models):
    path, feeds = nbits(models, 4)
    model, _ = saved(path)
    quantized = xdlc.quantize(model, [feeds])
    assert weight(model).encoding is not None  # the model is as it was
    reals, found = xdlc.run(model, feeds)["y0"], xdlc.run(quantized, feeds)["y0"]
    assert np.linalg.norm(reals - found) < 0.03 * np.linalg.norm(reals)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("form", ["tensor", "axis", "blocks", "expansion"])
def test_the_way_to_onnx_and_back_keeps_them(models, tmp_path, reader, kind, form):
    shape = READERS[reader][1]
    along = 0 if reader == "MatMul" else 1
    axis, grid = 1 - along, list(shape)
    grid[along] //= 16
    zeros, options = None, {"axis": along, "block_size": 16}
    if form == "expansion":
        start = [1 if at == along else dim for at, dim in enumerate(shape)]
        scales = positive(*start) * RNG.integers(1, 17, grid)
    else:
        options = {"tensor": {}, "axis": {"axis": axis}, "blocks": options}[form]
        scales = positive(*{"tensor": (), "axis": (shape[axis],), "blocks": tuple(grid)}[form])
        zeros = RNG.integers(0, 8, scales.shape)
    path, feeds = weight_only(models, reader, kind, scales, zeros, **options)
    model, _ = saved(path)
    (back,) = xdlc.to_onnx(model, tmp_path / "back.onnx")
    again, _ = saved(back)
    if (reader, form, kind[-1]) == ("Gather", "tensor", "4"):
        return  # on fixed point, of which onnxruntime has 8 bits
    first, second = weight(model), weight(again)
    assert (first.name, first.shape, first.dtype) == (second.name, second.shape, second.dtype)
    assert first.encoding == second.encoding
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    name = model.main.outputs[0].name
    np.testing.assert_array_equal(exact(back, feeds)[name], exact(path, feeds)[name])


@needs_htp
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["int4", "uint8"])
def test_htp_gets_reals(models, reader, kind):

    shape = READERS[reader][1]
    along = 0 if reader == "MatMul" else 1
    grid = [dim // (16 if axis == along else 1) for axis, dim in enumerate(shape)]
    path, feeds = weight_only(models, reader, kind, positive(*grid), None, axis=along, block_size=16)
    model, _ = saved(path)
    found = run_htp(model, feeds)["y"]
    wanted = xdlc.run(model, feeds)["y"]
    assert np.linalg.norm(found - wanted) <= 1e-2 * np.linalg.norm(wanted)
    validate(model)
