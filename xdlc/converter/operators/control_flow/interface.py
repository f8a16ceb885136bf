"""What importers of operators that run graphs, or are taken apart, ask of the import of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node
from xdlc.converter.session.scope import Scope
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import XdlcError
from xdlc.ir import Graph

if TYPE_CHECKING:
    from xdlc.converter.operators.control_flow.sub_graph import SubGraph
    from xdlc.converter.operators.control_flow.while_loop import Assumed


class Importer(Protocol):
    """What is asked of the import of a model.

    Attributes:
        unroll_loops: Most iterations of a loop that are put one after the other.
        assumptions: What is assumed of the states of a loop, by its path.
        opening: Whether new graphs take the extents of what they capture as open.
    """

    unroll_loops: int
    assumptions: dict[tuple[str, ...], Assumed]
    opening: bool

    @property
    def builder(self) -> Builder:
        """Adds to the graph under construction."""

    @property
    def values(self) -> Scope:
        """What names stand for."""

    @property
    def graphs(self) -> dict[str, Graph]:
        """The graphs of the model so far, the main one first."""

    @property
    def problems(self) -> list[XdlcError]:
        """Everything that keeps the model from being converted, so far."""

    def sub_graph(self, name: str) -> AbstractContextManager[SubGraph]:
        """Import into a new graph while the context is open."""

    def inline(
        self,
        graph: Any,
        given: Mapping[str, AnyValue],
        shared: Scope | None = None,
        *,
        is_source: bool = True,
    ) -> list[AnyValue]:
        """Import the nodes of a ``GraphProto``; return its outputs.  Raises Unsettled."""

    def constants(self, graph: Any) -> Scope:
        """Return a scope with the initializers and constants of a ``GraphProto``."""

    def apply(self, type: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        """Import a node of one output that the source does not have.  Raises Unsettled."""

    def apply_many(self, type: str, inputs: Sequence[Value], count: int, **attributes: Any) -> list[Value]:
        """Import a node of ``count`` outputs that the source does not have.  Raises Unsettled."""

    def list_elements(self, count: int) -> bool:
        """Return whether sequences may list that many elements more, and count them if so."""

    def size_of(self, graph: Any) -> int:
        """Return the number of nodes that a ``GraphProto`` comes to, its functions expanded."""

    def spend(self, nodes: int) -> bool:
        """Return whether that many nodes may be added by unrolling, and count them if so."""

    def attempt(self) -> Callable[[], list[XdlcError]]:
        """Return a function that forgets the graphs and problems since now, and returns the problems."""

    def path(self, node: Node) -> tuple[str, ...]:
        """Return where a node stands among the graphs of the source."""
