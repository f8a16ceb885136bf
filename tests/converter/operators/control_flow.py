"""Models with If, Loop and Scan, and what they compute in onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import xdlc
from xdlc.errors import XdlcError
from xdlc.runtime.export import export

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]>\n'
X = np.array([[1, -2, 3], [0.5, 4, -1]], np.float32)
TRUE, FALSE = np.array(True), np.array(False)


def parsed(text, opset=17):
    return onnx.parser.parse_model(HEAD.format(opset=opset) + text)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def same(folder, model, *feeds, exported=True, opset=17, **options):
    """Convert, save, load and run a model, and its export; return the loaded model."""
    if isinstance(model, str):
        model = parsed(model, opset)
    onnx.save(model, folder / "m.onnx")
    xdlc.convert(folder / "m.onnx", **options).save(folder / "m.dlc")
    loaded = xdlc.load(folder / "m.dlc")
    engines = [lambda feed: xdlc.run(loaded, feed)]
    names = [output.name for output in model.graph.output]
    if exported:
        export(loaded, folder / "e.onnx")
        again = session(str(folder / "e.onnx"))
        engines.append(lambda feed: dict(zip(names, again.run(names, feed), strict=True)))
    source = session(model.SerializeToString())
    for feed in feeds:
        for engine in engines:
            results = engine(feed)
            for name, expected in zip(names, source.run(names, feed), strict=True):
                assert (results[name].shape, results[name].dtype) == (expected.shape, expected.dtype)
                np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6)
    return loaded


def refused(folder, model, **options):
    """Return the error of a model that is not converted."""
    onnx.save(parsed(model) if isinstance(model, str) else model, folder / "m.onnx")
    with pytest.raises(XdlcError) as caught:
        xdlc.convert(folder / "m.onnx", **options)
    return caught.value


def kinds(model):
    return {name: [op.type for op in graph.ops] for name, graph in model.graphs.items()}


def runners(model):
    return [op for graph in model.graphs.values() for op in graph.ops if op.type in ("If", "While")]


def constant_loop(trip):
    return f"""g (float[3] x) => (float[3] y, float[K,3] all, int64[K] numbers)
    <int64 n = {{{trip}}}, bool c = {{1}}, float[3] f = {{2, 0.5, -1}}> {{
        y, all, numbers = Loop (n, c, x) <
            body = b (int64 i, bool go, float[3] v) => (bool go, float[3] w, float[3] s, int64 j) {{
                w = Mul(v, f)
                s = Neg(w)
                j = Identity(i)
            }}
        >
    }}"""
