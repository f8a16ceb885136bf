"""Helpers of the tests of plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import FLOAT32, from_numpy
from xdlc.opdefs.op_view import OpView, TensorSpec, plain_value
from xdlc.opdefs.source_match import SourceNode, Udo
from xdlc.udo.plugin.collection import plugin_set
from xdlc.udo.plugin.hooks import plugin_hooks

HEAD = "from xdlc.udo import *\nfrom xdlc.udo.plugin import *\n"
EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    """Write a plugin's file."""
    path = folder / name
    path.write_text(HEAD + text)
    return path


def op_of(folder: Path, text: str, **options: Any) -> Udo:
    """Return the only op of a plugin's file."""
    (op,) = plugin_set([str(written(folder, text))], False, **options).ops
    return op


def of_class(found: Any, **options: Any) -> Udo:
    return plugin_hooks(found, **options).udo()


def spec(*shape: int | None, data: Any = None) -> TensorSpec:
    if data is None:
        return TensorSpec(shape, FLOAT32)
    array = np.asarray(data)
    return TensorSpec(array.shape, from_numpy(array.dtype), data=ArrayData(array))


def node(
    *inputs: TensorSpec | None, type: str = "Mine", domain: str = "custom", **attributes: Any
) -> SourceNode:
    return SourceNode("onnx", type, domain, "n1", inputs, ("y",), attributes)


def view(op: Udo, held: SourceNode, outputs: tuple[TensorSpec | None, ...] = (None,)) -> OpView:
    """Return a node as hooks see its op."""
    params = params_of(op, held)
    return OpView(op.definition.package, op.definition.name, held.name, held.inputs, outputs, params)


def params_of(op: Udo, held: SourceNode) -> dict[str, Any]:
    """Return the parameters of a node, in the form that a converted op has."""
    assert op.parse_params is not None
    stored = op.parse_params(held)
    plain = {name: plain_value(op.definition, name, param) for name, param in stored.items()}
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in plain.items()}
