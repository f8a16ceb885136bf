"""Registries of canonical operators and of the handlers of frameworks."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST, SOURCE
from xdlc.converter.values import AnyValue, Value
from xdlc.records import record
from xdlc.registry import import_modules, module_names
from xdlc.runtime.host_kernels import MICROSOFT, ML

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators

__all__ = [
    "ANY",
    "CHANNEL_LAST",
    "MICROSOFT",
    "ML",
    "SOURCE",
    "CanonicalHandlers",
    "Entry",
    "F",
    "Handler",
    "HandlerFunction",
    "Handlers",
    "Node",
    "entries",
    "find",
    "imported",
    "importer",
    "load_all",
    "structural",
]

ImporterT = TypeVar("ImporterT", bound=Callable[..., Value | Sequence[Value]])
HandlerFunction = Callable[[Node, "Operators"], "AnyValue | Sequence[AnyValue] | None"]
F = TypeVar("F", bound=Callable[..., "AnyValue | Sequence[AnyValue] | None"])


@record(frozen=True)
class Entry:
    """One importer.

    Attributes:
        since: Oldest opset it understands.
        layout: The axis order it works in.
        ignores: Attributes without meaning at inference.
        dynamic: Whether it takes values with dynamic dimensions.
        is_structural: Whether it runs graphs, or is on sequences or optionals.
    """

    since: int
    function: Callable[[Node, Operators], Any]
    layout: str
    ignores: frozenset[str] = frozenset()
    dynamic: bool = False
    is_structural: bool = False


_TABLE: dict[tuple[str, str], list[Entry]] = {}
_MARKS = ("\n@importer(", "\n@structural(")
_TYPE = re.compile(r'"([A-Z]\w*)"')
_ANY_TYPE = "*"
_PACKAGES = tuple(f"xdlc.converter.{name}" for name in ("ops", "ops.microsoft", "ops.ml", "control_flow"))


def importer(
    *types: str,
    since: int = 1,
    domain: str = "",
    layout: str = SOURCE,
    ignores: Sequence[str] = (),
    dynamic: bool = False,
) -> Callable[[ImporterT], ImporterT]:
    """Register a function as the importer of ONNX operators.

    Its second parameter is the builder ``b``, or the operators ``g``.  The others are the first inputs of
    the node; one that may be omitted has the default None.

    Args:
        since: Oldest opset it understands.
        layout: ``channel_last`` if the op is emitted channel-last, ``any`` if it takes any axis order,
            ``source`` if it needs the source's.
        ignores: Attributes that mean nothing at inference; any other that is set and not read is refused.
        dynamic: Whether it takes values with dynamic dimensions; otherwise such a node is kept for the host.

    Raises:
        ValueError: If the same operator and version is registered twice.
    """

    def register(function: ImporterT) -> ImporterT:
        entry = Entry(since, _with_inputs(function), layout, frozenset(ignores), dynamic)
        for name in types:
            _add(domain, name, entry)
        return function

    return register


def _with_inputs(function: Callable[..., Any]) -> Callable[[Node, Operators], Any]:
    """Return an importer that passes the first inputs of a node to a function."""
    count = function.__code__.co_argcount - 2
    least = count - len(function.__defaults__ or ())
    builds = function.__code__.co_varnames[1] == "b"

    @functools.wraps(function)
    def apply(node: Node, g: Operators) -> Any:
        inputs = node.inputs[:count]
        inputs += [None] * (count - len(inputs))
        if None in inputs[:least]:
            node.required(inputs.index(None))
        return function(node, g.builder if builds else g, *inputs)

    return apply


def structural(*types: str, since: int = 1, layout: str = SOURCE) -> Callable[[F], F]:
    """Register the importer of operators that run graphs or are on sequences.

    Args:
        types: Operator names of the default domain.
        since: Oldest opset it understands.
        layout: The layout in which it works, as of ``importer``.
    """

    def register(function: F) -> F:
        for name in types:
            _add("", name, Entry(since, function, layout, is_structural=True))
        return function

    return register


def _add(domain: str, type: str, added: Entry) -> None:
    entries = _TABLE.setdefault((domain, type), [])
    if any(entry.since == added.since for entry in entries):
        raise ValueError(f"{domain}:{type} since {added.since} is registered twice")
    entries.append(added)
    entries.sort(key=lambda entry: -entry.since)


@cache
def load_all() -> dict[tuple[str, str], list[Entry]]:
    """Return the table of all importers, after importing their modules."""
    for package in _PACKAGES:
        import_modules(package)
    return _TABLE


@cache
def _homes() -> Mapping[str, Sequence[str]]:
    """Return the modules that may register importers of a type, by their sources.

    A run imports only those of its operators, for all together take longer to import than a small model.
    """
    homes: dict[str, list[str]] = {}
    for package in _PACKAGES:
        for name in module_names(package):
            try:
                content = pkgutil.get_data(package, f"{name}.py")
            except OSError:  # a package
                content = None
            if content is None:  # or a module without its source
                types = [_ANY_TYPE]
            else:
                source = content.decode()
                parts = [part for mark in _MARKS for part in source.split(mark)[1:]]
                stated = "".join([part.partition(")\n")[0] for part in parts])
                types = _TYPE.findall(source if "*" in stated else stated)
            for type in dict.fromkeys(types):
                homes.setdefault(type, []).append(f"{package}.{name}")
    return homes


@cache
def _import_homes(type: str) -> None:
    for module in _homes().get(type, ()):
        importlib.import_module(module)


def entries(domain: str, type: str) -> Sequence[Entry]:
    """Return the importers of an operator, the newest first."""
    _import_homes(_ANY_TYPE)
    if type in _homes():  # names of strangers' files are not kept
        _import_homes(type)
    return _TABLE.get((domain, type), ())


def find(domain: str, type: str, opset: int) -> Entry | None:
    """Return the newest importer not above ``opset``, or None."""
    for entry in entries(domain, type):
        if entry.since <= opset:
            return entry
    return None


def imported(node: Node, g: Operators, type: str, inputs: Sequence[Value | None], opset: int = 17) -> Value:
    """Return the first result of a standard operator with the attributes of a node.

    Raises:
        UnsupportedOp: If xdlc does not map the operator.
    """
    entry = find("", type, opset)
    if entry is None:
        raise node.problem(f"{type} of opset {opset} has no importer")
    result = entry.function(replace(node, type=type, domain="", opset=opset, inputs=list(inputs)), g)
    return result if isinstance(result, Value) else result[0]


# ------------------------------------------------------------------ handlers of frameworks


class Handler(NamedTuple):
    """A handler of source nodes.

    Attributes:
        function: Returns the outputs of a node, None if it has bound them itself.
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
        ignores: Attributes without meaning at inference, of any type.
    """

    def __init__(self, package: str | None = None, ignores: Sequence[str] = ()) -> None:
        self._package = package
        self._ignores = ignores
        self._held: dict[tuple[str, str], Handler] = {}

    def __call__(
        self, *types: str, layout: str = SOURCE, ignores: Sequence[str] = (), domain: str = ""
    ) -> Callable[[F], F]:
        """Register a function as the handler of node types.

        Its parameters after the node and the operators are the inputs of the node, none of them missing.

        Args:
            layout: Layout in which the handler works (``session.ordering``).
            ignores: Attributes without meaning at inference; any other that is set and not read is refused.

        Raises:
            ValueError: If a type has a handler already.
        """

        def register(function: F) -> F:
            handler = Handler(self.with_operands(function), layout, frozenset((*self._ignores, *ignores)))
            for type in types:
                if self._held.setdefault((domain, type), handler) is not handler:
                    raise ValueError(f"there is a handler of {type} already")
            return function

        return register

    def with_operands(self, function: Callable[..., Any]) -> HandlerFunction:
        """Return a handler that passes the inputs of a node to a function.

        Raises:
            ModelError: When it is called, if the function has other parameters than the node has inputs.
        """
        code = function.__code__
        most = math.inf if code.co_flags & inspect.CO_VARARGS else code.co_argcount - 2
        least = code.co_argcount - 2 - len(function.__defaults__ or ())
        if not most:
            return function

        @functools.wraps(function)
        def handle(node: Node, g: Operators) -> Any:
            return function(node, g, *self.operands(node, least, most))

        return handle

    def operands(self, node: Node, least: int = 0, most: float = math.inf) -> list[Value]:
        """Return the inputs of a node; errors as of ``Node.operands``."""
        return node.operands(least, most)

    def reason(self, type: str) -> str:
        """Return why a node type has no handler; empty if that is all."""
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

    def of(self, node: Node) -> Handler | None:
        """Return the handler of a node, or None."""
        return self.find(node.domain, node.type)

    def is_native(self, domain: str, type: str) -> bool:
        """Return whether nodes of a type can be imported, UDOs left aside."""
        return self.find(domain, type) is not None

    def inner_types(self) -> Iterable[tuple[str, str]]:
        """Return domain and type of nodes that only occur inside handlers."""
        return ()

    def size(self, node: Node) -> int:
        """Return the number of nodes that a node expands to, without its graphs."""
        return 1


class CanonicalHandlers(Handlers):
    """Handlers of ONNX; its nodes need none, because they are canonical operators."""

    def of(self, node: Node) -> Handler | None:
        """Return None."""
        return None

    def is_native(self, domain: str, type: str) -> bool:
        """Return whether xdlc maps an operator."""
        return bool(entries(domain, type))
