"""Encodings of a file reach the tensors that they are for, and win."""

import json

import numpy as np
import pytest

from xdlc.errors import ProblemList, UsageError
from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, Origin, ScaleOffset
from xdlc.ir.dtype import FLOAT32, SFIXED8, SFIXED16, SFIXED32, UFIXED8, UFIXED16
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession


def file(activations=None, params=None):
    return {"activation_encodings": activations or {}, "param_encodings": params or {}}


def affine(scale, offset=-128, bits=8, symmetric=False):
    return [
        {"bitwidth": bits, "dtype": "int", "is_symmetric": str(symmetric), "scale": scale, "offset": offset}
    ]


def rows(scales, bits=8):
    return [affine(scale, -(1 << (bits - 1)), bits, True)[0] for scale in scales]


FLOAT = [{"bitwidth": 16, "dtype": "float"}]


def test_activations_and_params_win(model, samples, tmp_path):
    path = tmp_path / "o.json"
    path.write_text(json.dumps(file({"x": affine(0.5, -3)}, {"c1_w": rows(range(1, 9), 4)})))
    tensors = quantize(model, samples, quantization_overrides=path).main.tensors
    assert (tensors["x"].dtype, tensors["x"].encoding) == (UFIXED8, ScaleOffset(0.5, -3))
    assert tensors["c1_w"].dtype == SFIXED8
    assert tensors["c1_w"].encoding == AxisScaleOffset(3, tuple(range(1, 9)), bits=4)
    scales = tuple(0.5 * scale for scale in range(1, 9))
    assert (tensors["c1_b"].dtype, tensors["c1_b"].encoding) == (SFIXED32, AxisScaleOffset(0, scales))
    assert model.main.tensors["x"].encoding is None
    assert model.main.tensors["c1_w"].encoding is None


def test_what_shares_an_encoding_follows(model, samples):
    found = quantize(model, samples, quantization_overrides=file({"r2": affine(0.25, 0)})).main.tensors
    assert found["r2"].encoding == found["flat"].encoding == found["c2"].encoding == ScaleOffset(0.25, 0)


def test_names_of_products_follow_their_weights_into_other_shapes(model, samples):
    params = {"w": rows([1, 2, 3, 4, 5]), "b": rows([0.5] * 5, 32)}
    found = quantize(model, samples, quantization_overrides=file({}, params)).main.tensors
    assert "w" not in found
    assert found["w_t"].encoding == AxisScaleOffset(0, (1, 2, 3, 4, 5))
    assert found["b_flat"].encoding == AxisScaleOffset(0, (0.5,) * 5)


def test_a_product_whose_sum_is_stored_alone_is_left_over(model, samples):
    quantized = quantize(
        model, samples, quantization_overrides=file({"product": affine(0.5), "x": affine(0.5)})
    )
    assert "product" not in quantized.main.tensors
    args = quantized.metadata["history"][-1]["args"]
    # Filled are c1, r1, c2, r2, flat, total, y, and three weights with biases.
    assert args["quantization_overrides"] == "1 matched, 13 filled, 1 unused"


def test_names_inside_of_fused_operations_are_left_over(model, samples):
    model.metadata["tensors"] = {"net": {"r1": ["r1", "alias"], "": ["inner"]}}
    overrides = file({"alias": affine(0.5, 0), "inner": affine(1)})
    quantized = quantize(model, samples, quantization_overrides=overrides)
    assert quantized.main.tensors["r1"].encoding == ScaleOffset(0.5, 0)
    assert quantized.metadata["history"][-1]["args"]["quantization_overrides"].endswith("1 unused")


def test_two_names_of_one_tensor_have_one_encoding(model, samples):
    model.metadata["tensors"] = {"net": {"r1": ["r1", "alias"]}}
    with pytest.raises(UsageError, match="also sets"):
        quantize(model, samples, quantization_overrides=file({"alias": affine(1), "r1": affine(2)}))


