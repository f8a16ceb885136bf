"""Networks of decoders, written with canonical operators.

A part of a decoder has some of its layers; the first has the embedding, the last the head.  Its graphs
process some tokens at a time, after those whose keys and values they get.  Names and layouts of inputs
and outputs are those that the vendor's runtime of language models reads (quic/ai-hub-models,
``_shared/llm/model.py``):

=========================  =================================  ==========================================
``input_ids``              int32 [1, tokens]                  the tokens
``attention_mask``         [1, 1, tokens, context]            0 where a token sees another; the past first
``position_ids_cos, _sin`` [1, 1, tokens, rotated / 2]        of the angles of positions
``position_ids``           int32 [1, tokens]                  of learned positions
``past_key_N_in``          [kv_heads, 1, head_dim, past]      ``past_key_N_out`` has those of the tokens
``past_value_N_in``        [kv_heads, 1, past, head_dim]      ``past_value_N_out`` likewise
``logits``                 [1, tokens, vocab]
=========================  =================================  ==========================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xdlc.converter.operators.registry import CanonicalHandlers
from xdlc.converter.pipeline import Options, SourceModel, finish, import_model
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.session.node import SourceGraph
from xdlc.errors import ModelError, UnsupportedOp, XdlcError, raise_all
from xdlc.ir import ArrayData, Graph, Model, TensorData
from xdlc.ir.derived_data import fill
from xdlc.ir.dtype import FLOAT32, INT32
from xdlc.llm.decoder import Decoder
from xdlc.llm.layout import COSINES, IDS, LOGITS, MASK, POSITIONS, SINES, Length
from xdlc.llm.nodes import Net
from xdlc.llm.weights import ZERO_BYTE, Change, Weights
from xdlc.options import Notify, spell
from xdlc.runtime.onnx_evaluator import limited

if TYPE_CHECKING:
    from xdlc.llm.checkpoint import Weight

_TOOL = "xdlc-llm"
HEAD = "head"
"""Name of the ops that compute logits, or what it begins with, before a number."""
HEAD_ROWS = 1 << 14
"""Tokens whose logits one op computes: the compiler needs memory for the largest op."""
_FLOAT16 = 10
"""TensorProto.FLOAT16."""
MASKED = -1000.0
"""Value of the mask where a token does not see another: scores may differ by hundreds."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive layers of a decoder.

    Attributes:
        number: Its number, from 1.
        count: Number of parts.
        layers: Its layers.
        first, last: Whether it has the embedding, and the head.
    """

    number: int
    count: int
    layers: range

    @property
    def first(self) -> bool:
        """Whether it has the embedding."""
        return self.number == 1

    @property
    def last(self) -> bool:
        """Whether it has the head."""
        return self.number == self.count

    @property
    def input(self) -> str:
        """Name of the value that it reads of the part before."""
        return f"hidden_{self.number - 1}"

    @property
    def output(self) -> str:
        """Name of the value that the next part reads."""
        return f"hidden_{self.number}"

    def lengths(self, lengths: Sequence[Length]) -> list[Length]:
        """Return the sizes of its graphs: without attention, of the first context."""
        return [length for length in lengths if self.layers or length.context == lengths[0].context]

    def graph_name(self, length: Length) -> str:
        kind = "token" if length.tokens == 1 else "prompt"
        return f"{kind}_ar{length.tokens}_cl{length.context}_{self.number}_of_{self.count}"


class _Shapes(Weights):
    """Zeros in place of parameters, whose shapes are noted."""

    def __init__(self) -> None:
        super().__init__({})
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.maps: dict[str, None] = {}

    def data(self, name: str, shape: Sequence[int], change: Change | None = None) -> TensorData:
        self.shapes[name] = tuple(shape)
        return fill(ArrayData(_zero()), shape)

    def linear(
        self, name: str, shape: Sequence[int], op: str, *, is_transposed: bool = False, start: int = 0
    ) -> TensorData:
        self.maps[op] = None
        rows = self.shapes.get(name, (0, 0))[0] if start else 0
        return self.data(name, (rows + shape[0], *shape[1:]))


def _zero() -> Any:
    return np.zeros((), np.float32)


def parameters(decoder: Decoder, part: Part | None = None) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters that a part reads; default: of all."""
    return _read(decoder, part or parts_of(decoder, [])[0]).shapes


