"""Diagnostics of a conversion: problems, notices, trace, factors of weights."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from xdlc.converter.values import Value, channel_last
from xdlc.errors import XdlcError
from xdlc.ir import NATIVE_PACKAGE, Graph, MappedData, Origin, Repeated, Tensor, TensorData, Transform
from xdlc.ir.data import Array, Reshaped
from xdlc.opdefs.source_match import Udo, UncoveredNode
from xdlc.opdefs.traits import traits
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.converter.session.context import Frame
    from xdlc.converter.session.node import Node

UNUSED = "no output of the model needs it"
REFUSED = "it could not be imported"
KNOWN = "its result is known while converting"
INNER = "its result in this branch or loop is known, unread, or its input under another name"
LISTED = "its result is a sequence or an optional, which xdlc resolves while converting"
VIEW = "its result is its input under another name, shape or axis order"
DROPPED = {
    "fold_quantize_dequantize": "it became the encoding of a tensor",
    "merge_casts": "it changes the type, and another op changes it back",
    "merge_rearrangements": "it undoes another op",
    "merge_views": "it moves nothing, or undoes another op",
    "narrow_bounded_integers": "32 bits hold all of its values",
    "prune": "nothing reads its result",
}
"""Why the ops of nodes go in passes, by the name of the pass."""
LAYOUTS = {3: "NCF", 4: "NCHW", 5: "NCDHW"}
"""Names of channel-first layouts by rank."""
COPY = "_copy"
"""Suffix that makes the name of an output the name of an op that copies it."""


@record
class SourceNode:
    """A node of the source model.

    Attributes:
        name: Its name, or one made from its first output.
        type: ONNX operator, with its domain in front where that is not the default one.
        reason: Why it has no op; None if it has some.
        module: Path of its module, if the file states it apart from the name.
    """

    name: str
    type: str
    reason: str | None = None
    module: str | None = None


@record
class Diagnostics:
    """Problems, notices and the trace of the source nodes of one conversion.

    Attributes:
        problems: Everything that keeps the model from being converted.
        nodes: The nodes of the source, in its order.
        layouts: Layout of inputs and outputs, where known.
        states: Output with the next value, and value before the first run, of inputs that hold variables.
        makers: Name of the node that makes it, by the name of each output of the model.
        values: Float tensors that hold the values of names of the main graph, the best first.
        statics: Those values that are static.
        notices: What is good to know and no problem.
        used: UDO definitions that matched a node, once for each.
        uncovered: Nodes whose operators have no mapping; some may have been imported in another way since.
        requested: Operators whose nodes count as uncovered even if they have a mapping.
    """

    problems: list[XdlcError] = field(default_factory=list)
    nodes: list[SourceNode] = field(default_factory=list)
    layouts: dict[str, str] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)
    values: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)
    statics: dict[str, TensorData] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    used: list[Udo] = field(default_factory=list)
    uncovered: list[UncoveredNode] = field(default_factory=list)
    requested: frozenset[str] = frozenset()

    def reset(self) -> None:
        """Reset everything but the request, for another import."""
        self.__init__(requested=self.requested)  # type: ignore[misc]

    def note_node(
        self,
        frame: Frame,
        ends: Collection[str],
        node: Node,
        is_needed: bool,
        inner: Iterable[Node] = (),
    ) -> None:
        """Record a node of the source after the import.

        Args:
            frame: The frame of the main graph.
            ends: Names of the outputs of the model.
            is_needed: Whether an output depends on it.
            inner: Nodes of the graphs inside it.
        """
        outputs = [output for output in node.outputs if output]
        self.makers.update((output, node.own_name) for output in outputs if output in ends)
        reason = _reason(frame, outputs) if is_needed else UNUSED
        self.nodes.append(SourceNode(node.own_name, node.full_type, reason, node.module))
        self.nodes += (SourceNode(each.own_name, each.full_type, INNER, each.module) for each in inner)

    def note_layout(self, name: str, value: Value) -> None:
        """Record the layout of an input or output whose axis 1 is the channels."""
        if value.rank in LAYOUTS and value.order == channel_last(value.rank):
            self.layouts[name] = LAYOUTS[value.rank]

    def note_values(self, values: Mapping[str, object]) -> None:
        """Record the float tensors of names of the main graph, before the passes."""
        for name, value in values.items():
            if isinstance(value, Value) and value.dtype.is_float:
                self.values[name] = tuple(_holders(value))
                if value.tensor.data is not None:
                    self.statics[name] = value.tensor.data

    def other_names(self, graph: Graph) -> dict[str, list[str]]:
        """Return further names that the source has for tensors of the main graph.

        Those of values that no tensor holds any more, such as the inside of a fused operation, are under
        the empty name.

        Args:
            graph: The main graph after the passes.
        """
        names: dict[str, list[str]] = {}
        for name, holders in self.values.items():
            if name in graph.tensors:
                continue
            holder = next((tensor.name for tensor in holders if graph.tensors.get(tensor.name) is tensor), "")
            own = [holder] if holder and holder in self.values else []
            names.setdefault(holder, own).append(name)
        return names

    def finalize(self, graphs: Iterable[Graph], removed: Mapping[str, str]) -> None:
        """Record a reason for each node without ops; keep only nodes in origins.

        Ops that bring an output into the source's form count for the node that makes it; those after an
        input count for none.

        Args:
            graphs: The graphs after the passes.
            removed: The pass that removed the last op of a node, by the node's name.
        """
        node_names = {node.name for node in self.nodes}
        carried: set[str] = set()
        for graph in graphs:
            for op in graph.ops:
                if not node_names.issuperset(op.origin.nodes):
                    names = (self.makers.get(name.removesuffix(COPY), name) for name in op.origin.nodes)
                    kept = tuple(dict.fromkeys(name for name in names if name in node_names))
                    op.origin = Origin(kept, op.origin.reason)
                carried.update(op.origin.nodes)
        for node in self.nodes:
            if node.name in carried:
                node.reason = None
            elif node.reason is None:
                by = removed.get(node.name)
                node.reason = DROPPED.get(by, f"its op was dropped by the pass {by}") if by else VIEW


def _reason(frame: Frame, outputs: Sequence[str]) -> str | None:
    """Return why a node has no op, if that is known already."""
    if frame.unresolved.issuperset(outputs):
        return REFUSED
    values = [frame.values.get(name) for name in outputs]
    if all(value is not None and value.is_static for value in values):
        return KNOWN
    return None if any(isinstance(value, Value) for value in values) else LISTED


def _holders(value: Value) -> Iterator[Tensor]:
    """Iterate over tensors with the same value, maybe in another order or shape."""
    yield from value.forms.values()
    tensor: Tensor | None = value.tensor
    while tensor is not None:
        yield tensor
        op = tensor.producer
        moves = op is not None and op.package == NATIVE_PACKAGE and traits(op).view
        tensor = op.inputs[0] if moves and op is not None else None


def weight_factors(graph: Graph, sources: Mapping[str, TensorData]) -> dict[str, list[str]]:
    """Return the factors of weights and biases that differ from the source.

    No weight is read: each step between the source and the graph states its own factors.

    Args:
        graph: The graph after the passes.
        sources: Static values of the source by name.

    Returns:
        By name the factors as little-endian float32 in base64; the text is empty if the values were changed
        in another way.  ``reordered`` follows for a matrix whose inputs have another order.
    """
    import numpy

    records: dict[str, list[str]] = {}
    for name, source in sources.items():
        tensor = graph.tensors.get(name)
        readers = graph.consumers(tensor) if tensor is not None else ()
        if tensor is None or tensor.data is None or not readers:
            continue
        rule, place = traits(readers[0]), readers[0].inputs.index(tensor)
        if place not in (rule.weight, rule.bias, rule.scale):
            continue
        axis = rule.channel_axis if place == rule.weight else None
        channels = 1 if axis is None else tensor.shape[axis]
        factors, rank = _lineage(tensor.data, source, channels)
        notes = ["reordered"] if axis is not None and tensor.rank == 2 < rank else []
        if factors is None:
            records[name] = ["", *notes]
        elif notes or not isinstance(factors, float):
            by_channel = numpy.full(channels, factors, "<f4")
            if notes or (by_channel != 1.0).any():
                records[name] = [base64.b64encode(by_channel.tobytes()).decode(), *notes]
    return records


def _lineage(data: TensorData, source: TensorData, channels: int) -> tuple[Array | float | None, int]:
    """Return the factors from a source to data, or None, and the highest rank.

    The factors are 1.0, or an array of one or of ``channels``.
    """
    import numpy

    factors: Array | float = 1.0
    rank = 0
    while isinstance(source, Repeated):
        source = source.base
    while data is not source and not _is_same_place(data, source):
        rank = max(rank, len(data.shape))
        if isinstance(data, Reshaped | Repeated):
            data = data.base
        elif isinstance(data, Transform) and data.factors is not None:
            if not isinstance(data.factors, float) or data.factors != 1.0:
                stated = data.factors
                step = stated.numpy() if isinstance(stated, TensorData) else numpy.array(stated)
                if step.size not in (1, channels) or not numpy.isfinite(step).all():
                    return None, rank
                factors = factors * step.reshape(-1).astype(numpy.float64)
            data = data.bases[0]
        else:
            return None, rank
    return factors, rank


def _is_same_place(data: TensorData, source: TensorData) -> bool:
    if not (isinstance(data, MappedData) and isinstance(source, MappedData)):
        return False
    return data.location == source.location and data.nbytes == source.nbytes
