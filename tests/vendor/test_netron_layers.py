"""Netron's own reader shows the layers of a container of format 3 as the model holds them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.section_models import residual
from tests.vendor.test_netron import Netron, netron  # noqa: F401 - a fixture
from xdlc.ir import AxisScaleOffset, Op, Scalar, ScaleOffset, Tensor

NEURONS = {1: "ReLU", 3: "Sigmoid"}  # Netron's names


def _listed(values: Any) -> list[Any]:
    """Return what Netron shows of a list: of whole numbers as many bytes as there are numbers.

    It does so with the vendor's files too, where the rest of the bytes makes numbers of 32 bits.
    """
    return list(values.tobytes()[: values.size]) if values.dtype == np.int32 else list(values.tolist())


def _attributes(op: Op) -> dict[str, Any]:
    """Return parameters as Netron shows attributes: nested, real numbers rounded."""
    found: dict[str, Any] = {}
    for name, param in op.params.items():
        *path, last = name.split(".")
        place = found
        for step in path:
            place = place.setdefault(step, {})
        place[last] = param.value if isinstance(param, Scalar) else _listed(param.numpy())
    del found["layer_id"]
    if op.type == "Neuron":
        found["type"] = NEURONS[found["type"]]
    return found


def _encodings(tensors: list[Tensor]) -> list[Any]:
    shown = []
    for tensor in tensors:
        assert isinstance(tensor.encoding, ScaleOffset)
        shown.append((tensor.encoding.scale, tensor.encoding.offset, 0x200 + tensor.dtype.bits))
    return shown


def test_layers(netron: Netron, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    xdlc.save(residual(), tmp_path / "a.dlc", "3")
    model = xdlc.load(tmp_path / "a.dlc")
    shown = netron.open(tmp_path / "a.dlc")
    assert (shown["format"], shown["errors"]) == ("DLC", [])
    (graph,) = shown["graphs"]
    assert [node["name"] for node in graph["nodes"]] == [op.name for op in model.main.ops]
    channels = 0
    for op, node in zip(model.main.ops, graph["nodes"], strict=True):
        assert node["type"] == op.type
        dynamic = [tensor.name for tensor in op.inputs if tensor is not None and not tensor.is_static]
        assert (node["inputs"], node["outputs"]) == (dynamic, [tensor.name for tensor in op.outputs])
        attributes = dict(node["attributes"])
        encodings = [held["DataEncodingElement"][0] for held in attributes.pop("DataEncoding")]
        assert [(one["delta"], one["offset"], one["precision"]) for one in encodings] == _encodings(
            list(op.outputs)
        )
        assert attributes == _attributes(op)
        weights = {t.name.removeprefix(f"{op.name}."): t for t in op.inputs if t is not None and t.is_static}
        assert node["weights"].keys() == weights.keys()
        for name, tensor in weights.items():
            data = np.ascontiguousarray(tensor.numpy())
            assert node["weights"][name]["shape"] == list(tensor.shape)
            assert node["weights"][name]["sha256"] == hashlib.sha256(data.tobytes()).hexdigest()
            channels += isinstance(tensor.encoding, AxisScaleOffset)
    assert channels
    for tensor in model.main.tensors.values():
        if tensor.producer is not None:
            assert graph["tensors"][tensor.name]["shape"] == list(tensor.shape)
