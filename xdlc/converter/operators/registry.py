"""The registry of ONNX importers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from xdlc.converter.builder import Builder
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array

MICROSOFT = "com.microsoft"
SOURCE, ANY, CHANNEL_LAST = "source", "any", "channel_last"


@dataclass(slots=True, eq=False)
class Node:
    """A node of the source graph as an importer sees it.

    Attributes:
        name: Its name, or one made from its first output.
        type: ONNX operator.
        domain: Operator domain; the default one is ``""``.
        opset: Version of the domain that the model imports.
        inputs: Values by position; None for an input left out.  Sequences and optionals are among them only
            where the operator runs graphs or is on sequences or optionals itself.
        outputs: Names of its outputs; empty for an output left out.
        attributes: Attribute values as Python objects; strings as str, tensors as lazy data.
        read: Names of the attributes that the importer asked for.
    """

    name: str
    type: str
    domain: str
    opset: int
    inputs: list[Value | None]
    outputs: Sequence[str]
    attributes: dict[str, Any]
    read: set[str] = field(default_factory=set)

    def input(self, index: int) -> Value | None:
        """Return an input, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required(self, index: int) -> Value:
        """Return an input that must be there.

        Raises:
            ModelError: If it is left out.
        """
        value = self.input(index)
        if value is None:
            raise self.invalid(f"input {index} is missing")
        return value

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or ``default``."""
        self.read.add(name)
        return self.attributes.get(name, default)

    def graph(self, name: str) -> Any:
        """Return an attribute that is a ``GraphProto``.

        Raises:
            ModelError: If it is left out, or something else.
        """
        value = self.attr(name)
        if not hasattr(value, "node"):
            raise self.invalid(f"attribute {name} is {'missing' if value is None else 'no graph'}")
        return value

    def static(self, index: int, what: str) -> Array | None:
        """Return the elements of an input that must be known while converting; None if left out.

        Raises:
            UnsupportedOp: If it is computed at run time.
        """
        value = self.input(index)
        if value is None:
            return None
        if not value.is_static:
            raise self.problem(
                f"{what} (input {index}, {value.tensor.name!r}) must be constant, but is computed",
                "bind symbolic dimensions with --input_dim, or export the model with static shapes",
            )
        return value.numpy()

    def ints(self, index: int, attribute: str, what: str) -> list[int] | None:
        """Return integers that older opsets give as an attribute and newer ones as an input."""
        given = self.attr(attribute)
        if given is not None:
            return [int(given)] if isinstance(given, int) else [int(item) for item in given]
        array = self.static(index, what)
        return None if array is None else [int(item) for item in array.reshape(-1)]

    def axis(self, given: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises:
            ModelError: If there is no such axis.
        """
        if not -rank <= given < rank:
            raise self.invalid(f"axis {given} does not fit rank {rank}")
        return given % rank

    def problem(self, text: str, fix: str | None = None) -> UnsupportedOp:
        """Return an error to be raised where QNN cannot carry this node; the host may."""
        return UnsupportedOp(text, where=f"node {self.name!r} ({self.type}, opset {self.opset})", fix=fix)

    def invalid(self, text: str) -> ModelError:
        """Return an error to be raised where this node contradicts itself: nobody can execute it."""
        return ModelError(
            text,
            where=f"node {self.name!r} ({self.type}, opset {self.opset})",
            fix="the model is not valid ONNX: export it again",
        )


Importer = Callable[[Node, Builder], Value | Sequence[Value]]
F = TypeVar("F", bound=Importer)


@dataclass(frozen=True, slots=True)
class Entry:
    """One importer.

    Attributes:
        since: Oldest opset it understands.
        function: The importer.
        layout: The axis order it works in.
        ignores: Attributes without meaning at inference.
        dynamic: Whether it takes values with open extents.
    """

    since: int
    function: Importer
    layout: str
    ignores: frozenset[str]
    dynamic: bool


_TABLE: dict[tuple[str, str], list[Entry]] = {}


def importer(
    *types: str,
    since: int = 1,
    domain: str = "",
    layout: str = SOURCE,
    ignores: Sequence[str] = (),
    dynamic: bool = False,
) -> Callable[[F], F]:
    """Register a function as the importer of ONNX operators.

    Args:
        types: Operator names.
        since: Oldest opset it understands.
        domain: Operator domain.
        layout: ``channel_last`` if the op is emitted channel-last, ``any`` if it takes any axis order,
            ``source`` if it needs the source's.
        ignores: Attributes that mean nothing at inference; any other that is set and not read is refused.
        dynamic: Whether it takes values with open extents; otherwise such a node is kept for the host.

    Raises:
        ValueError: If the same operator and version is registered twice.
    """

    def register(function: F) -> F:
        for name in types:
            entries = _TABLE.setdefault((domain, name), [])
            if any(entry.since == since for entry in entries):
                raise ValueError(f"{domain}:{name} since {since} is registered twice")
            entries.append(Entry(since, function, layout, frozenset(ignores), dynamic))
            entries.sort(key=lambda entry: -entry.since)
        return function

    return register


@cache
def load_all() -> dict[tuple[str, str], list[Entry]]:
    """Import every module of ``ops``, sub-packages included, and return the table they filled."""
    import importlib
    import pkgutil

    from xdlc.converter.operators import ops

    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(module.name)
    return _TABLE


def entries() -> Iterator[tuple[str, str, Entry]]:
    """Iterate over (domain, operator, entry) of all importers."""
    for (domain, name), versions in sorted(load_all().items()):
        for entry in versions:
            yield domain, name, entry


def find(domain: str, type: str, opset: int) -> Entry | None:
    """Return the newest importer not above ``opset``, or None."""
    for entry in load_all().get((domain, type), ()):
        if entry.since <= opset:
            return entry
    return None
