"""Compares operators of com.microsoft in saved models with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import xdlc
from xdlc.ir import NATIVE_PACKAGE

RNG = np.random.default_rng(7)
MICROSOFT = "com.microsoft"


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def flags(*shape):
    return (RNG.random(shape) > 0.4).astype(np.int32)


def ints(*values):
    return np.asarray(values, np.int32)


def contrib(
    models, type, inputs, outputs=1, *, static=(), open_axes=False, domain=MICROSOFT, opset=17, **attributes
):
    """Save a model of one node and return its path and what to feed.

    Args:
        models: The fixture.
        type: Operator.
        inputs: Arrays by position, None for an input left out.
        outputs: How many outputs are used, or their names; an empty one is left out.
        static: Positions of the inputs that are constants.
        open_axes: Whether the dims of the inputs are unknown to the model.
        domain: Its domain.
        opset: Version of the default domain.
        attributes: Its attributes.
    """
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(inputs)]
    results = [f"y{index}" for index in range(outputs)] if isinstance(outputs, int) else list(outputs)
    feeds = {
        name: array
        for index, (name, array) in enumerate(zip(names, inputs, strict=True))
        if array is not None and index not in static
    }
    entries = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}_{axis}" for axis in range(array.ndim)] if open_axes else array.shape,
        )
        for name, array in feeds.items()
    ]
    weights = [onnx.numpy_helper.from_array(inputs[index], names[index]) for index in static]
    node = helper.make_node(type, names, results, "node", domain=domain, **attributes)
    ends = [helper.make_value_info(name, onnx.TypeProto()) for name in results if name]
    for end in ends:
        end.ClearField("type")
    graph = helper.make_graph([node], "graph", entries, ends, weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return models.save(helper.make_model(graph, opset_imports=opsets, ir_version=8)), feeds


def reference(path, feeds):
    """Return what onnxruntime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if all(array.dtype != np.int8 for array in feeds.values()):
        # Without VNNI, onnxruntime's fast products of uint8 by int8 saturate; int8 by int8 does not.
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([entry.name for entry in session.get_outputs()], session.run(None, feeds), strict=True))


def check(models, type, inputs, outputs=1, *, wanted=None, host=False, tol=1e-5, **options):
    """Convert, save, load, run and compare a model; return the graph.

    Args:
        models: The fixture.
        type: Operator.
        inputs: Arrays by position, None for an input left out.
        outputs: As for ``contrib``.
        wanted: Results by position, for operators that onnxruntime has no CPU kernel for.
        host: Whether an op for the host only is expected.
        tol: Absolute and relative tolerance of floats; integers must be equal.
        options: As for ``contrib``.
    """
    path, feeds = contrib(models, type, inputs, outputs, **options)
    expected = reference(path, feeds) if wanted is None else {f"y{i}": w for i, w in enumerate(wanted)}
    xdlc.convert(path).save(path.with_suffix(".dlc"))
    model = xdlc.load(path.with_suffix(".dlc"))
    results = xdlc.run(model, feeds)
    for name, array in expected.items():
        assert results[name].shape == array.shape
        assert results[name].dtype == array.dtype
        if array.dtype.kind == "f":
            np.testing.assert_allclose(results[name], array, rtol=tol, atol=tol)
        else:
            np.testing.assert_array_equal(results[name], array)
    assert host == any(op.package != NATIVE_PACKAGE for op in model.main.ops)
    return model.main
