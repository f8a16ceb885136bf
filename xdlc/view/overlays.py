"""Overlays of the page: a figure or a class for each op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdlc.container.read3 import PACKAGE
from xdlc.content.inspection import runtimes
from xdlc.ir import Graph, Op
from xdlc.ir.dtype import BY_NAME
from xdlc.ir.graph import is_udo
from xdlc.ir.quantization import used_bits
from xdlc.opdefs.traits import macs
from xdlc.view.statistics import Record

COLORS = ("c1", "c2", "c3", "c4", "c5", "c6")
Value = float | str | None
_TYPE_COLORS = {"float": "c1", "uint": "c5", "int": "c5", "bool": "c5"}
_FIXED_COLORS = {4: "c6", 8: "c3", 16: "c4", 32: "c5"}


@dataclass(slots=True)
class Overlay:
    """A figure or a class for each op.

    Attributes:
        key: Name in addresses of the page.
        values: For each graph, the figure or the class of each op; None: it has none.
        marks: Figures that raise an alarm and a warning.
        colors: Color of each class; empty for figures.
        notes: For each graph, a text by index of the op.
        source: File that the figures come from; empty: the model.
    """

    key: str
    title: str
    help: str
    values: list[list[Value]]
    unit: str = ""
    low_is_bad: bool = False
    marks: tuple[float, float] | None = None
    colors: dict[str, str] = field(default_factory=dict)
    notes: list[dict[int, str]] = field(default_factory=list)
    source: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no op has a class or a figure; 0 dB is a figure, a count of 0 is not."""
        values = (value for row in self.values for value in row)
        return not any(value is not None if self.low_is_bad else value for value in values)

    def as_dict(self) -> Record:
        """Return the overlay as values of JSON."""
        present = {value for row in self.values for value in row if isinstance(value, str)}
        record: Record = {
            "key": self.key,
            "title": self.title,
            "unit": self.unit,
            "help": self.help,
            "kind": "class" if self.colors else "number",
            "low_is_bad": self.low_is_bad,
            "marks": None if self.marks is None else list(self.marks),
            "colors": {name: color for name, color in self.colors.items() if name in present},
            "graphs": self.values,
            "notes": None,
            "from": self.source,
        }
        if any(self.notes):
            record["notes"] = [{str(place): text for place, text in notes.items()} for notes in self.notes]
        return record


Graphs = Sequence[Graph]


def basic_overlays(graphs: Graphs) -> Iterator[Overlay]:
    """Yield the overlays that need nothing but the graphs."""
    yield Overlay("macs", "MACs", "Multiply-accumulates of an inference.", _each(graphs, macs))
    yield Overlay(
        "bytes",
        "bytes moved",
        "Bytes of activations and weights that the op reads and writes, not measured traffic of DRAM.",
        _each(graphs, lambda op: value_bytes(op) + weight_bytes(op)),
        "B",
    )
    yield Overlay(
        "weights", "bytes of weights", "Bytes of the op's static data.", _each(graphs, weight_bytes), "B"
    )
    yield _classes("dtype", "data type", "Data type of the op's first result.", _each(graphs, _dtype))
    yield _classes(
        "bits", "bit widths", "Bits of the result (A) and of the weights (W).", _each(graphs, _bits)
    )
    yield Overlay(
        "backend",
        "backend",
        "Backend that can run the op, by xdlc's definitions of operations.",
        _each(graphs, _backend),
        colors={"HTP": "c1", "CPU, not HTP": "warn", "host": "c4", "UDO": "c3", "no backend": "alarm"},
    )
    reasons = [
        {place: op.origin.reason or "" for place, op in enumerate(graph.ops) if op.is_inserted}
        for graph in graphs
    ]
    yield Overlay(
        "inserted",
        "inserted ops",
        "Ops that the source model does not have, with their reason.",
        _each(graphs, lambda op: "inserted" if op.is_inserted else None),
        colors={"inserted": "c2"},
        notes=reasons,
    )


def _each(graphs: Graphs, value: Callable[[Op], Value]) -> list[list[Value]]:
    return [[value(op) for op in graph.ops] for graph in graphs]


def value_bytes(op: Op) -> int:
    """Return the bytes of activations that an op reads and writes, as stored."""
    tensors = (*op.inputs, *op.outputs)
    return sum(tensor.nbytes for tensor in tensors if tensor is not None and not tensor.is_static)


def weight_bytes(op: Op) -> int:
    """Return the bytes of an op's static data, as stored."""
    return sum(tensor.nbytes for tensor in op.inputs if tensor is not None and tensor.is_static)


def _dtype(op: Op) -> str | None:
    return op.outputs[0].dtype.name if op.outputs else None


def _bits(op: Op) -> str | None:
    """Return the widths of an op like ``A16W8``; None if it has no fixed-point result."""
    result = op.outputs[0] if op.outputs else None
    static = [tensor for tensor in op.inputs if tensor is not None and tensor.is_static and tensor.rank > 1]
    weight = max(static, key=lambda tensor: tensor.size, default=None)
    if result is None or not (result.dtype.is_fixed or (weight is not None and weight.dtype.is_fixed)):
        return None
    words = f"A{used_bits(result)}" + ("f" if result.dtype.is_float else "")
    return words + (f"W{used_bits(weight)}" if weight is not None and weight.dtype.is_fixed else "")


def _backend(op: Op) -> str | None:
    if op.package == PACKAGE:  # backends run layers of SNPE 1 as other ops
        return None
    if is_udo(op):
        return "UDO"
    letters = runtimes(op).split()
    if "host" in letters:
        return "host"
    return "HTP" if "D" in letters else "CPU, not HTP" if "C" in letters else "no backend"


def _classes(key: str, title: str, help: str, values: list[list[Value]]) -> Overlay:
    names = sorted({str(value) for row in values for value in row if value is not None})
    return Overlay(key, title, help, values, colors=class_colors(names))


def class_colors(names: Sequence[str]) -> dict[str, str]:
    """Return a color for each class, that of its type where it is one."""
    colors = {}
    for place, name in enumerate(names):
        kind = BY_NAME.get(name)
        if kind is not None:
            by_bits = _FIXED_COLORS if kind.is_fixed else {}
            colors[name] = by_bits.get(kind.bits) or (
                "c2" if name.endswith("float16") else _TYPE_COLORS.get(kind.kind, "c6")
            )
        else:
            colors[name] = COLORS[place % len(COLORS)]
    return colors


def part_overlay(graphs: Graphs, key: str, title: str, help: str, parts: Mapping[Any, str]) -> Overlay:
    """Return the overlay of ops that belong to named parts.

    Args:
        parts: Name of the part of each op.
    """
    names = list(dict.fromkeys(parts.values()))
    return Overlay(key, title, help, _each(graphs, parts.get), colors=class_colors(names))