def linear_maps(decoder: Decoder) -> list[str]:
    """Return the names of the linear maps of a decoder."""
    return list(_read(decoder, parts_of(decoder, [])[0]).maps)


def map_of(op: str) -> str:
    """Return the name of the linear map of an op, which may have several ops."""
    stem, _, number = op.partition("_")
    return HEAD if stem == HEAD and (not number or number.isdecimal()) else op


def bits_of_ops(graph: Graph, bits: Mapping[str, int]) -> dict[str, int]:
    """Return the bits of ops by name, from those of linear maps."""
    return {op.name: bits[map_of(op.name)] for op in graph.ops if map_of(op.name) in bits}


def _read(decoder: Decoder, part: Part) -> _Shapes:
    shapes = _Shapes()
    _Decoder(decoder, shapes, part, Length(1, 2)).graph()
    return shapes


def check_parameters(decoder: Decoder, weights: Mapping[str, Weight]) -> list[str]:
    """Check the parameters of a checkpoint; return names of unread ones.

    Raises:
        ModelError: If parameters are missing, or have other shapes than the config makes them; several
            problems make a ProblemList.
    """
    shapes = parameters(decoder)
    problems: list[XdlcError] = []
    for name, shape in shapes.items():
        if name not in weights:
            text = f"the checkpoint has no parameter {name!r}"
            problems.append(ModelError(text, fix="load the checkpoint with all files"))
        elif weights[name].shape != shape:
            text = (
                f"parameter {name!r} has shape {list(weights[name].shape)}, but the config has {list(shape)}"
            )
            problems.append(ModelError(text, fix="load config.json and weights of the same checkpoint"))
    raise_all(problems)
    return [name for name in weights if name not in shapes]


