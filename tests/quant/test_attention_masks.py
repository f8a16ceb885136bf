"""Masks of attention as exporters write them, against masks of -30."""

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xdlc
from tests.support import accuracy
from tests.support.htp_models import needs_htp
from tests.support.running import run_htp
from xdlc.errors import ModelError
from xdlc.quant.attention_masks import bound_masks

TOKENS, HEADS, SIZE = 12, 2, 8
LOWEST = float(np.finfo(np.float32).min)
BOUNDED = -30.0


class Attention:
    """Self-attention over x [1, TOKENS, HEADS * SIZE].

    The mask m [1, TOKENS] is 1 for a token and 0 for padding.
    """

    def __init__(self):
        self.rng = np.random.default_rng(5)
        self.nodes, self.constants, self.inputs = [], [], {}

    def op(self, type, *inputs, **attributes):
        name = f"{type.lower()}{len(self.nodes)}"
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(type, names, [name], name=f"n_{name}", **attributes))
        return name

    def constant(self, value):
        array = np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def input(self, name, shape, dtype):
        self.inputs[name] = (shape, dtype)
        return name

    def keep(self, dtype=TensorProto.INT64):
        """Return the input m as [1, 1, 1, TOKENS]."""
        return self.op("Unsqueeze", self.input("m", (1, TOKENS), dtype), np.array([1, 2]))

    def kept(self):
        return self.op("Cast", self.keep(), to=TensorProto.FLOAT)

    def shown(self):
        return self.op("Cast", self.keep(), to=TensorProto.BOOL)

    def hidden(self):
        return self.op("Sub", 1.0, self.kept())

    def heads(self, x, perm):
        weight = (self.rng.standard_normal((HEADS * SIZE, HEADS * SIZE)) * 0.5).astype(np.float32)
        split = self.op("Reshape", self.op("MatMul", x, weight), np.array([1, -1, HEADS, SIZE]))
        return self.op("Transpose", split, perm=perm)

    def layer(self, x, masked):
        query, key = self.heads(x, (0, 2, 1, 3)), self.heads(x, (0, 2, 3, 1))
        scores = self.op("MatMul", self.op("Mul", query, SIZE**-0.5), key)
        attention = self.op("Softmax", masked(self, scores), axis=-1)
        mixed = self.op(
            "Transpose", self.op("MatMul", attention, self.heads(x, (0, 2, 1, 3))), perm=(0, 2, 1, 3)
        )
        return self.op("Reshape", mixed, np.array([1, -1, HEADS * SIZE]))

    def model(self, y, *, tokens=TOKENS):
        self.nodes.append(helper.make_node("Identity", [y], ["y"], name="last"))
        shape = (1, tokens, HEADS * SIZE)
        inputs = {"x": (shape, TensorProto.FLOAT), **self.inputs}
        ports = [
            helper.make_tensor_value_info(name, dtype, [tokens if size == TOKENS else size for size in held])
            for name, (held, dtype) in inputs.items()
        ]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "attention", ports, [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model


FUTURE = np.triu(np.ones((1, 1, TOKENS, TOKENS), bool), 1)


def causal(value):
    return np.where(FUTURE, np.float32(value), np.float32(0.0))


def padding(a, value):
    return a.op("Mul", a.hidden(), value)


def half(value):
    return np.where(FUTURE, np.float16(max(value, -65504.0)), np.float16(0.0))


def joined(a, value):
    """Return a mask whose first places, a prefix, are always shown."""
    rest = a.op("Slice", padding(a, value), np.array([4]), np.array([TOKENS]), np.array([3]))
    return a.op("Concat", np.zeros((1, 1, 1, 4), np.float32), rest, axis=-1)


def expanded(a, value):
    """Return the mask of transformers' ``_expand_mask``, which hides values twice."""
    whole = a.op("Expand", a.hidden(), np.array([1, 1, TOKENS, TOKENS]))
    return a.op("Where", a.op("Cast", whole, to=TensorProto.BOOL), value, whole)


def part_of_buffer(a, value):
    buffer = np.triu(np.full((1, 1, 32, 32), value, np.float32), 1)
    ends = np.array([TOKENS, TOKENS])
    return a.op("Slice", buffer, np.array([0, 0]), ends, np.array([2, 3]))


def turned(a, value):
    """Return a mask that is made as a column."""
    column = a.op("Reshape", padding(a, value), np.array([1, 1, TOKENS, 1]))
    return a.op("Transpose", column, perm=(0, 1, 3, 2))


def added(make):
    return lambda a, scores, value: a.op("Add", scores, make(a, value))


WAYS = {
    "causal constant": (LOWEST, added(lambda a, v: causal(v))),
    "causal constant in front": (LOWEST, lambda a, s, v: a.op("Add", causal(v), s)),
    "causal -inf": (-math.inf, added(lambda a, v: causal(v))),
    "causal -1e9": (-1e9, added(lambda a, v: causal(v))),
    "causal -1e4": (-1e4, added(lambda a, v: causal(v))),
    "causal float16": (-65504.0, added(lambda a, v: a.op("Cast", half(v), to=TensorProto.FLOAT))),
    "part of a causal buffer": (LOWEST, added(part_of_buffer)),
    "divided after the sum": (LOWEST, lambda a, s, v: a.op("Div", a.op("Add", s, causal(v)), 1.5)),
    "multiplied after the sum": (-1e4, lambda a, s, v: a.op("Mul", a.op("Add", s, padding(a, v)), 0.7)),
    "one less the mask times lowest": (LOWEST, added(padding)),
    "one less the mask times -1e4": (-1e4, added(padding)),
    "subtracted": (-1e9, lambda a, s, v: a.op("Sub", s, padding(a, -v))),
    "mask less one times 1e9": (-1e9, added(lambda a, v: a.op("Mul", a.op("Sub", a.kept(), 1.0), -v))),
    "mask times 1e9 less 1e9": (-1e9, added(lambda a, v: a.op("Sub", a.op("Mul", a.kept(), -v), -v))),
    "lowest less the mask times lowest": (
        LOWEST,
        added(lambda a, v: a.op("Sub", v, a.op("Mul", v, a.kept()))),
    ),
    "Where of constants": (LOWEST, added(lambda a, v: a.op("Where", a.shown(), 0.0, v))),
    "Where of scores": (LOWEST, lambda a, s, v: a.op("Where", a.shown(), s, v)),
    "masked_fill": (-math.inf, lambda a, s, v: a.op("Where", a.op("Not", a.shown()), v, s)),
    "bool input": (LOWEST, lambda a, s, v: a.op("Where", a.keep(TensorProto.BOOL), s, v)),
    "causal Where, then scaled": (LOWEST, lambda a, s, v: a.op("Mul", a.op("Where", ~FUTURE, s, v), 0.5)),
    "causal Where and padding": (
        LOWEST,
        lambda a, s, v: a.op("Add", a.op("Where", ~FUTURE, s, v), padding(a, v)),
    ),
    "sum of two masks": (LOWEST, added(lambda a, v: a.op("Add", causal(v), padding(a, v)))),
    "lesser of two masks": (LOWEST, added(lambda a, v: a.op("Min", causal(v), padding(a, v)))),
    "product and sum": (-1e4, lambda a, s, v: a.op("Add", a.op("Mul", s, a.kept()), padding(a, v))),
    "expanded, hidden twice": (LOWEST, added(expanded)),
    "joined to a prefix": (LOWEST, added(joined)),
    "made as a column": (-1e9, added(turned)),
    "float input": (LOWEST, added(lambda a, v: a.input("f", (1, 1, 1, TOKENS), TensorProto.FLOAT))),
}


def built(way, value, folder, *, layers=1, tokens=TOKENS):
    a = Attention()
    x = "x"
    for _ in range(layers):
        x = a.layer(x, lambda a, scores: WAYS[way][1](a, scores, value))
    path = folder / "attention.onnx"
    onnx.save(a.model(x, tokens=tokens), path)
    return xdlc.convert(path)


def feeds(model, value, lengths):
    rng = np.random.default_rng(1)
    for length in lengths:
        feed = {"x": rng.standard_normal((1, TOKENS, HEADS * SIZE)).astype(np.float32)}
        shown = np.arange(TOKENS) < length
        held = {"m": shown[None], "f": np.where(shown, np.float32(0.0), np.float32(value))[None, None, None]}
        for tensor in model.main.inputs[1:]:
            whole = tensor.dtype.is_float or tensor.dtype.is_fixed
            feed[tensor.name] = held[tensor.name] if whole else held[tensor.name].astype(tensor.dtype.numpy)
        yield feed


def results(model, value, lengths):
    found = [xdlc.run(model, feed)["y"] for feed in feeds(model, value, lengths)]
    return np.concatenate(found).astype(np.float64)


def sqnr(model, value, lengths, seen=(7, 10, 12, 5), **options):
    """Return the SQNR in dB of a quantized model, and what the quantizer reports."""
    notes = []
    samples = list(feeds(model, value, seen))
    quantized = xdlc.quantize(model, samples, notify=notes.append, **options)
    real, rounded = results(model, value, lengths), results(quantized, value, lengths)
    return accuracy.sqnr(real, rounded), notes


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("way", WAYS)
def test_masks_cost_scores_nothing(way, bits, tmp_path):
    value, lengths = WAYS[way][0], (6, 9, 12)
    options = {"act_bitwidth": bits, "act_quantizer_calibration": "min-max"}
    bounded, _ = sqnr(built(way, BOUNDED, tmp_path), BOUNDED, lengths, **options)
    masked, _ = sqnr(built(way, value, tmp_path), value, lengths, **options)
    assert bounded > 28.0
    assert masked > bounded - 1.0


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("way", ["mask less one times 1e9", "Where of scores", "subtracted", "float input"])
def test_samples_need_no_masked_place(way, bits, tmp_path):
    model = built(way, LOWEST, tmp_path)
    options = {"act_bitwidth": bits, "act_quantizer_calibration": "min-max"}
    assert sqnr(model, LOWEST, (6, 9, 12), (12, 12, 12), **options)[0] > 26.0


@pytest.mark.parametrize("method", ["auto", "percentile", "mse", "sqnr", "entropy", "moving-average"])
def test_any_range_method_leaves_masks_alone(method, tmp_path):
    way, lengths = "sum of two masks", (8, 9, 12)
    options = {"act_quantizer_calibration": method, "percentile_calibration_value": 99.0}
    bounded, _ = sqnr(built(way, BOUNDED, tmp_path, layers=2), BOUNDED, lengths, **options)
    assert sqnr(built(way, LOWEST, tmp_path, layers=2), LOWEST, lengths, **options)[0] > bounded - 1.0


def test_rows_that_are_masked_as_a_whole_do_not_count(tmp_path):
    model = built("sum of two masks", LOWEST, tmp_path)
    left = list(feeds(model, LOWEST, (12, 12, 12)))
    for feed, hidden in zip(left, (0, 3, 5), strict=True):
        feed["m"][:, :hidden] = 0  # padding on the left: its rows see nothing
    quantized = xdlc.quantize(model, left)
    scores = next(op.inputs[0] for op in quantized.main.ops if op.type == "Softmax")
    assert -40.0 < scores.encoding.scale * scores.encoding.offset < -10.0
    for feed, hidden in zip(left, (0, 3, 5), strict=True):
        real, rounded = (xdlc.run(held, feed)["y"] for held in (model, quantized))
        assert np.abs(real - rounded)[:, hidden:].max() < 0.1 * np.abs(real).max()


@pytest.mark.parametrize("way", ["one less the mask times lowest", "Where of constants", "Where of scores"])
def test_rows_of_an_open_length_are_masked_on_the_host(way, tmp_path):
    lengths = (6, 9, 12)
    bounded, _ = sqnr(built(way, BOUNDED, tmp_path, tokens="n"), BOUNDED, lengths, act_bitwidth=16)
    masked, notes = sqnr(built(way, LOWEST, tmp_path, tokens="n"), LOWEST, lengths, act_bitwidth=16)
    assert masked > bounded - 1.0
    # What the host selects and normalizes in float has no range.
    assert any("attention mask" in note for note in notes) is (way != "Where of scores")


def test_processes_that_share_samples_see_the_same_rows(tmp_path):
    model = built("sum of two masks", LOWEST, tmp_path)
    samples = list(feeds(model, LOWEST, range(3, 13)))
    ranges = []
    for jobs in (1, 2):
        quantized = xdlc.quantize(model, samples, jobs=jobs, act_quantizer_calibration="min-max")
        ranges.append([tensor.encoding for tensor in quantized.main.tensors.values()])
    assert ranges[0] == ranges[1]


@pytest.mark.parametrize("way", WAYS)
def test_bounding_changes_no_float_result(way, tmp_path):
    model = built(way, WAYS[way][0], tmp_path)
    bounded = model.clone()
    bound_masks(bounded.main)
    for feed in feeds(model, WAYS[way][0], (6, 9, 12)):
        np.testing.assert_array_equal(*(xdlc.run(network, feed)["y"] for network in (model, bounded)))


@pytest.mark.parametrize("way", ["causal -1e4", "mask times 1e9 less 1e9", "float input"])
def test_the_flag_leaves_masks_as_they_are(way, tmp_path):
    model, value = built(way, WAYS[way][0], tmp_path), WAYS[way][0]
    (bounded, said), (left, unsaid) = (
        sqnr(model, value, (6, 9, 12), bound_attention_masks=bounds) for bounds in (True, False)
    )
    assert left < bounded - 10.0
    assert [any("attention mask" in note for note in notes) for notes in (said, unsaid)] == [True, False]


@pytest.mark.parametrize("way", ["causal -inf", "masked_fill"])
def test_masks_that_no_encoding_holds_name_the_flag(way, tmp_path):
    model = built(way, -math.inf, tmp_path)
    with pytest.raises(ModelError) as caught:
        xdlc.quantize(model, list(feeds(model, -math.inf, (6, 9))), bound_attention_masks=False)
    assert "bound_attention_masks=True" in caught.value.fix
    xdlc.quantize(model, list(feeds(model, -math.inf, (6, 9))), bound_attention_masks=True)


def test_one_note_names_masks_and_how_many_there_are(tmp_path):
    notes = sqnr(built("sum of two masks", LOWEST, tmp_path, layers=2), LOWEST, (12,))[1]
    assert len([note for note in notes if "attention mask" in note and "3 more" in note]) == 1


def test_a_given_range_of_scores_bounds_masks_too(tmp_path):
    model = built("causal constant", LOWEST, tmp_path)
    scores = next(op.inputs[0] for op in model.main.ops if op.type == "Softmax")
    given = {"activation_encodings": {scores.name: [{"bitwidth": 8, "min": -25.5, "max": 25.5}]}}
    found = sqnr(model, LOWEST, (12,), quantization_overrides={**given, "param_encodings": {}})
    assert found[0] > 25.0


def test_mixed_precision_raises_masked_scores(tmp_path):
    model = built("one less the mask times lowest", LOWEST, tmp_path)
    assert sqnr(model, LOWEST, (7, 9, 12), min_sqnr=34.0)[0] > 32.0


def test_a_mask_that_is_read_elsewhere_is_not_bounded(tmp_path):
    a = Attention()
    bias = causal(-200.0)
    mask = a.op("Identity", bias)
    y = a.layer("x", lambda a, scores: a.op("Add", scores, mask))
    total = a.op("ReduceSum", a.op("Mul", a.op("Abs", mask), 1.0), np.array([1, 2, 3]), keepdims=0)
    onnx.save(a.model(a.op("Add", y, total)), tmp_path / "read.onnx")
    model = xdlc.convert(tmp_path / "read.onnx")
    assert sqnr(model, -200.0, (12,), act_bitwidth=16)[0] > 20.0


def test_masked_probabilities_are_judged_themselves(tmp_path):
    a = Attention()
    scores = a.op("MatMul", a.heads("x", (0, 2, 1, 3)), a.heads("x", (0, 2, 3, 1)))
    shown = a.op("Softmax", a.op("Add", scores, causal(LOWEST)), axis=-1)
    model = a.model(shown)
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, HEADS, TOKENS, TOKENS))
    )
    onnx.save(model, tmp_path / "shown.onnx")
    reached, notes = sqnr(xdlc.convert(tmp_path / "shown.onnx"), LOWEST, (12,), (12,) * 6)
    assert reached > 25.0
    assert not [note for note in notes if note.startswith("warning")]


@needs_htp
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("way", ["one less the mask times lowest", "Where of scores", "sum of two masks"])
def test_htp_hides_what_the_host_hides(way, bits, tmp_path):
    model = built(way, LOWEST, tmp_path)
    samples = list(feeds(model, LOWEST, (6, 9, 12)))
    quantized = xdlc.quantize(model, samples, act_bitwidth=bits, act_quantizer_calibration="min-max")
    for sample in samples:
        real, found = xdlc.run(model, sample)["y"], run_htp(quantized, sample)["y"]
        assert ((found - real) ** 2).sum() < 1e-2 * (real**2).sum()
