"""Names that the source has for the tensors of a quantized graph."""

from __future__ import annotations

from collections.abc import Mapping

from xdlc.ir import Model, Tensor
from xdlc.quant.op_specs import single_name
from xdlc.quant.overrides.matching import source_names


def note_names(model: Model, before: Model, moved: Mapping[str, str]) -> None:
    """Note for each tensor that quantization has made which one of the source it is, if any.

    Args:
        model: The quantized model; its metadata are changed.
        before: The float model.
        moved: Names of static tensors in new shapes, and the old names.
    """
    graph, names = model.main, dict(source_names(before))
    for tensor in graph.tensors.values():
        if tensor.name in before.main.tensors:
            continue
        old = moved.get(tensor.name) or _quantized(tensor)
        names[tensor.name] = names.get(old, [old]) if old is not None else []
    if names:
        model.metadata["tensors"] = {**model.metadata.get("tensors", {}), graph.name: names}


def _quantized(tensor: Tensor) -> str | None:
    """Return the name of the tensor of floats that a tensor is the stored form of, if any."""
    op = tensor.producer
    source = op.inputs[0] if op is not None and single_name(op) == "Quantize" else None
    return source.name if source is not None else None
