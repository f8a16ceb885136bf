"""Networks read as programs and as torch's ONNX compute what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xdlc

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def residual(nn):
    """Return a block of a mobile network with its shortcut."""
    squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.SiLU(), nn.Conv2d(4, 16, 1))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()
            )
            self.deep = nn.Conv2d(16, 16, 5, padding="same", groups=16)
            self.squeeze = squeeze

        def forward(self, x):
            x = self.stem(x)
            y = self.deep(x)
            y = y * self.squeeze(y).sigmoid()
            y += x
            return nn.functional.max_pool2d(y.relu_(), 3, 2, 1, ceil_mode=True).mean((2, 3))

    return Block()


def encoder(nn):
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")


def causal(nn):
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 16)
            self.qkv = nn.Linear(16, 48)
            self.norm = nn.LayerNorm(16)

        def forward(self, ids):
            x = self.norm(self.embed(ids))
            q, k, v = self.qkv(x).view(1, 5, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return y.transpose(1, 2).reshape(1, 5, 16) + x, ids.argmax(-1)

    return Attention()


def recurrent(nn):
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
            self.gru = nn.GRU(10, 4)

        def forward(self, x):
            y, (h, _) = self.lstm(x)
            return self.gru(y.transpose(0, 1))[0], h

    return Recurrent()


def upward(nn):
    class Upward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(2, 4)
            self.up = nn.ConvTranspose2d(4, 3, 2, 2)

        def forward(self, x):
            low = nn.functional.interpolate(self.norm(x), scale_factor=2, mode="bilinear")
            return nn.functional.instance_norm(low), self.up(x), nn.functional.pixel_shuffle(x, 2)

    return Upward()


def indices(nn):
    class Indices(nn.Module):
        def forward(self, x, at):
            y = x.clone()
            y[:, 1:3] *= 2
            y.view(-1)[::4].neg_()
            values, order = y.topk(2, dim=-1)
            return y.gather(1, at), values, order, x.masked_fill(x > 0, 2.5).cumsum(1), y[:, at[0]]

    return Indices()


def promoted(nn):
    class Promoted(nn.Module):
        def forward(self, x, at):
            return at / 2, at // 2 - 1, x * 2 + at, (at > 1).sum(), x.round(), at.float().std(1), at % -3

    return Promoted()


X, AT = (1, 4, 8, 8), ("ids", (2, 5))
CASES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "residual": (residual, [(2, 3, 18, 18)]),
    "encoder": (encoder, [(2, 5, 16)]),
    "causal": (causal, [("ids", (1, 5))]),
    "recurrent": (recurrent, [(2, 7, 6)]),
    "upward": (upward, [X]),
    "indices": (indices, [(2, 8), AT]),
    "promoted": (promoted, [(2, 5), AT]),
}


@pytest.mark.parametrize("name", CASES)
def test_both_ways_compute_what_torch_computes(torch, name):
    make, shapes = CASES[name]
    torch.manual_seed(0)
    net = make(torch.nn).eval()
    args = tuple(
        torch.randint(0, 5, shape[1]) if isinstance(shape[0], str) else torch.randn(shape) for shape in shapes
    )
    expected = net(*args)
    expected = [each.detach().numpy() for each in (expected if isinstance(expected, tuple) else (expected,))]
    for options in ({}, {"torch_exporter": "onnx"}):
        model = xdlc.convert(net, args, importer_options=options, notify=lambda _: None)
        feed = dict(zip((each.name for each in model.main.inputs), map(np.asarray, args), strict=True))
        got = xdlc.run(model, feed)
        for output, value in zip(model.main.outputs, expected, strict=True):
            np.testing.assert_allclose(got[output.name], value, rtol=1e-3, atol=1e-5, err_msg=str(options))
            assert got[output.name].dtype == value.dtype