class _Decoder:
    """Writes the graph of a part of a decoder."""

    def __init__(self, decoder: Decoder, weights: Weights, part: Part, length: Length) -> None:
        self._decoder, self._weights, self._part, self._length = decoder, weights, part, length
        self._names = decoder.family.names
        self._net = Net(weights.dtype)
        self._built: dict[str, Any] = {}

    def graph(self) -> SourceGraph:
        decoder, net, part, length = self._decoder, self._net, self._part, self._length
        tokens = length.tokens
        if part.first:
            stream = self._embedded(net.input(IDS, INT32, 1, tokens))
        else:
            hidden = net.input(part.input, net.dtype, 1, tokens, decoder.hidden)
            stream = net.shaped("hidden", hidden, tokens, decoder.hidden)
        if part.layers:
            net.input(MASK, net.dtype, 1, 1, tokens, length.context)
            if decoder.rope is not None:
                for name in (COSINES, SINES):
                    net.input(name, net.dtype, 1, 1, tokens, decoder.rope.dim // 2)
        for layer in part.layers:
            net.scope = f"layer_{layer}."
            stream = self._layer(stream, layer)
        net.scope = ""
        if part.last:
            self._head(stream)
        else:
            shape = net.array("hidden_shape", [1, tokens, decoder.hidden], "int64")
            net.output("Reshape", part.output, [stream, shape])
        return SourceGraph(net.inputs, net.outputs, net.nodes, net.constants)

    def _embedded(self, ids: str) -> str:
        decoder, net, tokens = self._decoder, self._net, self._length.tokens
        flat = net.shaped("ids", ids, tokens)
        stream = self._rows(flat)
        stream = net.scaled("scaled_embedding", stream, decoder.embedding_factor)
        if self._names.positions:
            places = net.shaped("positions", net.input(POSITIONS, INT32, 1, tokens), tokens)
            name = f"{self._names.positions}.weight"
            data = self._weights.data(name, (decoder.positions, decoder.hidden))
            learned = net.add("Gather", "position_embedding", [net.constant(name, data), places], axis=0)
            stream = net.add("Add", "positioned_embedding", [stream, learned])
        return stream

    def _rows(self, ids: str) -> str:
        """Return the embeddings of tokens."""
        decoder, net = self._decoder, self._net
        name, shape = f"{self._names.embedding}.weight", (decoder.vocab, decoder.hidden)
        if not self._weights.packs:
            table = net.constant(name, self._weights.data(name, shape))
            return net.add("Gather", "embedding", [table, ids], axis=0)
        stored, steps = self._weights.rows(name, shape)
        rows = net.add("Gather", "embedding_rows", [net.constant(name, stored), ids], axis=0)
        zero = net.array("embedding_zero", ZERO_BYTE, "uint8")
        whole = net.add(
            "DequantizeLinear", "embedding_integers", [rows, net.array("unit", 1.0, "float32"), zero]
        )
        if net.dtype is not FLOAT32:
            whole = net.add("Cast", "embedding_cast", [whole], to=_FLOAT16)
        tokens, blocks = self._length.tokens, steps.shape[1]
        scales = [net.constant(f"{name}.steps", steps), ids]
        scale = net.add("Gather", "embedding_steps", scales, axis=0)
        scale = net.shaped("embedding_step_blocks", scale, tokens, blocks, 1)
        parts = net.shaped("embedding_blocks", whole, tokens, blocks, decoder.hidden // blocks)
        scaled = net.add("Mul", "embedding_parts", [parts, scale])
        return net.shaped("embedding", scaled, tokens, decoder.hidden)

    def _layer(self, stream: str, layer: int) -> str:
        names = self._names
        normal = self._normalized("attention_norm", stream, names.before_attention, layer)
        attended = self._attention(normal, layer)
        attended = self._normalized("after_attention_norm", attended, names.after_attention, layer)
        stream = self._added("attention_sum", stream, attended)
        normal = self._normalized("mlp_norm", stream, names.before_mlp, layer)
        result = self._normalized("after_mlp_norm", self._mlp(normal, layer), names.after_mlp, layer)
        return self._added("mlp_sum", stream, result)

    def _added(self, name: str, stream: str, branch: str) -> str:
        branch = self._net.scaled(f"{name}.scaled", branch, self._decoder.residual_factor)
        return self._net.add("Add", name, [stream, branch])

    def _parameter(self, layer: int, name: str) -> str:
        return f"{self._names.layer.format(layer)}.{name}"

    def _normalized(self, name: str, value: str, parameter: str, layer: int) -> str:
        """Return a normalized value; itself if the family has no such norm."""
        if not parameter:
            return value
        return self._norm(name, value, self._parameter(layer, parameter), self._decoder.hidden)

    def _norm(self, name: str, value: str, parameter: str, width: int) -> str:
        decoder, net = self._decoder, self._net
        weight = f"{parameter}.weight"
        if decoder.family.unit_norms:
            data = self._weights.data(weight, (width,), _one_more)
        else:
            data = self._weights.data(weight, (width,))
        inputs = [value, net.constant(weight, data)]
        if decoder.family.layer_norm:
            bias = f"{parameter}.bias"
            inputs.append(net.constant(bias, self._weights.data(bias, (width,))))
            return net.add("LayerNormalization", name, inputs, axis=-1, epsilon=decoder.epsilon)
        return net.add("RMSNormalization", name, inputs, axis=-1, epsilon=decoder.epsilon)

    def _linear(self, name: str, value: str, parameter: str, sizes: tuple[int, int], has_bias: bool) -> str:
        """Return a linear map; ``sizes`` are those of its input and output."""
        net, inner, outer = self._net, *sizes
        weight = f"{parameter}.weight"
        is_transposed = self._decoder.family.transposed
        shape = (inner, outer) if is_transposed else (outer, inner)
        op = f"{net.scope}{name}"
        data = self._weights.linear(weight, shape, op, is_transposed=is_transposed)
        inputs = [value, net.constant(weight, data)]
        if has_bias:
            bias = f"{parameter}.bias"
            inputs.append(net.constant(bias, self._weights.data(bias, (outer,))))
        return net.add("Gemm", name, inputs, transB=1)

    def _attention(self, value: str, layer: int) -> str:
        decoder, net, tokens = self._decoder, self._net, self._length.tokens
        groups, shared, dim = decoder.kv_heads, decoder.heads // decoder.kv_heads, decoder.head_dim
        queries, keys, values = self._projections(value, layer)
        if decoder.family.query_key_norm == "all":
            queries = self._head_norm(
                "query_norm", queries, layer, self._names.query_norm, decoder.heads * dim
            )
            keys = self._head_norm("key_norm", keys, layer, self._names.key_norm, groups * dim)
        queries = net.shaped("query_heads", queries, tokens, groups, shared, dim)
        queries = net.add("Transpose", "queries", [queries], perm=[1, 2, 0, 3])
        keys = self._heads("key", keys)
        values = self._heads("value", values)
        if decoder.family.query_key_norm == "head":
            queries = self._head_norm("query_norm", queries, layer, self._names.query_norm, dim)
            keys = self._head_norm("key_norm", keys, layer, self._names.key_norm, dim)
        queries = net.scaled("scaled_queries", queries, decoder.attention_scale)
        if decoder.rotates[layer]:
            angles = self._angles(layer)
            queries, keys = self._rotated("query", queries, angles), self._rotated("key", keys, angles)
        lying = net.add("Transpose", "keys", [keys], perm=[0, 1, 3, 2])
        all_keys = self._joined("key", lying, layer, 3)
        all_values = self._joined("value", values, layer, 2)
        scores = net.add("MatMul", "scores", [queries, all_keys])
        scores = net.capped("capped_scores", scores, decoder.attention_cap)
        masked = net.add("Add", "masked_scores", [scores, self._mask(layer)])
        shares = net.add("Softmax", "attention", [masked], axis=-1)
        attended = net.add("MatMul", "attended", [shares, all_values])
        attended = net.add("Transpose", "attended_tokens", [attended], perm=[2, 0, 1, 3])
        width = decoder.heads * dim
        flat = net.shaped("attended_heads", attended, tokens, width)
        sizes = width, decoder.hidden
        name = self._parameter(layer, self._names.output)
        return self._linear("output", flat, name, sizes, "output" in decoder.biases)

    def _projections(self, value: str, layer: int) -> list[str]:
        """Return queries, keys and values of all heads."""
        decoder, net, dim = self._decoder, self._net, self._decoder.head_dim
        widths = [decoder.heads * dim, decoder.kv_heads * dim, decoder.kv_heads * dim]
        parameters = [self._parameter(layer, name) for name in self._names.qkv]
        has_bias = "qkv" in decoder.biases
        roles = ["query", "key", "value"]
        if len(parameters) == len(roles):
            return [
                self._linear(f"{role}_projection", value, parameter, (decoder.hidden, width), has_bias)
                for role, parameter, width in zip(roles, parameters, widths, strict=True)
            ]
        sizes = decoder.hidden, sum(widths)
        projected = self._linear("projections", value, parameters[0], sizes, has_bias)
        lengths = net.array(f"widths_{widths}", widths, "int64")
        outputs = [f"{role}_projection" for role in roles]
        return net.add_many("Split", "split_projections", [projected, lengths], outputs, axis=-1)

    def _heads(self, role: str, value: str) -> str:
        """Return keys or values by head: [kv_heads, 1, tokens, head_dim]."""
        decoder, net, tokens = self._decoder, self._net, self._length.tokens
        split = net.shaped(f"{role}_split", value, tokens, decoder.kv_heads, 1, decoder.head_dim)
        return net.add("Transpose", f"{role}_heads", [split], perm=[1, 2, 0, 3])

    def _head_norm(self, name: str, value: str, layer: int, parameter: str, width: int) -> str:
        return self._norm(name, value, self._parameter(layer, parameter), width)

    def _rotated(self, role: str, value: str, angles: Sequence[str]) -> str:
        """Return queries or keys with rotated pairs: element i belongs to i + rotated / 2.

        Args:
            angles: Names of cosines and sines.
        """
        decoder, net = self._decoder, self._net
        rope = decoder.rope
        if rope is None:
            raise ValueError("a decoder without rotary embeddings rotates")
        half, rest = rope.dim // 2, decoder.head_dim - rope.dim
        widths = [half, half, *([rest] if rest else [])]
        lengths = net.array(f"widths_{widths}", widths, "int64")
        names = [f"{role}_{place}" for place in ("front", "back", "rest")[: len(widths)]]
        front, back, *others = net.add_many("Split", f"{role}_halves", [value, lengths], names, axis=-1)
        cos, sin = angles
        products = {
            f"{half_name}_{angle}": net.add("Mul", f"{role}_{half_name}_{angle}", [half_value, angle_value])
            for half_name, half_value in (("front", front), ("back", back))
            for angle, angle_value in (("cos", cos), ("sin", sin))
        }
        turned = [
            net.add("Sub", f"{role}_turned_front", [products["front_cos"], products["back_sin"]]),
            net.add("Add", f"{role}_turned_back", [products["back_cos"], products["front_sin"]]),
        ]
        return net.add("Concat", f"{role}_rotated", [*turned, *others], axis=-1)

    def _shared(self, name: str, build: Callable[[], Any]) -> Any:
        """Return what a function adds outside of layers, once for the graph."""
        if name not in self._built:
            scope, self._net.scope = self._net.scope, ""
            self._built[name] = build()
            self._net.scope = scope
        return self._built[name]

    def _past(self) -> str:
        """Return 1 for each past token that there is, else 0: [1, past].

        The first token sees all of them.
        """
        net = self._net
        row = self._sliced("first_row", MASK, (2, 3), (1, self._length.past))
        bounds = [net.array("mask_low", -1.0), net.array("mask_high", 0.0)]
        hidden = net.add("Clip", "past_hidden", [row, *bounds])
        seen = net.add("Add", "past_seen", [hidden, net.array("one", 1.0)])
        return net.shaped("past", seen, 1, self._length.past)

    def _sliced(self, name: str, value: str, axes: Sequence[int], ends: Sequence[int]) -> str:
        net = self._net
        bounds = {"starts": [0] * len(axes), "ends": ends, "axes": axes}
        edges = [net.array(f"{name}_{key}", numbers, "int64") for key, numbers in bounds.items()]
        return net.add("Slice", name, [value, *edges])

    def _angles(self, layer: int) -> Sequence[str]:
        """Return names of the cosines and sines of a layer."""
        decoder = self._decoder
        if decoder.windows[layer] is None or decoder.local_rope == decoder.rope:
            return COSINES, SINES
        return self._shared("angles", self._local_angles)  # type: ignore[no-any-return]

    def _local_angles(self) -> tuple[str, str]:
        """Return cosines and sines of layers with a window, which are no inputs.

        The number of past tokens selects a row of a table; the angles of tokens follow by the addition
        theorems.
        """
        rope, net, length = self._decoder.local_rope, self._net, self._length
        if rope is None:
            raise ValueError("a decoder without rotary embeddings rotates")
        frequencies = np.asarray(rope.frequencies(length.context))
        past = self._shared("past", self._past)
        before = net.add("Concat", "seen_before", [net.array("ones", [[1.0]]), past], axis=1)
        after = net.add("Concat", "seen_after", [past, net.array("zeros", [[0.0]])], axis=1)
        border = net.add("Sub", "first_position", [before, after])
        cos, sin = (
            net.add("Gemm", f"first_{name}", [border, net.array(f"table_{name}", table)], transB=1)
            for name, table in zip(("cos", "sin"), _turns(frequencies, length.past + 1), strict=True)
        )
        own_cos, own_sin = (
            net.array(f"own_{name}", table.T * rope.magnitude)
            for name, table in zip(("cos", "sin"), _turns(frequencies, length.tokens), strict=True)
        )

        def product(left: str, right: str) -> str:
            return net.add("Mul", f"{left}_{right}", [left, right])

        local_cos = net.add("Sub", "local_cos", [product(cos, own_cos), product(sin, own_sin)])
        local_sin = net.add("Add", "local_sin", [product(sin, own_cos), product(cos, own_sin)])
        shape = 1, 1, length.tokens, rope.dim // 2
        return net.shaped("local_cos_rows", local_cos, *shape), net.shaped(
            "local_sin_rows", local_sin, *shape
        )

    def _mask(self, layer: int) -> str:
        """Return the mask of a layer."""
        window = self._decoder.windows[layer]
        if window is None or window >= self._length.context:
            return MASK
        return self._shared(f"mask_of_{window}", lambda: self._window_mask(window))  # type: ignore[no-any-return]

    def _window_mask(self, window: int) -> str:
        """Return the mask of layers with a window.

        Token i sees no past token c that has ``window - i - 1`` past tokens after it.  New tokens have
        the place of the padding, which hides nothing.
        """
        net, length = self._net, self._length
        past = self._shared("past", self._past)
        nothing = net.array("zeros", [[0.0]])
        padded = net.add("Concat", f"padded_{window}", [past, nothing], axis=1)
        later = np.arange(length.past)[None] + window - 1 - np.arange(length.tokens)[:, None]
        later = np.pad(
            np.clip(later, 0, length.past), ((0, 0), (0, length.tokens)), constant_values=length.past
        )
        places = net.array(f"later_{window}", later, "int32")
        hidden = net.add("Gather", f"hidden_{window}", [padded, places], axis=1)
        hidden = net.shaped(f"hidden_rows_{window}", hidden, 1, 1, length.tokens, length.context)
        hidden = net.scaled(f"hidden_{window}_scaled", hidden, MASKED)
        return net.add("Add", f"mask_of_{window}", [MASK, hidden])

    def _joined(self, role: str, value: str, layer: int, axis: int) -> str:
        """Output the keys or values of the tokens; return those after the past ones."""
        decoder, net, past = self._decoder, self._net, self._length.past
        groups, dim = decoder.kv_heads, decoder.head_dim
        dims = (groups, 1, dim, past) if role == "key" else (groups, 1, past, dim)
        before = net.input(f"past_{role}_{layer}_in", net.dtype, *dims)
        net.output("Identity", f"past_{role}_{layer}_out", [value])
        return net.add("Concat", f"all_{role}s", [before, value], axis=axis)

    def _mlp(self, value: str, layer: int) -> str:
        decoder, net = self._decoder, self._net
        parameters = [self._parameter(layer, name) for name in self._names.gate_up]
        has_bias = "gate_up" in decoder.biases
        gated = len(parameters) == 2 or decoder.type == "phi3"
        sizes = decoder.hidden, decoder.inner
        if not gated:
            up = self._linear("up", value, parameters[0], sizes, has_bias)
            inner = self._activated("activation", up)
        else:
            if len(parameters) == 2:
                gate, up = (
                    self._linear(role, value, parameter, sizes, has_bias)
                    for role, parameter in zip(("gate", "up"), parameters, strict=True)
                )
            else:
                both = self._linear("gate_up", value, parameters[0], (sizes[0], 2 * sizes[1]), has_bias)
                lengths = net.array("inner_widths", [sizes[1]] * 2, "int64")
                gate, up = net.add_many("Split", "split_gate_up", [both, lengths], ["gate", "up"], axis=-1)
            inner = net.add("Mul", "gated", [self._activated("activation", gate), up])
        name = self._parameter(layer, self._names.down)
        return self._linear("down", inner, name, sizes[::-1], "down" in decoder.biases)

    def _activated(self, name: str, value: str) -> str:
        net, kind = self._net, self._decoder.activation
        if kind == "relu":
            return net.add("Relu", name, [value])
        if kind == "silu":
            return net.add("Swish", name, [value])
        approximate = "tanh" if kind == "gelu_tanh" else "none"
        return net.add("Gelu", name, [value], approximate=approximate)

    def _head(self, stream: str) -> None:
        decoder, net, names, tokens = self._decoder, self._net, self._names, self._length.tokens
        normal = self._norm("norm", stream, names.norm, decoder.hidden)
        name = f"{names.embedding if decoder.tied else names.head}.weight"
        pieces: list[str] = []
        for number, start in enumerate(range(0, decoder.vocab, HEAD_ROWS)):
            shape = min(HEAD_ROWS, decoder.vocab - start), decoder.hidden
            place = f"_{number}" if decoder.vocab > HEAD_ROWS else ""
            data = self._weights.linear(name, shape, HEAD, start=start)
            weight = net.constant(f"{names.head}{place}.weight", data)
            pieces.append(net.add("Gemm", f"{HEAD}{place}", [normal, weight], transB=1))
        logits = pieces[0] if len(pieces) == 1 else net.add("Concat", "head", pieces, axis=1)
        logits = net.scaled("scaled_logits", logits, decoder.logits_factor)
        logits = net.capped("capped_logits", logits, decoder.logits_cap)
        sizes = net.array("logits_shape", [1, tokens, decoder.vocab], "int64")
        net.output("Reshape", LOGITS, [logits, sizes])


def _turns(frequencies: Any, count: int) -> tuple[Any, Any]:
    """Return cosines and sines of positions: [pairs, positions]."""
    angles = frequencies[:, None] * np.arange(count)[None]
    return np.cos(angles), np.sin(angles)


def _one_more(data: TensorData) -> TensorData:
    return data.transform(lambda array: array + array.dtype.type(1), by_rows=True)


def part_model(
    decoder: Decoder,
    weights: Weights,
    part: Part,
    length: Length,
    notify: Notify | None = None,
) -> Model:
    """Return the float model of a part, of one graph.

    Args:
        weights: The parameters; models of the same part share their data.

    Raises:
        UnsupportedOp: If a layer sees fewer tokens than the graph processes at a time.
    """
    _check_windows(decoder, length.tokens)
    graph = _Decoder(decoder, weights, part, length).graph()
    source = Source(decoder.type, _TOOL, graph=part.graph_name(length))
    diagnostics = Diagnostics()
    with limited():
        imported = import_model(
            SourceModel(source, graph, CanonicalHandlers(), Options()), _TOOL, diagnostics
        )
        return finish(imported, diagnostics, notify=notify)


def _check_windows(decoder: Decoder, tokens: int) -> None:
    narrowest = min((window for window in decoder.windows if window is not None), default=math.inf)
    if tokens > narrowest:
        raise UnsupportedOp(
            f"layers see at most {narrowest} tokens, but a run has {tokens} tokens",
            fix=f"use {spell('prompt_tokens', narrowest)} or less",
        )


def parts_of(decoder: Decoder, borders: Iterable[int]) -> list[Part]:
    """Return the parts of a decoder.

    Args:
        borders: First layers of all parts but the first, in ascending order; the number of layers makes
            the head a part of its own.
    """
    edges = [0, *borders, decoder.layers]
    count = len(edges) - 1
    return [Part(number, count, range(*edges[number - 1 : number + 1])) for number in range(1, count + 1)]
