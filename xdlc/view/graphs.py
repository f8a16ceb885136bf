"""Graphs of a model as content of the page: tensors, ops and their scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.content.inspection import enumerators, in_words, param_value
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Encoding, Graph, Op, ScaleOffset, Tensor
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import called
from xdlc.view.scopes import Scopes, scopes_of_graph
from xdlc.view.statistics import Record, rounded, static_statistics

INSERTED, HOST, REFUSED, FIRST_WRONG, UDO = 1, 2, 4, 8, 16
"""Flags of an op."""
SHOWN_SCALES = 8
SHOWN_TEXT = 1 << 12
"""Characters of a value that the page shows."""
Names = Mapping[tuple[str, str], Mapping[str, Sequence[str]]]
Activations = Mapping[str, Record]


def encoding_text(encoding: Encoding) -> str:
    """Return an encoding in few words, with its scales where they are few.

    Example:
        >>> encoding_text(ScaleOffset(0.5, -128))
        'scale 0.5, offset -128'
    """
    scales = () if isinstance(encoding, ScaleOffset) else encoding.scales
    numbers = f" ({', '.join(f'{scale:.6g}' for scale in scales)})" if 0 < len(scales) <= SHOWN_SCALES else ""
    return f"{in_words(encoding)}{numbers}"


def short_value(value: Any) -> Any:
    """Return a value of a parameter as the page shows it: a number or a text."""
    if isinstance(value, dict):
        return f"{value['dtype']} {value['shape']}"
    if isinstance(value, list):
        return short_text(_listed(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)
    if isinstance(value, float):
        number = rounded(value)
        return str(value) if number is None else number
    return short_text(value)


def _listed(values: list[Any]) -> str:
    """Return nested lists as text, with short numbers."""
    shown = (_listed(each) if isinstance(each, list) else str(short_value(each)) for each in values)
    return f"[{', '.join(shown)}]"


def short_text(value: object) -> str:
    """Return a value as text, cut if it is long."""
    text = str(value)
    return text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}... ({len(text):,} characters)"


class GraphContent:
    """Content of one graph.

    Args:
        numbers: Index of each graph of the model by name.
        definitions: Enumerations of UDOs' parameters by package and type.
        modules: Paths of modules by source node.
        activations: Statistics of activations from a report, by name of the tensor.
        statistics: Whether static tensors have statistics, which reads their data.
    """

    def __init__(
        self,
        graph: Graph,
        numbers: Mapping[str, int],
        *,
        definitions: Names,
        modules: Mapping[str, str],
        activations: Activations,
        statistics: bool = True,
    ) -> None:
        self._graph, self._numbers = graph, numbers
        self._definitions, self._modules = definitions, modules
        self._activations, self._has_statistics = activations, statistics
        self._places = {tensor: place for place, tensor in enumerate(graph.tensors.values())}
        self._types: dict[str, int] = {}
        self._stats: list[Record] = []

    def as_dict(self, flags: Sequence[int]) -> Record:
        """Return the content.

        Args:
            flags: Further flags of each op.
        """
        scopes = scopes_of_graph(self._graph, self._modules)
        tensors = [self._tensor(tensor) for tensor in self._places]
        ops = [self._op(op, place, scopes, flags) for place, op in enumerate(self._graph.ops)]
        return {
            "name": self._graph.name,
            "tensors": tensors,
            "stats": self._stats,
            "inputs": [self._places[tensor] for tensor in self._graph.inputs],
            "outputs": [self._places[tensor] for tensor in self._graph.outputs],
            "scopes": scopes.rows,
            "types": list(self._types),
            "ops": ops,
        }

    def _tensor(self, tensor: Tensor) -> list[Any]:
        return [
            tensor.name,
            tensor.dtype.name,
            [None if axis in tensor.dynamic_axes else size for axis, size in enumerate(tensor.shape)],
            "static" if tensor.is_static else tensor.role.name.lower(),
            0 if tensor.encoding is None else encoding_text(tensor.encoding),
            self._statistics(tensor),
        ]

    def _statistics(self, tensor: Tensor) -> int:
        """Return the index of a tensor's statistics plus 1; 0: there are none."""
        record = self._activations.get(tensor.name)
        if record is None and tensor.is_static and self._has_statistics:
            record = static_statistics(tensor)
        if record is None:
            return 0
        self._stats.append(record)
        return len(self._stats)

    def _op(self, op: Op, place: int, scopes: Scopes, flags: Sequence[int]) -> list[Any]:
        own = INSERTED * op.is_inserted | HOST * (op.package == HOST_PACKAGE) | UDO * is_udo(op)
        bodies = [self._numbers[name] for name in called(op) if name in self._numbers]
        named = enumerators(op, self._definitions)
        params = {name: short_value(param_value(value)) for name, value in op.params.items()}
        return [
            op.name,
            self._types.setdefault(op.type, len(self._types)),
            scopes.of_ops[place],
            [-1 if tensor is None else self._places[tensor] for tensor in op.inputs],
            [self._places[tensor] for tensor in op.outputs],
            params | {name: f"{params[name]} ({text})" for name, text in named.items()},
            list(op.origin.nodes),
            op.origin.reason or 0,
            bodies or 0,
            0 if op.package == NATIVE_PACKAGE else op.package,
            own | flags[place],
        ]
