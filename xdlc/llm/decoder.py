"""Facts about a decoder, read from the keys of Hugging Face's config.json.

The families and their deviations are the tables of this module; a config that states anything else is
refused with what differs.  Keys and meanings are those of transformers' config classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from xdlc.errors import ModelError, UnsupportedOp, XdlcError, nearest_names, raise_all
from xdlc.json_fields import fits

SCALINGS: Mapping[str, Sequence[str]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor", "original_max_position_embeddings", "attention_factor"),
}
"""Scalings of rotary positions, with their parameters."""
BY_PAIR = ("short_factor", "long_factor")
"""Parameters with a number for each pair of rotated elements."""
MOST_MAGNITUDE = 4.0
"""Largest ``attention_factor``."""
_LIMIT = 1 << 20
"""Largest size or count that a config may state."""
_MOST_LAYERS = 512
_MOST_POSITIONS = 1 << 24
_HIGHEST = 1e30
"""Bound of numbers that a config may state."""
_EXPORT = (
    "export the model with the inputs of docs/guides/llm.md by torch.export, then build from the .pt2 file"
)

Sizes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embeddings.

    Attributes:
        theta: Base of the frequencies.
        dim: Elements of a head that are rotated.
        scaling: Type of the scaling: ``default``, ``linear``, ``llama3`` or ``longrope``.
        facts: The parameters of the scaling, by the keys of the config.
    """

    theta: float
    dim: int
    scaling: str = "default"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def frequencies(self, context: int) -> list[float]:
        """Return the angle of each pair of elements at position 1, in radians.

        The formulas of scalings are those of transformers' modeling_rope_utils.

        Args:
            context: Most tokens; ``longrope`` has other factors beyond the trained length.
        """
        plain = [float(self.theta ** (-2 * index / self.dim)) for index in range(self.dim // 2)]
        if self.scaling == "linear":
            return [frequency / self.facts["factor"] for frequency in plain]
        if self.scaling == "llama3":
            return [self._llama3(frequency) for frequency in plain]
        if self.scaling == "longrope":
            is_long = context > self.facts["original_max_position_embeddings"]
            factors = self.facts["long_factor" if is_long else "short_factor"]
            return [frequency / factor for frequency, factor in zip(plain, factors, strict=True)]
        return plain

    def _llama3(self, frequency: float) -> float:
        factor, trained = float(self.facts["factor"]), self.facts["original_max_position_embeddings"]
        low, high = float(self.facts["low_freq_factor"]), float(self.facts["high_freq_factor"])
        turns = float(trained * frequency / (2 * math.pi))
        if turns < low:
            return frequency / factor
        if turns > high:
            return frequency
        share: float = (turns - low) / (high - low)
        return (1 - share) * frequency / factor + share * frequency

    @property
    def magnitude(self) -> float:
        """Factor of cosines and sines."""
        return float(self.facts["attention_factor"]) if self.scaling == "longrope" else 1.0


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the parameters of a family; those of a layer follow ``layer``.

    Attributes:
        layer: Name of a layer, with ``{}`` for its number.
        qkv: Its projections of queries, keys and values: one that has all, or three.
        gate_up: Its first linear maps: gate and up, one that has both, or up alone.
    """

    embedding: str = "model.embed_tokens"
    positions: str = ""
    layer: str = "model.layers.{}"
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    output: str = "self_attn.o_proj"
    gate_up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: str = "mlp.down_proj"
    query_norm: str = "self_attn.q_norm"
    key_norm: str = "self_attn.k_norm"
    before_attention: str = "input_layernorm"
    after_attention: str = ""
    before_mlp: str = "post_attention_layernorm"
    after_mlp: str = ""
    norm: str = "model.norm"
    head: str = "lm_head"


@dataclass(frozen=True, slots=True)
class Family:
    """What is true of all models of a ``model_type``.

    Attributes:
        biases: Linear maps of a layer with a bias, whatever the config states, by ``Names``.
        unit_norms: Whether norms multiply by one more than their weights.
        query_key_norm: Whether queries and keys are normalized, by head or before heads are split.
        layer_norm: Whether norms are LayerNorm with a bias instead of RMSNorm.
        transposed: Whether linear maps of layers are stored as [inputs, outputs].
        scales_embedding: Whether embeddings are multiplied by the root of their size.
        keys: The family's own keys of the config, by the usual ones.
        defaults: Values of keys that its configs may omit.
        refused: Keys that have to be false or omitted.
    """

    names: Names = Names()
    biases: frozenset[str] = frozenset()
    unit_norms: bool = False
    query_key_norm: Literal["", "head", "all"] = ""
    layer_norm: bool = False
    transposed: bool = False
    scales_embedding: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


_SANDWICH = Names(
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
_GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 256}
_GPT2_KEYS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "intermediate_size": "n_inner",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(defaults={"sliding_window": None}),
    "qwen2": Family(biases=frozenset({"qkv"})),
    "qwen3": Family(query_key_norm="head"),
    "granite": Family(),
    "smollm3": Family(),
    "gemma": Family(unit_norms=True, scales_embedding=True, defaults=_GEMMA),
    "gemma2": Family(names=_SANDWICH, unit_norms=True, scales_embedding=True, defaults=_GEMMA),
    "gemma3_text": Family(
        names=_SANDWICH, unit_norms=True, query_key_norm="head", scales_embedding=True, defaults=_GEMMA
    ),
    "olmo2": Family(
        names=Names(
            before_attention="",
            after_attention="post_attention_layernorm",
            before_mlp="",
            after_mlp="post_feedforward_layernorm",
        ),
        query_key_norm="all",
    ),
    "phi3": Family(names=Names(qkv=("self_attn.qkv_proj",), gate_up=("mlp.gate_up_proj",))),
    "gpt2": Family(
        names=Names(
            embedding="transformer.wte",
            positions="transformer.wpe",
            layer="transformer.h.{}",
            qkv=("attn.c_attn",),
            output="attn.c_proj",
            gate_up=("mlp.c_fc",),
            down="mlp.c_proj",
            before_attention="ln_1",
            before_mlp="ln_2",
            norm="transformer.ln_f",
        ),
        biases=frozenset({"qkv", "output", "gate_up", "down"}),
        layer_norm=True,
        transposed=True,
        keys=_GPT2_KEYS,
        defaults={"tie_word_embeddings": True, "activation_function": "gelu_new", "n_inner": None},
        refused=("scale_attn_by_inverse_layer_idx", "add_cross_attention"),
    ),
}
"""The families by ``model_type``."""

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
}
"""Activations of MLPs by the names of configs."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Facts about a decoder that its network is built from.

    Attributes:
        type: The ``model_type`` of the config.
        hidden: Elements of the residual stream.
        heads: Heads of queries.
        kv_heads: Heads of keys and values.
        inner: Elements of the MLP's inner layer.
        activation: Activation of the MLP, a value of ``ACTIVATIONS``.
        epsilon: Epsilon of norms.
        positions: Most tokens that the model was made for.
        rope: Rotary embeddings of layers with the whole context; None: positions are learned.
        local_rope: The embeddings of layers with a window; usually those of the others.
        windows: Most past tokens that each layer sees, the own one among them; None: all.
        rotates: Whether each layer applies rotary embeddings.
        tied: Whether the head's weights are those of the embedding.
        biases: Linear maps of a layer with a bias, by ``Names``.
        attention_scale: Factor of products of queries and keys.
        attention_cap, logits_cap: Bounds ``cap * tanh(x / cap)``; 0: none.
        embedding_factor, residual_factor, logits_factor: Factors of what their names state.
    """

    type: str
    family: Family
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    activation: str
    epsilon: float
    positions: int
    rope: Rope | None
    local_rope: Rope | None
    windows: tuple[int | None, ...]
    rotates: tuple[bool, ...]
    tied: bool
    biases: frozenset[str]
    attention_scale: float
    attention_cap: float = 0.0
    logits_cap: float = 0.0
    embedding_factor: float = 1.0
    residual_factor: float = 1.0
    logits_factor: float = 1.0


_NUMBER = (int, float)
_FORMS: Mapping[str, Any] = {
    "architectures": [str],
    "layer_types": [str],
    "no_rope_layers": [int],
    "rope_scaling": dict,
    "rope_parameters": dict,
}


class _Config:
    """Typed access to a config, whose faults are collected."""

    def __init__(self, config: Mapping[str, Any], family: Family) -> None:
        self._config, self._family = config, family
        self.problems: list[XdlcError] = []

    def value(self, key: str, default: Any = None) -> Any:
        """Return a value by its usual key; null counts as omitted."""
        own = self._family.keys.get(key, key)
        value = self._config.get(own)
        if value is None:
            value = self._config.get(key)
        if value is None:
            value = self._family.defaults.get(own, self._family.defaults.get(key))
        return default if value is None else value

    def fault(self, text: str, fix: str | None = None) -> None:
        """Note what the config states wrongly, or what is not supported."""
        self.problems.append(ModelError(text, fix=fix or "correct config.json, or use another checkpoint"))

    def refuse(self, text: str) -> None:
        """Note what no decoder of xdlc has."""
        self.problems.append(UnsupportedOp(text, fix=_EXPORT))

    def size(self, key: str, default: int | None = None, most: int = _LIMIT) -> int:
        value = self.value(key, default)
        if type(value) is not int or not 1 <= value <= most:
            self.fault(f"config: {key} is {value!r}, not a whole number of 1 to {most}")
            return 1
        return value

    def number(self, key: str, default: float) -> float:
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, _NUMBER) or not abs(value) < _HIGHEST:
            self.fault(f"config: {key} is {value!r}, not a number")
            return default
        return float(value)

    def flag(self, key: str) -> bool:
        """Return a boolean; default: False."""
        value = self.value(key, False)
        if not isinstance(value, bool):
            self.fault(f"config: {key} is {value!r}, not true or false")
        return bool(value)

    def form(self, key: str) -> Any:
        """Return a list or a dict of ``_FORMS``; None if it is omitted."""
        value = self.value(key)
        if value is not None and not fits(value, _FORMS[key]):
            self.fault(f"config: {key} has a value of a wrong type")
            return None
        return value


def read_decoder(config: Mapping[str, Any]) -> Decoder:
    """Return the facts about the decoder of a config.

    Args:
        config: The content of config.json.

    Raises:
        ModelError: If values contradict each other.
        UnsupportedOp: If its family is not supported, or it states what no decoder here has; several
            problems make a ProblemList.
    """
    config = _text_config(config)
    type = config.get("model_type")
    family = FAMILIES.get(type) if isinstance(type, str) else None
    if family is None:
        raise UnsupportedOp(
            f"the model type is {type!r}; xdlc supports decoders of {', '.join(FAMILIES)}",
            fix=(isinstance(type, str) and nearest_names(type, FAMILIES)) or _EXPORT,
        )
    read = _Config(config, family)
    decoder = _decoder(str(type), read, family)
    raise_all(read.problems, where="config.json")
    return decoder


def read_positions(config: Mapping[str, Any]) -> int:
    """Return the most tokens that a model of any family was made for.

    Raises:
        ModelError: If it is no such number.
    """
    read = _any_family(config)
    positions = read.size("max_position_embeddings", _MOST_POSITIONS, _MOST_POSITIONS)
    raise_all(read.problems, where="config.json")
    return positions


def read_rope(config: Mapping[str, Any], head_dim: int) -> Rope:
    """Return the rotary embeddings that the config of any family states.

    Raises:
        XdlcError: As ``read_decoder`` does.
    """
    read = _any_family(config)
    rope, _ = _ropes(read, head_dim, read.size("max_position_embeddings", _LIMIT, _MOST_POSITIONS))
    raise_all(read.problems, where="config.json")
    return rope


def _any_family(config: Mapping[str, Any]) -> _Config:
    config = _text_config(config)
    return _Config(config, FAMILIES.get(str(config.get("model_type")), Family()))


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the config of the decoder of a model of text and images."""
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) and config.get("model_type") == "gemma3" else config


def _decoder(type: str, read: _Config, family: Family) -> Decoder:
    hidden, layers = read.size("hidden_size"), read.size("num_hidden_layers", most=_MOST_LAYERS)
    heads = read.size("num_attention_heads")
    kv_heads = read.size("num_key_value_heads", heads)
    head_dim = read.size("head_dim", max(1, hidden // heads))
    if heads % kv_heads:
        read.fault(f"config: {heads} query heads are not a multiple of {kv_heads} key heads")
    for key in (*family.refused, "use_bidirectional_attention"):
        if read.value(key):
            read.refuse(f"config: {key} is {read.value(key)!r}, which xdlc does not support")
    if read.value("quantization_config"):
        read.refuse("xdlc does not support the quantization of these weights")
    name = str(read.value("hidden_activation", read.value("hidden_act", "silu")))
    if name not in ACTIVATIONS:
        read.refuse(f"config: the activation is {name!r}; xdlc supports {', '.join(ACTIVATIONS)}")
    positions = read.size("max_position_embeddings", 2048, _MOST_POSITIONS)
    rope, local = (None, None) if family.names.positions else _ropes(read, head_dim, positions)
    root = math.sqrt(hidden)
    divisor = read.number("logits_scaling", 1.0)
    if not divisor:
        read.fault("config: logits_scaling is 0")
    return Decoder(
        type=type,
        family=family,
        vocab=read.size("vocab_size", most=1 << 22),
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inner=read.size("intermediate_size", 4 * hidden),
        activation=ACTIVATIONS.get(name, "silu"),
        epsilon=read.number("rms_norm_eps", 1e-6),
        positions=positions,
        rope=rope,
        local_rope=local,
        windows=_windows(type, read, layers),
        rotates=_rotates(read, layers, rope is not None),
        tied=read.flag("tie_word_embeddings"),
        biases=_biases(read, family),
        attention_scale=_attention_scale(read, head_dim),
        attention_cap=read.number("attn_logit_softcapping", 0.0),
        logits_cap=read.number("final_logit_softcapping", 0.0),
        embedding_factor=root if family.scales_embedding else read.number("embedding_multiplier", 1.0),
        residual_factor=read.number("residual_multiplier", 1.0),
        logits_factor=1.0 / (divisor or 1.0),
    )


def _attention_scale(read: _Config, head_dim: int) -> float:
    scalar = read.number("query_pre_attn_scalar", head_dim)
    if scalar <= 0:
        read.fault(f"config: query_pre_attn_scalar is {scalar}, but must be above 0")
        scalar = 1.0
    return read.number("attention_multiplier", 1 / math.sqrt(scalar))


def _biases(read: _Config, family: Family) -> frozenset[str]:
    biases = set(family.biases)
    if read.flag("attention_bias"):
        biases |= {"qkv", "output"}
    if read.flag("mlp_bias"):
        biases |= {"gate_up", "down"}
    return frozenset(biases)


def _windows(type: str, read: _Config, layers: int) -> tuple[int | None, ...]:
    """Return the window of each layer."""
    window = read.value("sliding_window")
    if window is None or (type in ("qwen2", "qwen3") and not read.flag("use_sliding_window")):
        return (None,) * layers
    width = read.size("sliding_window", most=1 << 24)
    kinds: Sequence[str] | None = read.form("layer_types")
    if kinds is None and type == "gemma2":
        kinds = ["full_attention" if index % 2 else "sliding_attention" for index in range(layers)]
    if kinds is None and type == "gemma3_text":
        period = read.size("sliding_window_pattern", 6)
        kinds = [
            "full_attention" if not (index + 1) % period else "sliding_attention" for index in range(layers)
        ]
    if kinds is None and type in ("qwen2", "qwen3"):
        first = read.number("max_window_layers", 28)
        kinds = ["sliding_attention" if index >= first else "full_attention" for index in range(layers)]
    if kinds is None:
        return (width,) * layers
    unknown = set(kinds) - {"full_attention", "sliding_attention"}
    if unknown or len(kinds) != layers:
        read.refuse(
            f"config: layer_types has {len(kinds)} entries for {layers} layers, unknown: {sorted(unknown)}"
        )
        return (None,) * layers
    return tuple(width if kind == "sliding_attention" else None for kind in kinds)


def _rotates(read: _Config, layers: int, has_rope: bool) -> tuple[bool, ...]:
    """Return whether each layer rotates: a 1 of ``no_rope_layers``."""
    listed = read.form("no_rope_layers")
    if listed is None:
        return (has_rope,) * layers
    if len(listed) != layers:
        read.fault(f"config: no_rope_layers has {len(listed)} entries for {layers} layers")
        return (has_rope,) * layers
    return tuple(map(bool, listed))


def _ropes(read: _Config, head_dim: int, positions: int) -> tuple[Rope, Rope]:
    """Return the rotary embeddings of layers without and with a window."""
    stated = read.form("rope_parameters") or {}
    theta = read.number("rope_theta", 10000.0)
    if "full_attention" in stated:
        full, local = stated["full_attention"], stated.get("sliding_attention")
        if not isinstance(full, Mapping) or not isinstance(local, Mapping):
            read.fault("config: rope_parameters does not hold two mappings")
            full = local = {}
        return _rope(read, full, theta, head_dim, positions), _rope(read, local, theta, head_dim, positions)
    rope = _rope(read, stated or read.form("rope_scaling") or {}, theta, head_dim, positions)
    local_theta = read.value("rope_local_base_freq")
    if local_theta is None:
        return rope, rope
    return rope, Rope(read.number("rope_local_base_freq", theta), rope.dim)


def _rope(read: _Config, stated: Mapping[str, Any], theta: float, head_dim: int, positions: int) -> Rope:
    kind = stated.get("rope_type", stated.get("type", "default"))
    kind = "longrope" if kind == "su" else kind
    if not isinstance(kind, str) or kind not in SCALINGS:
        names = ", ".join(SCALINGS)
        read.refuse(f"config: rotary embeddings are scaled by {kind!r}; xdlc supports {names}")
        kind = "default"
    base = stated.get("rope_theta", theta)
    share = stated.get("partial_rotary_factor", read.value("partial_rotary_factor", 1.0))
    facts = {key: value for key, value in sorted(stated.items()) if value is not None}
    trained = read.value("original_max_position_embeddings", positions)
    facts.setdefault("original_max_position_embeddings", trained)
    facts.setdefault("attention_factor", _magnitude(positions, facts["original_max_position_embeddings"]))
    numbers = [base, share, *(facts.get(key) for key in SCALINGS[kind] if key not in BY_PAIR)]
    numbers += [facts["original_max_position_embeddings"], facts["attention_factor"]]
    is_positive = all(_is_positive(number) for number in numbers)
    if not is_positive or share > 1 or facts["attention_factor"] > MOST_MAGNITUDE:
        text = f"config: parameters of rotary embeddings must be positive, and not so large: {dict(stated)}"
        read.fault(text[:400])
        return Rope(10000.0, head_dim)
    dim = int(head_dim * share) // 2 * 2
    if not dim or (kind == "longrope" and not 1 < facts["original_max_position_embeddings"] <= 1 << 24):
        read.fault("config: rotary embeddings need 2 elements, and original positions from 2 to 2^24")
        return Rope(10000.0, head_dim)
    for key in BY_PAIR if kind == "longrope" else ():
        factors = facts.get(key)
        if not isinstance(factors, list) or len(factors) != dim // 2 or not all(map(_is_positive, factors)):
            read.fault(f"config: {key} is not a list of {dim // 2} positive numbers")
            return Rope(10000.0, head_dim)
    if kind == "llama3" and facts["low_freq_factor"] >= facts["high_freq_factor"]:
        read.fault("config: low_freq_factor is not below high_freq_factor")
    return Rope(float(base), dim, kind, facts)


def _magnitude(positions: int, trained: Any) -> float:
    """Return the usual factor of cosines and sines; 1 if the trained length is wrong."""
    if not _is_positive(trained) or not 1 < trained < positions:
        return 1.0
    return math.sqrt(1 + math.log(positions / trained) / math.log(trained))


def _is_positive(value: object) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool) and 0 < value < _HIGHEST
