"""Decoders in GGUF files, by the keys and names of Hugging Face.

Keys are those of ggml's docs/gguf.md, names of tensors those of llama.cpp's gguf-py.  What llama.cpp's
converters change in weights is undone: the order of rows of queries and keys, the 1 that is added to norms,
the transposition of linear maps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array
from xdlc.json_fields import shown
from xdlc.llm.checkpoint.gguf import Gguf, GgufTensor, read_gguf
from xdlc.llm.checkpoint.gguf_blocks import read_weight
from xdlc.llm.checkpoint.gguf_tokenizer import tokenizer_json
from xdlc.llm.checkpoint.model import Checkpoint, LazyWeights, Weight, omit_unknown_ids, stamps_of
from xdlc.llm.decoder import FAMILIES, Family

_AGAIN = "convert the source checkpoint with a recent llama.cpp"
_LIMIT = 1 << 24
_OUTER = {"token_embd": "embedding", "position_embd": "positions", "output_norm": "norm", "output": "head"}
"""Tensors outside of layers, as members of a family's names."""
_INNER = {
    "attn_norm": "before_attention",
    "attn_output": "output",
    "attn_q_norm": "query_norm",
    "attn_k_norm": "key_norm",
    "post_attention_norm": "after_attention",
    "ffn_norm": "before_mlp",
    "ffn_down": "down",
    "post_ffw_norm": "after_mlp",
}
"""Tensors of a layer that have a name of their own."""
_LAYER = re.compile(r"blk\.(\d{1,4})\.(\w+)\.(weight|bias)")
_ROPE_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
_KEYS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "head_dim": "attention.key_length",
    "sliding_window": "attention.sliding_window",
}
"""Keys of a config, and those of an architecture's metadata."""
_CAPS = {key: key for key in ("attn_logit_softcapping", "final_logit_softcapping")}
_SAMPLING = {"temperature": "temp", "top_k": "top_k", "top_p": "top_p"}


@dataclass(frozen=True, slots=True)
class _Architecture:
    """An architecture of llama.cpp.

    Attributes:
        model_type: The ``model_type`` of its configs.
        is_permuted: Whether rows of queries and keys have the order of neighbouring pairs.
        keys: Further keys of the config, as in ``_KEYS``.
        wide_layers: Number of layers of the models that scale attention by hidden size over heads.
        values: Values of keys that the file does not state.
    """

    model_type: str
    is_permuted: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    wide_layers: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)


