"""Rules of the vendor's runtime for decoders, checked before they are compiled.

The runtime reports most faults late and in words of its own, and some not at all: keys and values that come
back with another encoding make wrong tokens without a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdlc.errors import ConstraintError, XdlcError, nearest_names, raise_all
from xdlc.ir import Encoding, Graph, Model, ScaleOffset, Tensor
from xdlc.ir import dtype as dt
from xdlc.llm.layout import (
    COSINES,
    IDS,
    LOGITS,
    MASK,
    POSITIONS,
    SINES,
    Length,
    cache_name,
    graphs_of,
    next_name,
    ports,
    shapes_of,
)

_FIXED = (IDS, MASK, COSINES, SINES, POSITIONS, LOGITS)
_TIE = "quantize all graphs together, with one encoding for both"
_PLACE = re.compile(r"_([1-9]\d{0,5})_of_([1-9]\d{0,5})$")
_ZERO = 128
"""Value that the runtime fills 8-bit caches with."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A graph of a part.

    Attributes:
        part: Number of the part, from 1, by the graph's name if that states it.
        count: Number of parts, likewise.
        length: Its sizes.
    """

    part: int
    count: int
    graph: Graph
    length: Length

    def error(self, problem: str, fix: str, tensor: str = "") -> ConstraintError:
        inner = f", tensor {tensor!r}" if tensor else ""
        return ConstraintError(problem, where=f"graph {self.graph.name!r}{inner}", fix=fix)


def check_genie(parts: Sequence[Model]) -> None:
    """Check that the vendor's runtime loads a decoder and computes right tokens.

    Args:
        parts: The parts, in the order of the layers; or some of them, whose graphs are named
            ``.._2_of_3``.

    Raises:
        ConstraintError: If it would not; a ProblemList of all reasons.
        ModelError: If a graph is no graph of a decoder.
    """
    places: list[_Place] = []
    problems: list[XdlcError] = []
    for number, part in enumerate(parts):
        for length, graph in graphs_of(part).items():
            stated = _PLACE.search(graph.name)
            place, count = map(int, stated.groups()) if stated else (number + 1, len(parts))
            places.append(_Place(place, count, graph, length))
    joints = _joints(parts)
    for spot in places:
        problems += _names(spot, joints if len(parts) == spot.count else None)
        problems += _types(spot)
        problems += _shapes(spot)
        problems += _caches(spot)
    problems += _equal_encodings(places)
    problems += _lengths(parts)
    raise_all(problems)


def _lengths(parts: Sequence[Model]) -> Iterator[XdlcError]:
    """Yield faults of the sizes of graphs.

    Each part has all sizes; without attention, a graph serves all contexts.
    """
    lengths = [set(graphs_of(part)) for part in parts]
    tokens = {length.tokens for length in lengths[0]}
    contexts = {length.context for part in lengths for length in part if length.context}
    for number, part in enumerate(lengths, 1):
        spans = contexts if any(length.context for length in part) else {0}
        if part != {Length(count, span) for count in tokens for span in spans}:
            sizes = ", ".join(f"{length.tokens} of {length.context}" for length in sorted(part))
            all_tokens, all_contexts = (", ".join(map(str, sorted(side))) for side in (tokens, contexts))
            yield ConstraintError(
                f"part {number} needs a graph for each of {all_tokens} tokens in contexts of "
                f"{all_contexts}, but has {sizes}",
                fix="give each part a graph for each of these sizes",
            )
    for span in contexts:
        if max(tokens) >= span:
            problem = f"the attention mask has {span} tokens, but needs more than {max(tokens)}"
            yield ConstraintError(problem, fix="build the graphs for a longer context")


def _joints(parts: Sequence[Model]) -> list[set[str]]:
    """Return for each part the names of outputs that only a part after it can read."""
    return [
        {
            tensor.name
            for graph in part.graphs.values()
            for tensor in graph.outputs
            if tensor.name != LOGITS and not cache_name(tensor.name)
        }
        for part in parts
    ]


def _names(place: _Place, joints: Sequence[set[str]] | None) -> Iterator[XdlcError]:
    """Yield faults of names; ``joints``: those of all parts, None without some."""
    inputs = {tensor.name for tensor in place.graph.inputs}
    outputs = {tensor.name for tensor in place.graph.outputs}
    needed = {IDS: inputs} if place.part == 1 else {}
    needed |= {LOGITS: outputs} if place.part == place.count else {}
    if any(cache_name(name) for name in inputs):
        needed[MASK] = inputs
    if (COSINES in inputs) != (SINES in inputs):
        needed |= {COSINES: inputs, SINES: inputs}
    for name, side in needed.items():
        if name not in side:
            kind = "output" if side is outputs else "input"
            hint = nearest_names(name, side)
            fix = (
                f"rename the {kind} {hint.removeprefix('nearest: ')}"
                if hint
                else (f"give the {kind} this name")
            )
            yield place.error(f"the graph has no {kind} {name!r}, which the vendor's runtime needs", fix)
    before = set[str]().union(*(joints or [])[: place.part - 1])
    for name in sorted(inputs if joints is not None or place.part == 1 else ()):
        if name not in _FIXED and name not in before and not cache_name(name):
            hint = nearest_names(name, (*_FIXED, *before, "past_key_0_in", "past_value_0_in"))
            yield place.error(
                "neither the vendor's runtime nor an earlier part computes this input",
                hint or f"use only {', '.join(_FIXED[:-1])}, past_key_N_in, past_value_N_in",
                name,
            )
    caches = {name for name in inputs | outputs if cache_name(name)}
    for name in sorted(caches):
        pair = next_name(name) if name.endswith("_in") else f"{name.removesuffix('_out')}_in"
        if pair not in caches:
            yield place.error(f"the graph has no counterpart {pair!r}", f"add the tensor {pair!r}", name)
    if not caches and place.count == 1:
        fix = "name the caches past_key_0_in, past_key_0_out, past_value_0_in, past_value_0_out and so on"
        yield place.error("the graph has no keys and values of past tokens", fix)


def _types(place: _Place) -> Iterator[XdlcError]:
    for name, tensor in ports(place.graph).items():
        if name in (IDS, POSITIONS):
            if tensor.dtype is not dt.INT32:
                fix = "convert the model with an int32 input"
                yield place.error(f"is {tensor.dtype}, but the runtime writes int32", fix, name)
        elif tensor.dtype.bits > 32 or not (tensor.dtype.is_float or tensor.dtype.is_fixed):
            fix = "quantize the model, or convert the model with floats of 16 or 32 bits"
            yield place.error(
                f"is {tensor.dtype}, but the runtime supports floats and fixed point", fix, name
            )


def _shapes(place: _Place) -> Iterator[XdlcError]:
    named = ports(place.graph)
    context = named[MASK].shape[-1] if MASK in named else 0
    tokens = place.length.tokens
    if MASK in named and place.length.past == tokens:
        yield place.error(
            f"the graph has as many past tokens as new tokens, {tokens}: the runtime mistakes caches for "
            "new values, so every later token would be wrong without a message",
            "choose a context that is not twice the tokens of the prompt graph",
        )
    for name, shape in shapes_of(named, tokens, context).items():
        if not _fits(named[name].shape, shape):
            form = ", ".join("any" if size is None else str(size) for size in shape)
            fix = f"give the tensor the shape [{form}]"
            yield place.error(f"has the wrong shape {list(named[name].shape)}", fix, name)


def _fits(shape: Sequence[int], expected: Sequence[int | None]) -> bool:
    return len(shape) == len(expected) and all(
        size in (None, own) for own, size in zip(shape, expected, strict=True)
    )


def _caches(place: _Place) -> Iterator[XdlcError]:
    """Yield faults of keys and values, which return as they are stored."""
    named = ports(place.graph)
    widths: dict[int, str] = {}
    for name, tensor in named.items():
        cache = cache_name(name)
        if cache is None:
            continue
        widths.setdefault(tensor.dtype.bits, name)
        if tensor.dtype.bits == 8 and tensor.dtype.is_fixed and _zero(tensor) != _ZERO:
            yield place.error(
                f"the zero point is {_zero(tensor)}, but the runtime fills 8-bit caches with {_ZERO}",
                "quantize the cache with symmetric encodings",
                name,
            )
        pair = named.get(next_name(name)) if cache.is_input else None
        if pair is not None and _meaning(pair) != _meaning(tensor):
            yield place.error(
                f"is {_words(tensor)}, but {pair.name!r} is {_words(pair)}: the runtime returns stored "
                "values, so every later token would be wrong without a message",
                _TIE,
                name,
            )
    if len(widths) > 1:
        listed = ", ".join(f"{name!r} {bits} bits" for bits, name in sorted(widths.items()))
        yield place.error(f"the caches have different widths: {listed}", "give all caches the same width")


def _equal_encodings(places: Sequence[_Place]) -> Iterator[XdlcError]:
    """Yield inputs and outputs of one name that graphs store in different ways."""
    first: dict[str, tuple[_Place, Tensor]] = {}
    for place in places:
        for name, tensor in ports(place.graph).items():
            before, stored = first.setdefault(name, (place, tensor))
            if _meaning(stored) != _meaning(tensor):
                yield place.error(
                    f"is {_words(tensor)}, but {_words(stored)} in graph {before.graph.name!r}",
                    _TIE,
                    name,
                )


def _meaning(tensor: Tensor) -> tuple[dt.DType, Encoding | None]:
    return tensor.dtype, tensor.encoding


def _zero(tensor: Tensor) -> int | None:
    """Return the stored value of 0.0; of signed types, as unsigned ones have it."""
    if not isinstance(tensor.encoding, ScaleOffset):
        return None
    signed = 1 << (tensor.dtype.bits - 1) if tensor.dtype.kind == "sfixed" else 0
    return signed - tensor.encoding.offset


def _words(tensor: Tensor) -> str:
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset):
        return f"{tensor.dtype} of scale {encoding.scale:.6g} and offset {encoding.offset}"
    return str(tensor.dtype)
