"""The attention operators of com.microsoft."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.contrib_models import check, contrib, flags, floats, ints, reference

BATCH, LENGTH, KEYS, HEADS, SIZE, WIDTH = 2, 5, 6, 3, 4, 7
HIDDEN = HEADS * SIZE
LOWEST = float(np.finfo(np.float32).min)

MASKS = {
    "none": None,
    "flags": flags(BATCH, LENGTH),
    "flags_of_each_query": flags(BATCH, LENGTH, LENGTH),
    "nothing_seen": np.zeros((BATCH, LENGTH), np.int32),
    "ends": ints(3, 5),
    "ends_and_starts": ints(3, 5, 1, 2),
    "lengths_and_sums": ints(3, 5, 0, 5, 10, 0, 3, 8),
}


def merged(**changes):
    given = {"x": floats(BATCH, LENGTH, WIDTH), "w": floats(WIDTH, 3 * HIDDEN), "b": floats(3 * HIDDEN)}
    return list({**given, **changes}.values())


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(models, mask, known, causal):
    static = (1, 2, 3) if known and mask is not None else (1, 2)
    check(
        models,
        "Attention",
        [*merged(), mask],
        static=static,
        num_heads=HEADS,
        unidirectional=causal,
        mask_filter_value=-6.0,
    )


@pytest.mark.parametrize("filler", [-3.0, -10000.0, -65504.0, -1e38, LOWEST])
def test_causal_masks_leave_the_keys_behind_alone(models, filler):
    mask = ints(0, 1, 1, 1, 1, 0, 0, 1, 0, 1).reshape(2, 5)
    options = dict(static=(1, 2), num_heads=HEADS, unidirectional=1, mask_filter_value=filler)
    check(models, "Attention", [*merged(), mask], tol=1e-3, **options)


@pytest.mark.parametrize(
    "options",
    [
        dict(static=(1, 2)),
        dict(static=()),
        dict(static=(1, 2), scale=0.3),
        dict(static=(1, 2), w=floats(WIDTH, 30), b=floats(30), qkv_hidden_sizes=[12, 12, 6]),
    ],
)
def test_projections(models, options):
    options = dict(options)
    inputs = merged(**{key: options.pop(key) for key in ("w", "b") if key in options})
    check(models, "Attention", inputs, num_heads=HEADS, **options)


def test_projections_without_biases(models):
    """Missing biases, with which onnxruntime crashes, are compared with biases of 0."""
    inputs, options = merged(b=np.zeros(3 * HIDDEN, np.float32)), dict(num_heads=HEADS, static=(1,))
    expected = reference(*contrib(models, "Attention", inputs, **options))["y0"]
    check(models, "Attention", [*inputs[:2], None], wanted=[expected], **options)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_past_and_present(models, causal, masked):
    mask = flags(BATCH, 3 + LENGTH) if masked else None
    past = floats(2, BATCH, HEADS, 3, SIZE)
    options = dict(static=(1, 2), num_heads=HEADS, unidirectional=causal, tol=1e-3 if masked else 1e-5)
    check(models, "Attention", [*merged(), mask, past], 2, **options)
    check(models, "Attention", [*merged()], 2, **options)


@pytest.mark.parametrize("shape", [(BATCH, HEADS), (1, HEADS), (1, 1)])
def test_what_is_added_to_the_scores(models, shape):
    extra = floats(*shape, LENGTH, LENGTH)
    seen = flags(BATCH, LENGTH)
    seen[:, 0] = 1  # a row that sees nothing is made of what is left of its scores beside -10000
    check(models, "Attention", [*merged(), None, None, extra], static=(1, 2), num_heads=HEADS)
    check(
        models,
        "Attention",
        [*merged(), seen, None, extra],
        static=(1, 2),
        num_heads=HEADS,
        unidirectional=1,
    )


HEADS_APART = {
    "cross": ([floats(BATCH, LENGTH, HIDDEN), floats(BATCH, KEYS, HIDDEN), floats(BATCH, KEYS, 9)], {}),
    "keys_in_heads": (
        [floats(BATCH, LENGTH, HIDDEN), *(floats(BATCH, HEADS, KEYS, SIZE) for _ in range(2))],
        {},
    ),
    "keys_in_heads_and_bias": (
        [
            floats(BATCH, LENGTH, HIDDEN),
            *(floats(BATCH, HEADS, KEYS, SIZE) for _ in range(2)),
            floats(3 * HIDDEN),
        ],
        {},
    ),
    "scale": ([floats(BATCH, LENGTH, HIDDEN) for _ in range(3)], dict(scale=0.2)),
    "causal": ([floats(BATCH, LENGTH, HIDDEN) for _ in range(3)], dict(unidirectional=1)),
}


@pytest.mark.parametrize(("inputs", "options"), HEADS_APART.values(), ids=HEADS_APART)
def test_multi_head_attention(models, inputs, options):
    check(models, "MultiHeadAttention", inputs, num_heads=HEADS, **options)


@pytest.mark.parametrize("static", [(), (3,)])
def test_biases_of_the_projections(models, static):
    inputs = [*HEADS_APART["cross"][0], floats(2 * HIDDEN + 9)]
    check(models, "MultiHeadAttention", inputs, static=static, num_heads=HEADS)


KEY_MASKS = [ints(3, 6), flags(BATCH, KEYS), flags(BATCH, LENGTH, KEYS), ints(3, 5, 0, 5, 10, 0, 3, 8)]


@pytest.mark.parametrize("mask", KEY_MASKS)
def test_masks_of_the_keys(models, mask):
    inputs = [*HEADS_APART["cross"][0], None, mask]
    check(models, "MultiHeadAttention", inputs, num_heads=HEADS, mask_filter_value=-5.0)
    check(models, "MultiHeadAttention", [*inputs, floats(1, HEADS, LENGTH, KEYS)], num_heads=HEADS, tol=1e-3)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bias", [None, floats(3 * HIDDEN)])
def test_past_keys_and_values(models, bias, causal):
    inputs = [*(floats(BATCH, LENGTH, HIDDEN) for _ in range(3)), bias]
    past = [floats(BATCH, HEADS, 3, SIZE) for _ in range(2)]
    options = dict(num_heads=HEADS, unidirectional=causal)
    check(models, "MultiHeadAttention", [*inputs, None, None, *past], 3, **options)
    mask = [flags(BATCH, 3 + LENGTH), floats(1, 1, LENGTH, 3 + LENGTH)]
    check(models, "MultiHeadAttention", [*inputs, *mask, *past], 3, tol=1e-3, **options)
    check(models, "MultiHeadAttention", inputs, 3, **options)


def test_values_packed_side_by_side(models):
    """Packed values, which onnxruntime refuses, are compared with separate ones."""
    apart = [floats(BATCH, LENGTH, HEADS, SIZE) for _ in range(3)]
    flat = [array.reshape(BATCH, LENGTH, HIDDEN) for array in apart]
    expected = reference(*contrib(models, "MultiHeadAttention", flat, num_heads=HEADS))["y0"]
    both = np.stack(apart[1:], 3)
    check(models, "MultiHeadAttention", [flat[0], both], wanted=[expected], num_heads=HEADS)
    everything = np.stack(apart, 3)
    check(models, "MultiHeadAttention", [everything], wanted=[expected], num_heads=HEADS)


def test_causal_attention_to_another_input_is_left_to_the_host(models):
    options = dict(num_heads=HEADS, unidirectional=1, host=True)
    check(models, "MultiHeadAttention", HEADS_APART["cross"][0], **options)


@pytest.mark.parametrize("case", ["plain", "past", "masked"])
def test_unknown_extents(models, case):
    past = floats(2, BATCH, HEADS, 3, SIZE) if case == "past" else None
    mask = flags(BATCH, LENGTH) if case == "masked" else None
    options = dict(num_heads=HEADS, open_axes=True, host=True)
    check(models, "Attention", [*merged(), mask, past], 2, static=(1, 2), **options)
    inputs = [floats(BATCH, LENGTH, HIDDEN) for _ in range(3)]
    past = [floats(BATCH, HEADS, 3, SIZE) for _ in range(2)] if case == "past" else []
    check(models, "MultiHeadAttention", [*inputs, None, mask, None, *past], 3, **options)


def grouped(length, past, *, groups=1, packed=False, rotary=False, extra=False):
    """Return the inputs of GroupQueryAttention with 2 heads of 16 elements."""
    query, key, value = (floats(1, length, count * 16) for count in (2, groups, groups))
    apart = [np.concatenate([query, key, value], 2), None, None] if packed else [query, key, value]
    state = [floats(1, groups, past, 16) for _ in range(2)] if past else [None, None]
    lengths = [ints(length + past - 1), np.asarray(length + past, np.int32)]
    tables = [floats(32, 8), floats(32, 8)] if rotary else [None, None]
    return [*apart, *state, *lengths, *tables, None, floats(1, 1, length, length + past) if extra else None]


GROUPED = {
    "prompt": (grouped(4, 0), {}),
    "packed": (grouped(4, 0, packed=True), {}),
    "as_many_groups_as_heads": (grouped(4, 0, groups=2), dict(kv_num_heads=2)),
    "past": (grouped(1, 5), {}),
    "several_after_past": (grouped(3, 5), {}),
    "rotated": (grouped(4, 0, rotary=True), dict(do_rotary=1)),
    "rotated_interleaved": (grouped(4, 0, rotary=True), dict(do_rotary=1, rotary_interleaved=1)),
    "rotated_after_past": (grouped(1, 5, packed=True, rotary=True), dict(do_rotary=1)),
    "window": (grouped(4, 0), dict(local_window_size=2)),
    "window_of_past": (grouped(1, 5), dict(local_window_size=3)),
    "added": (grouped(4, 0, extra=True), {}),
    "scale": (grouped(1, 5, extra=True), dict(scale=0.2)),
}


@pytest.mark.parametrize(("inputs", "options"), GROUPED.values(), ids=GROUPED)
def test_group_query_attention(models, inputs, options):
    options = {"num_heads": 2, "kv_num_heads": 1, **options}
    static = [index for index in (5, 6, 7, 8) if inputs[index] is not None]
    check(models, "GroupQueryAttention", inputs, 3, static=static, **options)


@pytest.mark.parametrize("case", ["prompt", "past", "rotated_after_past"])
def test_grouped_lengths_that_are_computed(models, case):
    inputs, options = GROUPED[case]
    options = {"num_heads": 2, "kv_num_heads": 1, "host": True, **options}
    check(models, "GroupQueryAttention", inputs, 3, **options)


@pytest.mark.parametrize("options", [dict(softcap=3.0), dict(smooth_softmax=1)])
def test_grouped_attention_with_another_softmax_is_left_to_the_host(models, options):
    options = {"num_heads": 2, "kv_num_heads": 1, "host": True, **options}
    check(models, "GroupQueryAttention", grouped(4, 0), 3, static=(5, 6), **options)


def test_decoding_step_is_left_to_the_host(models):
    options = dict(num_heads=2, host=True)
    cross = [floats(2, 1, 8), floats(2, 2, 6, 4), floats(2, 2, 6, 4)]
    state = [floats(2, 2, 8, 4), floats(2, 2, 8, 4), ints(3)]
    steps = [floats(2, 1, 8) for _ in range(3)]
    for open_axes in (False, True):
        check(models, "DecoderMaskedMultiHeadAttention", cross, open_axes=open_axes, **options)
        check(
            models,
            "DecoderMaskedMultiHeadAttention",
            [*steps, None, None, *state],
            3,
            open_axes=open_axes,
            past_present_share_buffer=1,
            **options,
        )
