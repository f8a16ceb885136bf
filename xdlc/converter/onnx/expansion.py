"""Number of nodes of a model once its functions are expanded, found without expanding them."""

from __future__ import annotations

from typing import Any

from xdlc.converter.operators.protobuf import all_nodes, key_of, node_count, plain_domain
from xdlc.converter.session.context import DEPTH
from xdlc.errors import ModelError

_NODES = 1 << 14
_FOLD = 64
_INLINE = "inline the functions with onnx.inliner, or simplify the model"


class Expansion:
    """Numbers of nodes that the functions of a model expand to.

    A function that calls another twice, which calls a third twice, and so on, takes few bytes and expands
    to any number of nodes.  A model may expand to some thousands of nodes, and to some dozen times as many
    as it has.

    Args:
        model: ``ModelProto``.

    Raises:
        ModelError: If it expands to too many, or its functions call themselves, or nest too deep.
    """

    def __init__(self, model: Any) -> None:
        self._functions = {
            (plain_domain(function.domain), function.name, function.overload): function
            for function in model.functions
        }
        self._sizes: dict[tuple[str, str, str], int] = {}
        self._depths: dict[tuple[str, str, str], int] = {}
        if not self._functions:
            return
        for key in self._functions:
            self._measure(key)
        own = sum(node_count(held) for held in (model.graph, *model.functions))
        most, found = _NODES + _FOLD * own, self.size(model.graph)
        if found > most:
            raise ModelError(f"its {own} nodes expand to {found}, more than {most}", fix=_INLINE)

    def size(self, graph: Any) -> int:
        """Return the number of nodes that a graph expands to, those of the graphs inside it included."""
        return sum(1 + self._sizes.get(key_of(node), 0) for node in all_nodes(graph))

    def _measure(self, key: tuple[str, str, str]) -> None:
        """Find the size of a function, those that it calls first."""
        path: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
        pending = [key]
        while pending:
            held = pending[-1]
            if held in self._sizes:
                pending.pop()
                continue
            if held in path:  # all that it calls is known
                self._sizes[held] = self.size(self._functions[held])
                self._depths[held] = 1 + max((self._depths[other] for other in path[held]), default=0)
                if self._depths[held] > DEPTH:
                    raise ModelError(f"its functions call one another more than {DEPTH} deep", fix=_INLINE)
                del path[held]
                continue
            called = {key_of(node) for node in all_nodes(self._functions[held])} & self._functions.keys()
            again = sorted(called & {held, *path})
            if again:
                raise ModelError(
                    f"its function {again[0][1]!r} calls itself", fix="a function must not call itself"
                )
            path[held] = called
            pending.extend(called - self._sizes.keys())
