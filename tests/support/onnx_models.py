"""Small ONNX models, compared with onnxruntime or ONNX's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import xdlc
from xdlc.ir import NATIVE_PACKAGE, Model

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    """Return random numbers of mean 0 and deviation 1."""
    return RNG.standard_normal(shape).astype(np.float32)


def node(type: str, inputs: str = "x", outputs: str = "y", **attributes: Any) -> Any:
    """Return a node; ``-`` in the names leaves an input or output out."""
    names = [["" if name == "-" else name for name in given.split()] for given in (inputs, outputs)]
    return helper.make_node(type, *names, name=f"n_{type}", **attributes)


def build(
    nodes: Sequence[Any],
    feeds: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray] | None,
    outputs: Sequence[str],
    opset: int,
    domain_opset: int = 1,
) -> Any:
    """Return the model of some nodes."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    domains = {entry.domain for entry in nodes} - {""}
    graph = helper.make_graph(
        list(nodes),
        "graph",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    imports = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(domain, domain_opset) for domain in domains),
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def residual() -> Any:
    """Return a network of named nodes, with as many channels as rows and columns."""
    steps = [
        ("first", "Conv", "x w1", "c1", {"pads": [1, 1, 1, 1]}),
        ("relu", "Relu", "c1", "r1", {}),
        ("second", "Conv", "r1 w2", "c2", {"pads": [1, 1, 1, 1]}),
        ("add", "Add", "c2 r1", "a1", {}),
        ("flat", "Flatten", "a1", "f", {}),
        ("dense", "Gemm", "f w3", "y", {}),
    ]
    nodes = [
        helper.make_node(type, inputs.split(), [output], name=name, **attributes)
        for name, type, inputs, output, attributes in steps
    ]
    random = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (512, 5)}
    weights = {name: (random.standard_normal(shape) * 0.3).astype("f4") for name, shape in shapes.items()}
    return build(nodes, {"x": np.zeros((1, 3, 8, 8), np.float32)}, weights, ["y"], opset=18)


def expected(model: Any, feeds: Mapping[str, np.ndarray], reference: bool) -> list[np.ndarray]:
    """Return the outputs by onnxruntime, or by ONNX's reference implementation."""
    if reference:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model).run(None, dict(feeds))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def check(
    models: Any,
    nodes: Sequence[Any],
    feeds: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    domain_opset: int = 1,
    outputs: Sequence[str] = ("y",),
    reference: bool = False,
    native: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> Model:
    """Convert, save, load, run, and compare every output; return the converted model.

    Args:
        models: The fixture of that name.
        nodes: Nodes of the model.
        feeds: Inputs by name.
        weights: Constants by name.
        opset: Version of the default domain.
        domain_opset: Version of the other domains.
        outputs: Names of the outputs.
        reference: Compare with ONNX's reference implementation instead of onnxruntime.
        native: Demand that all ops are QNN's; otherwise some have to be host-only.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
    """
    model = build(nodes, feeds, weights, outputs, opset, domain_opset)
    references = expected(model, feeds, reference)
    path = models.save(model)
    converted = xdlc.convert(path)
    packages = {op.package for graph in converted.graphs.values() for op in graph.ops}
    assert (packages <= {NATIVE_PACKAGE}) == native, sorted(packages)
    converted.save(path.with_suffix(".dlc"))
    results = xdlc.run(xdlc.load(path.with_suffix(".dlc")), feeds)
    for name, value in zip(outputs, references, strict=True):
        assert results[name].shape == value.shape
        assert results[name].dtype == value.dtype
        if value.dtype.kind in "biu":
            np.testing.assert_array_equal(results[name], value)
        else:
            np.testing.assert_allclose(results[name], value, rtol=rtol, atol=atol)
    return converted