def test_sixteen_bits_in_a_graph_of_eight(model, samples):
    overrides = file({"r1": affine(0.001, 0, 16), "c1": affine(0.001, -30000, 16)})
    quantized = quantize(model, samples, quantization_overrides=overrides)
    found = quantized.main.tensors
    assert (found["r1"].dtype, found["r1"].encoding) == (UFIXED16, ScaleOffset(0.001, 0))
    assert (found["c1"].dtype, found["c1"].encoding) == (UFIXED16, ScaleOffset(0.001, -30000))
    assert found["c2"].dtype == UFIXED8
    assert np.isfinite(CpuSession(quantized).run(samples[0])["y"]).all()


def test_weights_of_sixteen_bits_take_activations_of_as_many(model, samples):
    weights = {"c1_w": affine(1e-4, -(1 << 15), 16, True)}
    wide = {"c1": affine(0.001, -30000, 16)}
    found = quantize(model, samples, quantization_overrides=file(wide, weights)).main.tensors
    assert (found["c1_w"].dtype, found["c1_w"].encoding) == (SFIXED16, ScaleOffset(1e-4))
    with pytest.raises(UsageError, match="8-bit activations") as caught:
        quantize(model, samples, quantization_overrides=file({}, weights))
    assert "param_encodings 'c1_w'" in caught.value.where


@pytest.mark.parametrize("overrides", [file({"c1": FLOAT}), file({}, {"c1_w": FLOAT})])
def test_floats_keep_their_op_float(model, samples, overrides):
    quantized = quantize(model, samples, quantization_overrides=overrides)
    (conv,) = [op for op in quantized.main.ops if op.name == "c1_op"]
    assert all(tensor.dtype == FLOAT32 for tensor in (*conv.inputs, *conv.outputs))


def test_float_ops_keep_no_encodings_of_the_file(model, samples):
    overrides = file({"c1": FLOAT}, {"c1_w": affine(0.1, symmetric=True)})
    found = quantize(model, samples, quantization_overrides=overrides).main.tensors
    assert found["c1_w"].encoding is None


def test_asymmetric_weights_are_stored_unsigned(model, samples):
    found = quantize(model, samples, quantization_overrides=file({}, {"c1_w": affine(0.1, -40)})).main.tensors
    assert (found["c1_w"].dtype, found["c1_w"].encoding) == (UFIXED8, ScaleOffset(0.1, -40))


def test_scales_of_blocks(model, samples):
    entry = {"name": "w", "enc_type": "LPBQ", "dtype": "INT", "bw": 8, "compressed_bw": 4, "is_sym": True}
    entry |= {
        "block_size": 4,
        "scale": [0.1] * 5,
        "offset": [-128] * 5,
        "per_block_int_scale": [1, 2, 3, 4] * 5,
    }
    overrides = {"version": "1.0.0", "activation_encodings": [], "param_encodings": [entry]}
    found = quantize(model, samples, quantization_overrides=overrides).main.tensors
    assert found["w_t"].encoding == BlockwiseExpansion(3, (0.1,) * 5, (0,) * 5, 4, 4, (1, 2, 3, 4) * 5)


def test_a_move_between_unequal_encodings_gets_a_convert(model, samples):
    overrides = file({"r2": affine(0.25, 0), "flat": affine(0.125, -8)})
    quantized = quantize(model, samples, quantization_overrides=overrides)
    found = quantized.main.tensors
    assert found["r2"].encoding == found["flat_moved"].encoding == ScaleOffset(0.25, 0)
    assert found["flat"].encoding == ScaleOffset(0.125, -8)
    assert found["flat"].producer.type == "Convert"
    values = CpuSession(quantized, outputs=["flat"]).run(samples[0])["flat"]
    # Rounded to the steps of what it reads, then cut off at the end of its own.
    assert values.max() <= 247 * 0.125
    assert not (values[values < 247 * 0.125] % 0.25).any()
    assert values.any()


