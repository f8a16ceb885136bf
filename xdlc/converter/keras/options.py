"""Options and arguments of layers as their handlers read them."""

from __future__ import annotations

from typing import Any

from xdlc.converter.keras.calls import Call
from xdlc.converter.keras.layers import EXPORT, Layer
from xdlc.errors import UnsupportedOp

_SUFFIXES = ("_initializer", "_regularizer", "_constraint")
_SILENT = """
name trainable dtype batch_input_shape batch_shape seed dropout recurrent_dropout autocast build_config
lora_rank lora_alpha quantization_config ragged implementation input_length gptq_unpacked_column_size
synchronized fused virtual_batch_size flash_attention use_cudnn layers cells layer cell backward_layer
query_shape key_shape
value_shape batch_size
""".split()  # noqa: SIM905 - words
"""Options without meaning at inference, or read already."""
POSITIONAL = {
    "MultiHeadAttention": "query value key query_mask value_mask key_mask attention_mask",
    "GroupQueryAttention": "query value key query_mask value_mask key_mask attention_mask",
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional"), "sequences initial_state mask"),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), "sequences initial_state mask"),
    "BatchNormalization": "inputs training mask",
}
"""Parameters of calls; the first is the input of a layer."""


def options_of(layer: Layer) -> dict[str, Any]:
    """Return the options of a layer that have a meaning at inference."""
    silent = ("name",) if layer.domain == "ops" else _SILENT
    return {
        name: _plain(value)
        for name, value in layer.config.items()
        if name not in silent and not name.endswith(_SUFFIXES)
    }


def _plain(stored: Any, depth: int = 0) -> Any:
    """Return a value without Keras 2's wrappers of tuples, lists and arrays."""
    if isinstance(stored, list) and depth < 8:
        return [_plain(item, depth + 1) for item in stored]
    if isinstance(stored, dict) and stored.get("class_name") in ("__tuple__", "ListWrapper"):
        return _plain(stored.get("items", stored.get("config")), depth + 1)
    return stored.get("value") if isinstance(stored, dict) and stored.get("type") == "ndarray" else stored


def arguments_of(layer: Layer, call: Call) -> dict[str, Any]:
    """Return a call's arguments but the first, by name; neutral ones are omitted."""
    words = POSITIONAL.get(layer.kind, "inputs").split()
    if len(call.args) > len(words):
        raise UnsupportedOp(f"is called with {len(call.args)} arguments", where=layer.place, fix=EXPORT)
    arguments = {**dict(zip(words, call.args, strict=False)), **call.kwargs}
    if not layer.is_old:  # in Keras 3, that of the call of the whole model wins
        arguments.pop("training", None)
    if words[0] not in arguments and "inputs" in arguments:
        words[0] = "inputs"
    first = arguments.pop(words[0], None)
    if isinstance(first, list) and len(first) > 1:
        arguments["inputs"] = first
    return {name: value for name, value in arguments.items() if value is not None and value is not False}


def described(layer: Layer, group: str) -> dict[str, Any]:
    """Return an inner layer of a wrapper as its handler reads it."""
    inner = [described(each, each.path[len(layer.path) + 1 :]) for each in layer.inner]
    return {"kind": layer.kind, "group": group, "config": options_of(layer), "inner": inner}
