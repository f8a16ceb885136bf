"""Tables that a few bytes of a model request are refused before they are laid out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, node
from xdlc.converter import values

CASES: Mapping[str, tuple[Any, Mapping[str, tuple[int, ...]], Mapping[str, Any]]] = {
    "places of maxima": (node("MaxPool", "x", "y i", kernel_shape=[2, 2]), {"x": (1, 1, 40, 40)}, {}),
    "an image of columns": (
        node("Col2Im", "x s b", "y"),
        {"x": (1, 4, 1521)},
        {"s": np.array([40, 40]), "b": np.array([2, 2])},
    ),
    "frames": (node("STFT", "x s - f", "y"), {"x": (1, 3000, 1)}, {"s": np.array(1), "f": np.array(2)}),
    "factors of a norm": (node("LayerNormalization", "x s", "y", axis=0), {"x": (40, 40), "s": (40,)}, {}),
    "many channels": (node("LRN", "x", "y", size=2000), {"x": (1, 3, 4, 4)}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_large_tables_are_not_laid_out(case: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, shapes, held = CASES[case]
    feeds = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    path = tmp_path / "m.onnx"
    path.write_bytes(build([made], feeds, held, list(made.output), 18).SerializeToString())
    monkeypatch.setattr(values, "TABLE_LIMIT", 1000)
    model = xdlc.convert(path)
    assert all(tensor.size <= 1000 for tensor in model.main.tensors.values() if tensor.is_static)