_GRANITE = {
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
_GEMMA3 = {
    "rope_local_base_freq": "rope.freq_base_swa",
    "sliding_window_pattern": "attention.sliding_window_pattern",
}
_ARCHITECTURES = {
    "llama": _Architecture("llama", is_permuted=True),
    "qwen2": _Architecture("qwen2"),
    "qwen3": _Architecture("qwen3"),
    "gemma": _Architecture("gemma"),
    "gemma2": _Architecture("gemma2", keys=_CAPS, wide_layers=46),
    "gemma3": _Architecture(
        "gemma3_text",
        keys={**_CAPS, **_GEMMA3},
        wide_layers=62,
        values={"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6},
    ),
    "phi3": _Architecture(
        "phi3", keys={"original_max_position_embeddings": "rope.scaling.original_context_length"}
    ),
    "gpt2": _Architecture("gpt2", keys={"rms_norm_eps": "attention.layer_norm_epsilon"}),
    "olmo2": _Architecture("olmo2"),
    "granite": _Architecture("granite", is_permuted=True, keys=_GRANITE),
    "smollm3": _Architecture("smollm3", is_permuted=True),
}
_Change = Callable[[Weight], Weight]
_Parameter = tuple[str, GgufTensor, Array | None, _Change | None]
_NO_ROPE_STEP = 4
"""llama.cpp's smollm3 leaves every fourth layer without rotary embeddings."""


def open_gguf(path: Path) -> Checkpoint:
    """Open a GGUF file of a decoder.

    Raises:
        XdlcError: As ``open_checkpoint`` does.
    """
    file = read_gguf(path)
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in _ARCHITECTURES:
        raise UnsupportedOp(
            f"the architecture is {shown(str(name))}; xdlc supports {', '.join(_ARCHITECTURES)}",
            where=file.where,
            fix="use the checkpoint of Hugging Face, or export the network with torch.export",
        )
    architecture = _ARCHITECTURES[name]
    family = FAMILIES[architecture.model_type]
    config = _Config(file, name).read(architecture, family)
    weights = {
        hugging_face: partial(_weight, file, tensor, order, change)
        for hugging_face, tensor, order, change in _renamed(file, architecture, family)
    }
    notices = []
    floats = sorted(
        {tensor.layout.name for tensor in file.tensors.values() if tensor.layout.floats is not None}
    )
    if floats:
        notices.append(
            f"{file.where}: blocks of {', '.join(floats)} have float offsets; xdlc reads these blocks as "
            "floats and quantizes the floats again"
        )
    generation = _generation(file)
    notices += omit_unknown_ids(generation, config, file.where)
    tokenizer, notice = tokenizer_json(file.metadata, file.where)
    template = file.metadata.get("tokenizer.chat_template")
    return Checkpoint(
        where=file.where,
        config=config,
        weights=LazyWeights(weights),
        tokenizer=tokenizer,
        chat_template=template if isinstance(template, str) else None,
        generation=generation,
        notices=(*notices, *([f"{file.where}: {notice}"] if notice else [])),
        stamps=stamps_of([Path(file.where)]),
    )


def _weight(file: Gguf, tensor: GgufTensor, order: Array | None, change: _Change | None) -> Weight:
    def read() -> Weight:
        weight = read_weight(file.file, tensor.layout, tensor.offset, tensor.shape, order)
        return weight if change is None else change(weight)

    return Weight.lazy(tensor.shape[::-1] if change is _transposed else tensor.shape, read)


def _renamed(file: Gguf, architecture: _Architecture, family: Family) -> list[_Parameter]:
    """Return name, tensor, order of rows and change of each parameter."""
    names, key = family.names, file.metadata.get("general.architecture")
    parameters: list[_Parameter] = []
    for tensor in file.tensors.values():
        if tensor.name in _ROPE_TENSORS or tensor.name.endswith(".attn_rot_embd.weight"):
            continue
        match = _LAYER.fullmatch(tensor.name)
        stem, _, end = tensor.name.rpartition(".")
        if match is None:
            role, base = stem, getattr(names, _OUTER[stem]) if stem in _OUTER else ""
        else:
            role = match[2]
            inner = _inner(family, role)
            base = f"{names.layer.format(int(match[1]))}.{inner}" if inner else ""
        if not base or end not in ("weight", "bias"):
            problem = (
                f"has a tensor {shown(tensor.name)}, which a decoder of "
                f"{architecture.model_type} does not have"
            )
            raise UnsupportedOp(problem, where=file.where, fix="use the checkpoint of Hugging Face")
        order = None
        if architecture.is_permuted and role in ("attn_q", "attn_k"):
            heads = file.metadata.get(f"{key}.attention.head_count{'_kv' * (role == 'attn_k')}")
            heads = file.metadata.get(f"{key}.attention.head_count") if heads is None else heads
            order = _halves(tensor, heads, file.where)
        change: _Change | None = None
        if family.unit_norms and role.endswith("norm"):
            change = _without_one
        elif family.transposed and len(tensor.shape) == 2 and match is not None:
            change = _transposed
        parameters.append((f"{base}.{end}", tensor, order, change))
    return parameters


def _inner(family: Family, role: str) -> str:
    """Return the name of a part of a layer; "" if the family lacks it."""
    names = family.names
    if role in _INNER:
        return str(getattr(names, _INNER[role]))
    qkv = ("attn_qkv",) if len(names.qkv) == 1 else ("attn_q", "attn_k", "attn_v")
    gate_up = ("ffn_up",) if len(names.gate_up) == 1 else ("ffn_gate", "ffn_up")
    parts: dict[str, str] = dict(zip((*qkv, *gate_up), (*names.qkv, *names.gate_up), strict=True))
    return parts.get(role, "")


def _halves(tensor: GgufTensor, heads: Any, where: str) -> Array:
    """Return the row of the file for each row in the order of two halves of a head."""
    rows = tensor.shape[0]
    if type(heads) is not int or heads < 1 or rows % (2 * heads):
        problem = f"tensor {shown(tensor.name)} has {rows} rows for {heads!r} heads"
        raise ModelError(problem, where=where, fix=_AGAIN)
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)


def _without_one(weight: Weight) -> Weight:
    return Weight(weight.floats().transform(lambda array: array.astype(np.float32) - 1, dtype=np.float32))


def _transposed(weight: Weight) -> Weight:
    data = weight.floats().transpose((1, 0))
    if isinstance(data, ir.Dequantized) and isinstance(data.encoding, ir.BlockScaleOffset):
        return Weight(data.stored, data.encoding)
    return Weight(data)


def _generation(file: Gguf) -> dict[str, Any]:
    """Return token ids and defaults of sampling."""

    def number(key: str) -> Any:
        value = file.metadata.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def token(name: str) -> int | None:
        value = number(f"tokenizer.ggml.{name}_token_id")
        return value if isinstance(value, int) else None

    ids = {name: token(name) for name in ("bos", "padding", "eos", "eot", "eom")}
    ends = [ids[name] for name in ("eos", "eot", "eom") if ids[name] is not None]
    sampling = {key: number(f"general.sampling.{own}") for key, own in _SAMPLING.items()}
    return {
        "bos_token_id": ids["bos"],
        "eos_token_id": list(dict.fromkeys(ends)),
        "pad_token_id": ids["padding"],
        **_without_none(sampling),
    }


class _Config:
    """The metadata of an architecture, as a config."""

    def __init__(self, file: Gguf, name: str) -> None:
        self._file, self._name = file, name

    def value(self, key: str) -> Any:
        """Return a number or text; one for all layers if all have the same."""
        value = self._file.metadata.get(f"{self._name}.{key}")
        if isinstance(value, list):
            if not value or any(number != value[0] for number in value):
                raise UnsupportedOp(
                    f"{self._name}.{key} differs between layers",
                    where=self._file.where,
                    fix="use a model whose layers have equal sizes",
                )
            value = value[0]
        return _short(value) if isinstance(value, float) else value

    def size(self, key: str) -> int:
        value = self.value(key)
        if type(value) is not int or not 1 <= value <= _LIMIT:
            problem = f"{self._name}.{key} is {shown(str(value))}, but must be from 1 to {_LIMIT}"
            raise ModelError(problem, where=self._file.where, fix=_AGAIN)
        return value

    def read(self, architecture: _Architecture, family: Family) -> dict[str, Any]:
        keys = {**_KEYS, **architecture.keys}
        stated = {key: self.value(own) for key, own in keys.items()}
        config = {**architecture.values, **_without_none(stated)}
        hidden, heads = self.size("embedding_length"), self.size("attention.head_count")
        layers = self.size("block_count")
        embedding = self._file.tensors.get("token_embd.weight")
        if embedding is None:
            raise ModelError("has no token_embd.weight", where=self._file.where, fix=_AGAIN)
        config["vocab_size"] = embedding.shape[0]
        config["tie_word_embeddings"] = "output.weight" not in self._file.tensors
        if not config.get("sliding_window"):
            config.pop("sliding_window", None)
        self._biases(config, family)
        if family.names.positions:
            return self._own_keys(config, family)
        head_dim = config.setdefault("head_dim", hidden // heads)
        rotated = self.value("rope.dimension_count")
        if type(rotated) is int and type(head_dim) is int and 0 < rotated < head_dim:
            config["partial_rotary_factor"] = rotated / head_dim
        if architecture.wide_layers:
            config["query_pre_attn_scalar"] = (
                hidden // heads if layers == architecture.wide_layers else config["head_dim"]
            )
        if architecture.model_type == "smollm3" and layers <= 1 << 10:
            config["no_rope_layers"] = [int(bool((index + 1) % _NO_ROPE_STEP)) for index in range(layers)]
        scaling = self._scaling(config)
        if scaling:
            config["rope_scaling"] = scaling
        return self._own_keys(config, family)

    def _own_keys(self, config: dict[str, Any], family: Family) -> dict[str, Any]:
        return {"model_type": _ARCHITECTURES[self._name].model_type} | {
            family.keys.get(key, key): value for key, value in config.items()
        }

    def _biases(self, config: dict[str, Any], family: Family) -> None:
        for key, role, tensor in (("attention_bias", "qkv", "attn_q"), ("mlp_bias", "gate_up", "ffn_gate")):
            if role not in family.biases and f"blk.0.{tensor}.bias" in self._file.tensors:
                config[key] = True

    def _scaling(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return how rotary embeddings are scaled."""
        if "rope_freqs.weight" in self._file.tensors:
            theta, trained = config.get("rope_theta", 1e4), config.get("max_position_embeddings", 1)
            return _llama3(self._factors("rope_freqs.weight"), theta, trained)
        kind = self.value("rope.scaling.type")
        longs, shorts = _ROPE_TENSORS[1:]
        if longs in self._file.tensors and shorts in self._file.tensors:
            scaling = {"short_factor": self._factors(shorts), "long_factor": self._factors(longs)}
            attention = {"attention_factor": self.value("rope.scaling.attn_factor")}
            return {"rope_type": "longrope", **scaling, **_without_none(attention)}
        if kind in (None, "none"):
            return {}
        trained = self.value("rope.scaling.original_context_length")
        stated = {"factor": self.value("rope.scaling.factor"), "original_max_position_embeddings": trained}
        return {"rope_type": kind, **_without_none(stated)}

    def _factors(self, name: str) -> list[float]:
        """Return the factors of a tensor."""
        tensor = self._file.tensors[name]
        if len(tensor.shape) != 1 or not 1 <= tensor.shape[0] <= 1 << 12:
            problem = (
                f"tensor {name} has shape {list(tensor.shape)}, but needs 1 axis of at most 4096 elements"
            )
            raise ModelError(problem, where=self._file.where, fix=_AGAIN)
        values = read_weight(self._file.file, tensor.layout, tensor.offset, tensor.shape).floats().numpy()
        factors = [_short(float(value)) for value in values]
        if not all(math.isfinite(factor) and factor > 0 for factor in factors):
            problem = f"tensor {name} has values that are not positive"
            raise ModelError(problem, where=self._file.where, fix=_AGAIN)
        return factors


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _short(value: float) -> float:
    """Return the shortest decimal number of a float32: 1e-06, not 9.99999997e-07."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return float(str(single)) if float(single) == value else value


def _llama3(factors: list[float], theta: Any, trained: Any) -> dict[str, Any]:
    """Return the scaling of Llama 3 that has these factors, or the factors themselves.

    Llama 3 states low and high frequencies of 1 and 4 turns. Between them, the trained length follows from
    any factor.
    """
    factor, low, high = max(factors), 1.0, 4.0
    exact: dict[str, Any] = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors}
    exact |= {"attention_factor": 1.0, "original_max_position_embeddings": trained}
    if not isinstance(theta, int | float) or not 1 < theta < 1e12 or factor <= 1:
        return exact
    waves = [2 * math.pi * theta ** (index / len(factors)) for index in range(len(factors))]
    for wave, middle in zip(waves, factors, strict=True):
        if not 1 < middle < factor:
            continue
        length = round(wave * (low + (high - low) * (1 / middle - 1 / factor) / (1 - 1 / factor)))
        for stated in (length, 1 << max(length - 1, 1).bit_length(), 1 << max(length, 1).bit_length() - 1):
            turns = [stated / wave_ for wave_ in waves]
            shares = [min(1.0, max(0.0, (turn - low) / (high - low))) for turn in turns]
            if all(
                math.isclose(1 / ((1 - share) / factor + share), exact_factor, rel_tol=1e-4)
                for share, exact_factor in zip(shares, factors, strict=True)
            ):
                return {
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": low,
                    "high_freq_factor": high,
                    "original_max_position_embeddings": stated,
                }
        break
    return exact
