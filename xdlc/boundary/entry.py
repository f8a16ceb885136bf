"""An input of a graph, around which ops for its callers are put step by step, the innermost first."""

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
        graph: The graph.
        tensor: The input itself, in the form that callers have; it stays the same object, of the same name.
        layout: Meaning of the axes of ``tensor``, like ``NHWC``; None if that is not known.
        order: The channel of ``tensor`` that each channel of the network is; empty: the same.
        notes: What the graph does with what callers feed, innermost first, for the record.
    """

    graph: Graph
    tensor: Tensor
    layout: str | None = None
    order: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)
    _anchor: Op | None = None
    _inner: Tensor | None = None

    def open(self) -> Tensor:
        """Give the readers a new tensor of the form that the input has, and return it.

        Raises:
            ConstraintError: If the input is an output too, or no op reads it.
        """
        graph, port = self.graph, self.tensor
        check_apart(graph, port)
        readers = graph.consumers(port)
        if not readers:
            raise ConstraintError(
                f"no op reads input {port.name!r}",
                where=f"graph {graph.name!r}",
                fix="omit its options, or remove it from the model",
            )
        self._anchor = next(iter(graph.ops))
        inner = Tensor(
            graph.unique_name(f"{port.name}_inner"),
            port.shape,
            port.dtype,
            port.encoding,
            dynamic_axes=port.dynamic_axes,
        )
        self._inner = graph.add_tensor(inner)
        for op in readers:
            graph.set_inputs(op, [inner if tensor is port else tensor for tensor in op.inputs])
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
        """Add an op before all that were there at ``open``, after those of this step; return its output.

        Args:
            type: Type of a native op.
            inputs: Its inputs.
            shape: Shape of its output.
            params: Its parameters.
            reason: Why it is there, for its origin.
            dtype: Type of its output; default: that of its first input.
        """
        made = Tensor(
            self.graph.unique_name(f"{self.tensor.name}_{type.lower()}"),
            tuple(shape),
            dtype or inputs[0].dtype,
        )
        self._add(type, inputs, made, params, reason)
        return made

    def close(
        self, type: str, inputs: Sequence[Tensor], params: Mapping[str, Param] | None = None, *, reason: str
    ) -> None:
        """Add the op that computes the inner tensor, which ends the step."""
        inner, self._inner = self._inner, None
        assert inner is not None, "open comes first"
        self._add(type, inputs, inner, params, reason)

    def _add(
        self,
        type: str,
        inputs: Sequence[Tensor],
        output: Tensor,
        params: Mapping[str, Param] | None,
        reason: str,
    ) -> None:
        assert self._anchor is not None, "open comes first"
        name = f"{type.lower()}_{self.tensor.name}"
        made = make_op(self.graph, type, inputs, [output], params, name=name, origin=Origin((), reason))
        self.graph.insert_before(self._anchor, made)


def check_apart(graph: Graph, port: Tensor) -> None:
    """Refuse a tensor that callers feed and fetch, between which no op fits.

    Raises:
        ConstraintError: If it is input and output at once.
    """
    if port in graph.inputs and port in graph.outputs:
        raise ConstraintError(
            f"{port.name!r} is input and output at once, so that no conversion fits between",
            where=f"graph {graph.name!r}",
            fix="leave it as it is",
        )
