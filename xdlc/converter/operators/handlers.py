"""Registration of the handlers of a framework's node types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import AnyValue
from xdlc.registry import import_modules

HandlerFunction = Callable[[Node, Operators], "AnyValue | Sequence[AnyValue]"]
F = TypeVar("F", bound=HandlerFunction)


class Handler(NamedTuple):
    """A handler of source nodes.

    Attributes:
        function: Returns the outputs of a node.
        layout: Layout in which it works; ``channel_last`` also for what it applies to its first input.
        ignores: Attributes without meaning at inference.
    """

    function: HandlerFunction
    layout: str
    ignores: frozenset[str]


class Handlers:
    """Handlers of a framework's node types.

    Args:
        package: Package whose modules register handlers, imported at the first look-up; default: none.
    """

    def __init__(self, package: str | None = None) -> None:
        self._package = package
        self._held: dict[tuple[str, str], Handler] = {}

    def __call__(
        self, *types: str, layout: str = SOURCE, ignores: Sequence[str] = (), domain: str = ""
    ) -> Callable[[F], F]:
        """Register a function as the handler of node types.

        Args:
            types: Node types.
            layout: Layout in which the handler works (``session.ordering``).
            ignores: Attributes without meaning at inference; any other that is set and not read is refused.
            domain: Domain of the types.

        Raises:
            ValueError: If a type has a handler already.
        """

        def register(function: F) -> F:
            for type in types:
                handler = Handler(function, layout, frozenset(ignores))
                if self._held.setdefault((domain, type), handler) is not handler:
                    raise ValueError(f"there is a handler of {type} already")
            return function

        return register

    def reason(self, type: str) -> str:
        """Return why a node type has no handler, as the end of a sentence; empty if that is all."""
        return ""

    def all(self) -> Mapping[tuple[str, str], Handler]:
        """Return the handlers by domain and node type."""
        if self._package is not None:
            import_modules(self._package)
        return self._held

    def is_optional(self, attribute: str) -> bool:
        """Return whether an attribute of any node has no meaning at inference."""
        return False

    def find(self, domain: str, type: str) -> Handler | None:
        """Return the handler of a node type, or None."""
        return self.all().get((domain, type))
