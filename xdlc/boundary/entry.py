"""An input of a graph with ops for its callers, added from the inside out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Op, Origin, Param, Tensor, make_op
from xdlc.ir.dtype import DType


@dataclass(slots=True, eq=False)
class Entry:
    """An input of a graph while its boundary is built.

    A step calls ``open``, which leaves the readers to an inner tensor, sets shape, type and ``layout`` of
    ``tensor`` to those of its callers, and computes the inner tensor from it with ``emit`` and ``close``.

    Attributes:
        tensor: The input itself, in the form that callers have; it stays the same object, of the same name.
        layout: Meaning of the axes of ``tensor``, like ``NHWC``; None if that is not known.
        order: The channel of ``tensor`` that each channel of the network is; empty: the same.
        notes: What the graph does with what callers feed, innermost first, for the record.
        values: The inner tensor of the numbers that the network has; None if callers feed these.
    """

    graph: Graph
    tensor: Tensor
    layout: str | None = None
    order: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)
    values: Tensor | None = None
    _anchor: Op | None = None
    _inner: Tensor | None = None

    def open(self) -> Tensor:
        """Insert a new tensor between the input and its readers, and return it.

        Raises:
            ConstraintError: If the input is an output too.
        """
        self._anchor = next(iter(self.graph.ops), None)
        self._inner = split(self.graph, self.tensor)
        return self._inner

    def open_numbers(self) -> Tensor:
        """Open the input for a step that changes its values; remove its encoding."""
        inner = self.open()
        self.values = inner if self.values is None else self.values
        self.tensor.encoding = None
        return inner

    def emit(
        self,
        type: str,
        inputs: Sequence[Tensor],
        shape: Sequence[int],
        params: Mapping[str, Param] | None = None,
        *,
        reason: str,
        dtype: DType | None = None,
    ) -> Tensor:
        """Insert an op before the ops that were present at ``open``; return its output.

        Args:
            reason: Why it is there, for its origin.
            dtype: Type of its output; default: that of its first input.
        """
        name = self.graph.unique_name(f"{self.tensor.name}_{type.lower()}")
        made = Tensor(name, tuple(shape), dtype or inputs[0].dtype)
        self._add(type, inputs, made, params, reason)
        return made

    def close(
        self, type: str, inputs: Sequence[Tensor], params: Mapping[str, Param] | None = None, *, reason: str
    ) -> None:
        """Add the last op of the step, which computes the inner tensor."""
        assert self._inner is not None, "open comes first"
        self._add(type, inputs, self._inner, params, reason)

    def _add(
        self,
        type: str,
        inputs: Sequence[Tensor],
        output: Tensor,
        params: Mapping[str, Param] | None,
        reason: str,
    ) -> None:
        name = f"{type.lower()}_{self.tensor.name}"
        made = make_op(self.graph, type, inputs, [output], params, name=name, origin=Origin((), reason))
        graph, anchor = self.graph, self._anchor
        graph.append(made) if anchor is None else graph.insert_before(anchor, made)


def split(graph: Graph, port: Tensor) -> Tensor:
    """Replace an input or output inside the graph by a new tensor; return it.

    Raises:
        ConstraintError: If the tensor is input and output at once, or an output that no op computes.
    """
    is_input = port in graph.inputs
    if (port in graph.outputs) == is_input or (port.producer is None) != is_input:
        raise ConstraintError(
            f"{port.name!r} is both input and output, so xdlc cannot change its type or layout",
            where=f"graph {graph.name!r}",
            fix="omit the options that change this tensor",
        )
    name = graph.unique_name(f"{port.name}_inner")
    inner = Tensor(name, port.shape, port.dtype, port.encoding, dynamic_axes=port.dynamic_axes)
    readers = graph.consumers(port)
    graph.add_tensor(inner)
    if port.producer is not None:
        graph.set_output(port.producer, port.producer.outputs.index(port), inner)
    graph.replace(port, inner, readers)
    return inner


def connect(
    graph: Graph,
    port: Tensor,
    inner: Tensor,
    type: str,
    reason: str,
    params: Mapping[str, Param] | None = None,
) -> Op:
    """Add the op between an input or output and its inner tensor, and return it."""
    is_input = port in graph.inputs
    ends = ([port], [inner]) if is_input else ([inner], [port])
    made = make_op(graph, type, *ends, params, name=f"{type.lower()}_{port.name}", origin=Origin((), reason))
    anchor = next(iter(graph.ops), None) if is_input else None
    graph.append(made) if anchor is None else graph.insert_before(anchor, made)
    return made
