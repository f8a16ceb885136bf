"""Keras layers, saved in both formats, against Keras itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc

pytestmark = pytest.mark.frameworks

CASES: dict[str, tuple[Callable[[Any], Any], list[tuple[int, ...]]]] = {
    **{
        f"{kind}{rank}D {options}": (
            lambda k, kind=kind, rank=rank, options=options: getattr(k.layers, f"{kind}{rank}D")(
                3, **options
            ),
            [(*(9, 8, 7)[:rank], 4)],
        )
        for rank in (1, 2, 3)
        for kind, listed in {
            "Conv": [{"strides": 2, "padding": "same"}, {"dilation_rate": 2}, {"activation": "gelu"}],
            "MaxPooling": [{"strides": 2, "padding": "same"}, {"strides": 1}],
            "AveragePooling": [{"strides": 2, "padding": "same"}],
        }.items()
        for options in ({"kernel_size": 3, **each} if kind == "Conv" else each for each in listed)
    },
    "transposed": (
        lambda k: k.layers.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=1),
        [(4, 5, 2)],
    ),
    "depthwise": (lambda k: k.layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), [(6, 5, 3)]),
    "separable": (lambda k: k.layers.SeparableConv1D(5, 3, activation="silu"), [(7, 3)]),
    "batch norm": (lambda k: k.layers.BatchNormalization(axis=1), [(4, 5, 3)]),
    "layer norm": (lambda k: k.layers.LayerNormalization(axis=[1, 2]), [(4, 5, 3)]),
    "group norm": (lambda k: k.layers.GroupNormalization(groups=2), [(5, 6)]),
    "prelu": (lambda k: k.layers.PReLU(shared_axes=[1]), [(5, 6)]),
    "dot": (lambda k: k.layers.Dot((2, 1), normalize=True), [(4, 5), (5, 3)]),
    "bicubic": (lambda k: k.layers.Resizing(7, 4, interpolation="bicubic"), [(5, 6, 2)]),
    "odd borders": (
        lambda k: k.layers.Resizing(8, 4, pad_to_aspect_ratio=True, fill_value=2.0),
        [(5, 6, 2)],
    ),
    "bidirectional": (lambda k: k.layers.Bidirectional(k.layers.LSTM(3, return_sequences=True)), [(5, 4)]),
    "gru": (lambda k: k.layers.GRU(3, go_backwards=True, return_sequences=True), [(5, 4)]),
    "old gru": (lambda k: k.layers.GRU(3, reset_after=False), [(5, 4)]),
    "stacked cells": (lambda k: k.layers.RNN([k.layers.LSTMCell(3), k.layers.GRUCell(2)]), [(5, 4)]),
    "convolutional lstm": (lambda k: k.layers.ConvLSTM2D(2, 3, padding="same"), [(3, 5, 4, 2)]),
    "steps": (lambda k: k.layers.TimeDistributed(k.layers.Conv2D(2, 3)), [(3, 5, 4, 2)]),
    "attention": (lambda k: k.layers.Attention(use_scale=True), [(4, 3), (5, 3)]),
    "additive attention": (lambda k: k.layers.AdditiveAttention(), [(4, 3), (5, 3)]),
    "grouped attention": (lambda k: _self(k.layers.GroupQueryAttention(4, 4, 2)), [(5, 6)]),
    "several heads": (lambda k: _self(k.layers.MultiHeadAttention(2, 3, value_dim=5)), [(5, 6)]),
    "masked": (
        lambda k: lambda x: k.layers.LSTM(3, return_sequences=True)(k.layers.Masking(0.0)(k.ops.relu(x))),
        [(6, 1)],
    ),
    "operations": (lambda k: lambda x: (k.ops.mean(x[:, 1:, None] * 2 - 1, axis=2) / 3)[..., ::-1], [(5, 4)]),
}


def _self(layer: Any) -> Callable[[Any], Any]:
    return lambda x: layer(x, x)


@pytest.fixture(scope="module")
def keras() -> Any:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed (extra test-frameworks)")
    return pytest.importorskip("keras", reason="Keras is not installed (extra test-frameworks)")


@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_layers(tmp_path: Path, keras: Any, name: str, suffix: str) -> None:
    make, shapes = CASES[name]
    inputs = [keras.Input(shape, name=f"x{index}") for index, shape in enumerate(shapes)]
    layer = make(keras)
    model = keras.Model(inputs, layer(inputs if len(inputs) > 1 else inputs[0]))
    rng = np.random.default_rng(0)
    for variable in model.weights:
        is_scale = variable.path.endswith(("variance", "gamma"))
        variable.assign(
            rng.uniform(0.5, 1.5, variable.shape) if is_scale else rng.normal(0, 0.4, variable.shape)
        )
    feeds = {
        f"x{index}": rng.normal(size=(2, *shape)).astype(np.float32) for index, shape in enumerate(shapes)
    }
    expected = np.asarray(model(list(feeds.values()) if len(feeds) > 1 else feeds["x0"], training=False))
    path = tmp_path / f"m.{suffix}"
    model.save(path)
    (found,) = xdlc.run(xdlc.convert(path, batch=2, notify=lambda _: None), feeds).values()
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