def test_a_narrow_input_of_a_concat_does_not_clip_the_others(net, samples):
    n = net(1, 8, 8, 3)
    one, two = n.conv(n.x, 4, "one"), n.conv(n.x, 4, "two")
    model = n.done(n.concat([one, two], "y"))
    found = quantize(model, samples, quantization_overrides=file({"one": affine(1e-3)})).main.tensors
    assert found["one"].encoding == ScaleOffset(1e-3, -128)
    assert found["y"].encoding.scale > 1e-2


def test_names_that_match_nothing_come_all_at_once(model, samples):
    overrides = file({"c_1": affine(1), "c1": affine(1)}, {"c2_weight": affine(1)})
    with pytest.raises(ProblemList) as caught:
        quantize(model, samples, quantization_overrides=overrides)
    one, two = caught.value.problems
    assert "'c_1'" in one.problem
    assert "nearest: c1" in one.fix
    assert "'c2_weight'" in two.problem
    with pytest.warns(UserWarning, match="has no tensor") as told:
        found = quantize(
            model, samples, quantization_overrides=overrides, override_missing="warn"
        ).main.tensors
    assert len(told) == 2
    assert not any("to ignore" in str(each.message) for each in told)
    assert found["c1"].encoding == ScaleOffset(1, -128)


def test_many_names_that_match_nothing_are_counted(model, samples):
    with pytest.raises(ProblemList, match=r"480 more name\(s\)"):
        quantize(model, samples, quantization_overrides=file({f"no{n}": affine(1) for n in range(500)}))


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (file({"c1": affine(1, -8, 4)}), "8 or 16"),
        (file({"c1": affine(1, 0, 32)}), "8 or 16"),
        (file({}, {"c1_w": affine(1, -3, 4)}), "not symmetric"),
        (file({}, {"c1_w": affine(1, -(2**31), 32, True)}), "2, 4, 8 or 16"),
        (file({}, {"c1_w": rows([1, 2])}), "8 output channels"),
        (file({}, {"c1_b": affine(1, -3, 32)}), "a bias needs 8 bits, or 32"),
        (file({}, {"c1_b": rows([1, 2], 32)}), "2 scales, but 8"),
        (file({"net.0 output " + "9" * 5000: affine(1)}), "has no tensor"),
        (
            {"encodings": [{"name": "c1_w", "output_dtype": "uint8", "y_scale": [1], "axis": 0}]},
            "1 scales, but .* has 8 output channels",
        ),
        (
            {"encodings": [{"name": "c1_w", "output_dtype": "int8", "y_scale": [1] * 8, "axis": 1}]},
            "output channels are on axis 0",
        ),
        (
            {"encodings": [{"name": "r1", "output_dtype": "int8", "y_scale": [1] * 8, "axis": 1}]},
            "is not a weight",
        ),
        (
            {
                "encodings": [
                    {"name": "w", "output_dtype": "int4", "y_scale": [[1] * 2], "axis": 1, "block_size": 4}
                ]
            },
            "5 output channels of 4 blocks",
        ),
        (
            {
                "encodings": [
                    {"name": "c1_w", "output_dtype": "int4", "y_scale": [[1, 2]], "axis": 1, "block_size": 1}
                ]
            },
            "scales per block",
        ),
    ],
)
def test_what_a_tensor_cannot_have_is_refused(model, samples, overrides, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        quantize(model, samples, quantization_overrides=overrides)
    assert caught.value.where.startswith("quantization_overrides: ")
    assert caught.value.fix


def test_encodings_of_the_model_can_be_ignored(model, samples):
    model.main.tensors["r1"].encoding = ScaleOffset(0.5, 0, 8)
    assert quantize(model, samples).main.tensors["r1"].encoding == ScaleOffset(0.5, 0)
    found = quantize(model, samples, ignore_quantization_overrides=True).main.tensors
    assert found["r1"].encoding.scale < 0.4
    with pytest.raises(UsageError, match="excludes"):
        quantize(model, samples, ignore_quantization_overrides=True, quantization_overrides=file())


@pytest.mark.parametrize("algorithm", ["adaround", "seqmse", "cle", "smoothquant"])
def test_algorithms_keep_what_is_given(model, samples, algorithm):
    overrides = file(
        {"r1": affine(0.03, 0), "r2": affine(0.2, 0)},
        {"c1_w": rows([0.2] * 8, 4), "c2_w": affine(0.2, -8, 4, True), "w": rows([0.3] * 5, 4)},
    )
    found = quantize(model, samples, quantization_overrides=overrides, algorithms=[algorithm]).main.tensors
    assert found["c1_w"].encoding == AxisScaleOffset(3, (0.2,) * 8, bits=4)
    assert found["w_t"].encoding == AxisScaleOffset(0, (0.3,) * 5, bits=4)
    assert found["r1"].encoding == ScaleOffset(0.03, 0)
    assert found["r2"].encoding == ScaleOffset(0.2, 0)


def traced(model, names):
    """Give ops of a model names of source nodes."""
    for op in model.main.ops:
        op.origin = Origin(tuple(names.get(op.outputs[0].name, ())))
    return model


NODES = {
    "c1": ["net.0.conv2d"],
    "r1": ["net.1.relu"],
    "c2": ["/net/net.2/Conv", "/net/net.3/BatchNormalization"],
    "r2": ["/net/net.4/Relu"],
}


@pytest.mark.parametrize(
    ("activations", "params", "expected", "counts"),
    [
        ({"net.1": affine(0.25, 0)}, {}, {"r1": ScaleOffset(0.25, 0)}, "1 by module path"),
        (
            {"net.0": {"input": {"0": affine(0.5, -3)[0]}}},
            {},
            {"x": ScaleOffset(0.5, -3)},
            "1 by module path",
        ),
        (
            {"net.4": {"output": {"0": affine(0.25, 0)[0]}}},
            {},
            {"r2": ScaleOffset(0.25, 0)},
            "1 by module path",
        ),
        (
            {"x": affine(0.5, -3)},
            {"net.0.weight": rows(range(1, 9))},
            {"x": ScaleOffset(0.5, -3), "c1_w": AxisScaleOffset(3, tuple(range(1, 9)))},
            "1 by tensor, 1 by module path",
        ),
        (
            {},
            {"net.2.weight": affine(0.5, -128, symmetric=True)},
            {"c2_w": AxisScaleOffset(3, (0.5,))},
            "1 by module path",
        ),
    ],
)
def test_names_are_also_of_modules(model, samples, activations, params, expected, counts):
    traced(model, NODES)
    quantized = quantize(model, samples, quantization_overrides=file(activations, params))
    found = quantized.main.tensors
    assert {name: found[name].encoding for name in expected} == expected
    summary = quantized.metadata["history"][-1]["args"]["quantization_overrides"]
    assert summary.startswith(f"{len(expected)} matched ({counts}), ")


def test_the_inside_of_a_fused_operation_is_no_output_of_a_module(model, samples):
    given = file({"net.2": affine(0.25, 0)})
    quantized = quantize(traced(model, NODES), samples, quantization_overrides=given)
    assert quantized.metadata["history"][-1]["args"]["quantization_overrides"].endswith("1 unused")
    with pytest.raises(UsageError, match=r"has no tensor 'net\.9'"):
        quantize(model, samples, quantization_overrides=file({"net.9": affine(0.25, 0)}))


@pytest.mark.parametrize("held", [3, {"x": affine(0.5)[0]}])
def test_ports_of_modules_that_are_none_are_an_error(model, samples, held):
    with pytest.raises(UsageError, match="by position"):
        quantize(model, samples, quantization_overrides=file({"net.0": {"input": held}}))
