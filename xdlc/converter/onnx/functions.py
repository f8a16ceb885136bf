"""Functions of an ONNX model, expanded in place of the nodes that call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xdlc.converter.operators.protobuf import all_nodes, domain_of, key_of, node_count, plain_domain
from xdlc.converter.operators.registry import CanonicalHandlers, Handler
from xdlc.converter.session.context import DEPTH
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.errors import ModelError

if TYPE_CHECKING:
    from xdlc.converter.onnx.reader import FileReader
    from xdlc.converter.operators.dispatch import Operators

_NODES = 1 << 14
_FOLD = 64
_INLINE = "inline the functions with onnx.inliner, or simplify the model"
Key = tuple[str, str, str]


class ModelFunctions(CanonicalHandlers):
    """Functions of a model, used as handlers of the nodes that call them.

    A function that calls another twice, which calls a third twice, and so on, takes few bytes and expands
    to any number of nodes.  A model may expand to some thousands of nodes, and to some dozen times as many
    as it has.

    Args:
        model: ``ModelProto``.
        reader: Reads its messages.

    Raises:
        ModelError: If it expands to too many nodes, or its functions call themselves, or nest too deep.
    """

    def __init__(self, model: Any, reader: FileReader) -> None:
        super().__init__()
        self._reader = reader
        self._functions: dict[Key, Any] = {
            (plain_domain(function.domain), function.name, function.overload): function
            for function in model.functions
        }
        self._sizes: dict[Key, int] = {}
        self._depths: dict[Key, int] = {}
        for key in self._functions:
            self._measure(key)
        own = sum(node_count(part) for part in (model.graph, *model.functions))
        count, most = self._expanded(model.graph), _NODES + _FOLD * own
        if count > most:
            raise ModelError(
                f"the {own} nodes of the model expand to {count} nodes; xdlc supports at most {most}",
                fix=_INLINE,
            )

    def of(self, node: Node) -> Handler | None:
        """Return the handler of a node that calls a function, or None."""
        function = self._functions.get(_key(node))
        if function is None:
            return None

        def expand(node: Node, g: Operators) -> None:
            g.expand(function, node, self._reader.inside(function))

        return Handler(expand, SOURCE, frozenset())

    def inner_types(self) -> Iterator[tuple[str, str]]:
        """Iterate over domain and type of the nodes of the functions."""
        for function in self._functions.values():
            yield from ((domain_of(node), node.op_type) for node in all_nodes(function))

    def size(self, node: Node) -> int:
        """Return the number of nodes that a node expands to, without its graphs."""
        return 1 + self._sizes.get(_key(node), 0)

    def _expanded(self, graph: Any) -> int:
        """Return the number of nodes that a graph expands to, with its inner graphs."""
        return sum(1 + self._sizes.get(key_of(node), 0) for node in all_nodes(graph))

    def _measure(self, key: Key) -> None:
        """Compute the size of a function, after the sizes of the functions that it calls."""
        path: dict[Key, set[Key]] = {}
        pending = [key]
        while pending:
            current = pending[-1]
            if current in self._sizes:
                pending.pop()
                continue
            if current in path:  # all that it calls is known
                self._sizes[current] = self._expanded(self._functions[current])
                self._depths[current] = 1 + max((self._depths[other] for other in path[current]), default=0)
                if self._depths[current] > DEPTH:
                    raise ModelError(
                        f"the functions of the model are nested more than {DEPTH} levels deep", fix=_INLINE
                    )
                del path[current]
                continue
            called = {key_of(node) for node in all_nodes(self._functions[current])} & self._functions.keys()
            again = sorted(called & {current, *path})
            if again:
                raise ModelError(
                    f"function {again[0][1]!r} of the model calls itself",
                    fix="remove the call: a function must not call itself",
                )
            path[current] = called
            pending.extend(called - self._sizes.keys())


def _key(node: Node) -> Key:
    return node.domain, node.type, node.message.overload if node.message is not None else ""
