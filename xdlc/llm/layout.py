"""Inputs and outputs of decoders by name, as the vendor's runtime reads them.

``xdlc.llm.network`` describes them, and writes graphs with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from xdlc.errors import ModelError
from xdlc.ir import Graph, Model, Tensor

IDS, MASK, LOGITS = "input_ids", "attention_mask", "logits"
COSINES, SINES, POSITIONS = "position_ids_cos", "position_ids_sin", "position_ids"
_CACHE = re.compile(r"past_(?P<role>key|value)_(?P<layer>\d{1,6})_(?P<side>in|out)")


@dataclass(frozen=True, slots=True)
class CacheName:
    """The name of an input or output with keys or values of a layer.

    Attributes:
        is_key: Whether it has keys, whose tokens are along axis 3; those of values are along axis 2.
        layer: Number of the layer.
        is_input: Whether it is the input.
    """

    is_key: bool
    layer: int
    is_input: bool

    @property
    def axis(self) -> int:
        return 3 if self.is_key else 2


def cache_name(name: str) -> CacheName | None:
    """Return the parts of a name like ``past_key_0_in``; None if it is another.

    Example:
        >>> cache_name("past_value_12_out"), cache_name("logits")
        (CacheName(is_key=False, layer=12, is_input=False), None)
    """
    match = _CACHE.fullmatch(name)
    return match and CacheName(match["role"] == "key", int(match["layer"]), match["side"] == "in")


def next_name(name: str) -> str:
    """Return the output with the next values of an input like ``past_key_0_in``."""
    return f"{name.removesuffix('_in')}_out"


def shapes_of(names: Iterable[str], tokens: int, context: int) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes of inputs and outputs; None: the model chooses.

    Args:
        names: Their names; others are omitted.
        tokens: Tokens that the graph processes at a time.
        context: Tokens that attention spans; 0 where no mask states them, and shapes of caches are omitted.
    """
    shapes: dict[str, tuple[int | None, ...]] = {
        IDS: (1, tokens),
        POSITIONS: (1, tokens),
        MASK: (1, 1, tokens, context),
        COSINES: (1, 1, tokens, None),
        SINES: (1, 1, tokens, None),
        LOGITS: (1, tokens, None),
    }
    for name in names:
        if context and (cache := cache_name(name)):
            length = context - tokens if cache.is_input else tokens
            shapes[name] = (None, 1, None, length) if cache.is_key else (None, 1, length, None)
    return {name: shapes[name] for name in names if name in shapes}


def ports(graph: Graph) -> Mapping[str, Tensor]:
    """Return the inputs and outputs of a graph by name."""
    return {tensor.name: tensor for tensor in (*graph.inputs, *graph.outputs)}


@dataclass(frozen=True, slots=True, order=True)
class Length:
    """Sizes of a graph.

    Attributes:
        tokens: Tokens that it processes at a time.
        context: Most tokens that attention spans: those and the past; 0 without attention.
    """

    tokens: int
    context: int

    @property
    def past(self) -> int:
        """Past tokens whose keys and values it gets."""
        return self.context - self.tokens


def length_of(graph: Graph) -> Length:
    """Return the sizes of a graph.

    Raises:
        ModelError: If it has neither a mask, nor token ids, nor logits, of the right rank.
    """
    named = ports(graph)
    for name, rank, axis in ((MASK, 4, 2), (IDS, 2, 1), (LOGITS, 3, 1)):
        if name in named and named[name].rank == rank:
            shape = named[name].shape
            return Length(shape[axis], shape[-1] if name == MASK else 0)
    raise ModelError(
        f"the graph is not a decoder, because {MASK}, {IDS} or {LOGITS} is missing",
        where=f"graph {graph.name!r}",
        fix="name inputs and outputs as docs/guides/llm.md lists them",
    )


def graphs_of(model: Model) -> dict[Length, Graph]:
    """Return the graphs of a part by size: longest context first, then most tokens.

    Raises:
        ModelError: If one is no graph of a decoder, or two have the same sizes.
    """
    graphs: dict[Length, Graph] = {}
    for graph in model.graphs.values():
        length = length_of(graph)
        if graphs.setdefault(length, graph) is not graph:
            problem = f"the graph has as many tokens and as much context as {graphs[length].name!r}"
            raise ModelError(problem, where=f"graph {graph.name!r}", fix="remove one of the two graphs")
    return dict(sorted(graphs.items(), key=lambda item: (-item[0].context, -item[0].tokens)))


def graph_of(graphs: Mapping[Length, Graph], length: Length) -> Graph:
    """Return the graph of a length; without attention, it is of all contexts."""
    return graphs[length] if length in graphs else graphs[replace(length, context=0)]


def token_graphs(model: Model) -> dict[int, Graph]:
    """Return the graphs of the fewest tokens, by context, the longest first."""
    return {length.context: graph for length, graph in graphs_of(model).items()}
