"""Calls of operators of torch.export and TorchScript, before they become nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Ref(str):
    """Name of a tensor that a call reads."""

    __slots__ = ()


class SymbolRef(str):
    """Name of a number that depends on dynamic dimensions or on data."""

    __slots__ = ()


class ScalarType(int):
    """Number of a data type (c10/core/ScalarType.h)."""

    __slots__ = ()


class Meta(NamedTuple):
    """What a program states of a tensor.

    Attributes:
        sizes: Its shape: numbers, and expressions of symbols as text.
        strides: Elements between neighbours along each axis, as far as they are numbers.
        offset: First element in its storage.
    """

    dtype: ScalarType
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...] = ()
    offset: int | str = 0


@dataclass(slots=True)
class Call:
    """A call of an operator.

    Attributes:
        target: Namespace, operator and overload: ``aten.add.Tensor``; without the overload ``default``.
        arguments: Arguments by name: tensors as ``Ref``, graphs as ``CallGraph``.
        outputs: Names of the results, those of a list in its place; empty for a result that is None.
        module: Path of the module of the network that makes the call.
        line: File and line of the network's source that makes the call; empty if not known.
    """

    target: str
    arguments: dict[str, Any]
    outputs: list[str]
    module: str = ""
    line: str = ""

    def refs(self) -> Iterator[Ref]:
        """Iterate over the tensors that the call reads itself."""
        yield from refs(self.arguments.values())


@dataclass(slots=True)
class CallGraph:
    """A graph of calls.

    Attributes:
        outputs: Its outputs: ``Ref``, or constants.
        calls: Its calls, in the order in which they run.
        values: What the program states of its tensors, by name.
        symbols: Numbers that depend on dynamic dimensions, by name: expressions as text, or numbers.
    """

    inputs: list[str]
    outputs: list[Any]
    calls: list[Call] = field(default_factory=list)
    values: dict[str, Meta] = field(default_factory=dict)
    symbols: dict[str, int | str] = field(default_factory=dict)

    def reads(self) -> Iterator[str]:
        """Iterate over the tensors that outputs and calls read, those of sub-graphs too."""
        yield from refs(self.outputs)
        for call in self.calls:
            yield from call.refs()
            for value in call.arguments.values():
                if isinstance(value, CallGraph):
                    yield from value.reads()


def refs(values: Any) -> Iterator[Ref]:
    """Iterate over the tensors among arguments, also inside lists."""
    for value in values:
        if isinstance(value, Ref):
            yield value
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from refs(value)


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Return an argument with its tensors renamed."""
    if isinstance(value, Ref):
        return Ref(names.get(value, value))
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return value
