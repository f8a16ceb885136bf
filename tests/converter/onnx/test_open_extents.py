"""Extents that follow from others, in versions of the operators whose inference does not follow them."""

from __future__ import annotations

import numpy as np
import onnx

import xdlc


def test_an_extent_behind_a_computed_shape_is_stated(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["" : 11]>
        g (float[n,6] x) => (float y) <int64 zero = {0}, int64[1] two = {2}, int64[1] three = {3}> {
            s = Shape(x)
            n = Gather(s, zero)
            m = Unsqueeze<axes=[0]>(n)
            shape = Concat<axis=0>(m, two, three)
            y = Reshape(x, shape)
        }""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    converted = xdlc.convert(tmp_path / "m.onnx")
    (output,) = converted.main.outputs
    assert (output.shape, output.dynamic_axes) == ((1, 2, 3), (0,))
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(xdlc.run(converted, {"x": x})["y"], x.reshape(4, 2, 3))
