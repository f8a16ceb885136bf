"""A model with every kind of content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.cache_models import put_cache
from tests.support.control_flow_models import binary, graph_of, op
from tests.support.custom_ops import SCALE
from xdlc.container import cache_provenance, udo
from xdlc.container.aip_record import (
    OWN_FLAVOUR,
    OWN_RECORD,
    AipBuffer,
    AipRecord,
    Dimension,
    Engine,
    Section,
    write_aip,
)
from xdlc.container.cache_provenance import Verification
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Origin,
    ScaleOffset,
    Tensor,
    f32,
    make_op,
    raw_data,
    static,
    string,
    u32,
)
from xdlc.ir.dtype import BOOL8, FLOAT32, SFIXED8, UFIXED8
from xdlc.opdefs.model import Collection

CACHE = "htp.cache.sm8650.0"


def rich_model() -> Model:
    """Return a model with branches, encodings, UDOs, caches, records and notes."""
    rng = np.random.default_rng(0)
    model = Model()
    model.add_graph(_main(rng))
    shape = [("b", (1, 4), FLOAT32)]
    for name, kind in (("yes", "Softmax"), ("no", "ElementWiseNeg")):
        model.add_graph(
            graph_of(name, shape, lambda g, b, kind=kind: op(g, kind, [b], [Tensor("r", (1, 4), FLOAT32)]))
        )
    model.metadata = _metadata()
    put_cache(model, "sm8650")
    facts = cache_provenance.read(model)
    verified = Verification("sm8650", "v2.51.0", "seeded", 1.0, {}, None, False)
    cache_provenance.write(model, {CACHE: replace(facts[CACHE], verified=verified)})
    put_cache(model, "sm8550")
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "my.domain", "1.0.0", (SCALE,), ())})
    buffer = AipBuffer("x", False, 1, 1 << 16, (Dimension("channel", 4, 4),))
    section = Section(Engine.HTA, 1, 2, (buffer,), b"code")
    model.records[OWN_RECORD] = raw_data(write_aip(AipRecord("1.2.0.0", "0.1.0.0", OWN_FLAVOUR, (section,))))
    model.records["vendor.record"] = raw_data(b"abcdefgh")
    model.files = {"kernel_meta/a.json": b"{}"}
    return model


def _main(rng: np.random.Generator) -> Graph:
    graph = Graph("main")
    x = graph.add_input(Tensor("x", (1, 4, 4, 8), FLOAT32, dynamic_axes=(0,)))
    graph.add_input(Tensor("c", (1,), BOOL8))
    state = graph.add_input(Tensor("s", (1, 4), FLOAT32))

    def add(
        kind: str, inputs: list[Any], out: Tensor, name: str, package: str = "qti.aisw", **params: Any
    ) -> Tensor:
        origin = Origin((f"node/{name}",))
        graph.append(make_op(graph, kind, inputs, [out], params, name=name, package=package, origin=origin))
        return out

    def weights(name: str, *dims: int, encoding: Any) -> Tensor:
        return static(name, rng.integers(-100, 100, dims).astype(np.int8), SFIXED8, encoding)

    q = add("Quantize", [x], Tensor("q", (1, 4, 4, 8), UFIXED8, ScaleOffset(0.1, -128)), "quantize")
    graph.ops[-1].origin = Origin((), "the network is quantized")
    axis = AxisScaleOffset(3, [0.01 * (i + 1) for i in range(4)])
    bias = static("bias", rng.normal(size=4).astype(np.float32))
    w = weights("w", 1, 1, 8, 4, encoding=axis)
    y = add(
        "Conv2d",
        [q, w, bias],
        Tensor("y", (1, 4, 4, 4), UFIXED8, ScaleOffset(0.2, -100)),
        "conv",
        **_window(),
    )
    blocks = BlockScaleOffset((1, 1, 2, 1), [0.5] * 8)
    v = add(
        "Conv2d",
        [y, weights("v", 1, 1, 4, 4, encoding=blocks)],
        Tensor("z", (1, 4, 4, 4), UFIXED8, ScaleOffset(0.3, -90, 7)),
        "conv_blocks",
        **_window(),
    )
    lpbq = BlockwiseExpansion(3, [0.5] * 4, [0] * 4, 2, 4, (1, 2, 3, 4, 5, 6, 7, 8))
    u = add(
        "Conv2d",
        [v, weights("u", 1, 1, 4, 4, encoding=lpbq)],
        Tensor("p", (1, 4, 4, 4), UFIXED8, ScaleOffset(0.3, -90)),
        "conv_lpbq",
        **_window(),
    )
    f = add("Dequantize", [u], Tensor("f", (1, 4, 4, 4), FLOAT32), "dequantize")
    m = add(
        "ReduceMean", [f], Tensor("m", (1, 4), FLOAT32), "mean", axes=static("", np.array([1, 2], np.uint32))
    )
    t = add("Scale", [m], Tensor("t", (1, 4), FLOAT32), "scale", "Pkg", factor=f32(2))
    chosen = {"then_graph": string("yes"), "else_graph": string("no")}
    b = add("If", [graph.inputs[1], t], Tensor("chosen", (1, 4), FLOAT32), "choose", "xdlc", **chosen)
    total = binary(graph, 0, b, state, "sum")
    for tensor in (total, add("Softmax", [total], Tensor("out", (1, 4), FLOAT32), "softmax")):
        graph.add_output(tensor)
    add("Softmax", [t], Tensor("unread", (1, 4), FLOAT32), "dead")
    add("LogSoftmax", [m], Tensor("unread2", (1, 4), FLOAT32), "dead2")
    return graph


def _window() -> dict[str, Any]:
    return {
        "stride": static("", np.array([1, 1], np.uint32)),
        "pad_amount": static("", np.zeros((2, 2), np.uint32)),
        "group": u32(1),
    }


def _metadata() -> dict[str, Any]:
    return {
        "version": "4.1",
        "history": [
            {
                "tool": "xdlc.convert",
                "converterVersion": "1",
                "args": {"input": "a.onnx", "model_copyright": "(c) A", "model_version": "1"},
                "timestamp": "2026-01-01 00:00:00 UTC",
            },
            {"tool": "xdlc.quantize", "converterVersion": "1", "args": {"bits": 8}, "timestamp": ""},
        ],
        "properties": {"converter-version": "1.48"},
        "layouts": {"x": "NHWC"},
        "preprocessing": {"x": "subtract 127.5"},
        "symbols": {"x": ["batch", None, None, None]},
        "states": {"s": {"output": "sum"}},
        "modules": {"node/conv": "stem"},
        "nodes": [["node/conv", "Conv", None], ["node/gone", "Identity", "it does nothing"]],
        "tensors": {"main": {"y": ["conv/out"]}},
        "weight_factors": {"main": {"w": ["2.0"]}},
        "layers": {"conv": 3},
        "relations": [{"parentRecordName": CACHE, "childRecordNames": ["vendor.record"]}],
        "note": {"by": "a user"},
    }
