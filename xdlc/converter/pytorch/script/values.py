"""Values of evaluated TorchScript: tensors, objects, results of operator calls.

What an operator returns is found by its handler, applied to a graph that is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdlc import ir
from xdlc.converter.operators.dispatch import Operators, unmapped
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType
from xdlc.converter.pytorch.exported import Program
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.registry import AtenNode, aten, stated_dtype
from xdlc.converter.pytorch.symbols import Bindings
from xdlc.converter.pytorch.tensors import dtype_of
from xdlc.converter.session.boundary import add_input
from xdlc.converter.session.context import ImportContext, Source, Unresolved
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp, XdlcError

_MOST_VALUES = 1 << 16


@dataclass(slots=True, eq=False)
class Tensor:
    """A tensor, or a number that depends on data.

    Attributes:
        storage: Name of the tensor whose storage it shares.
        number: Whether the code has it as a number.
        quantizer: Of a quantized tensor, whose value is the dequantized one, its parameters.
    """

    name: Ref
    dtype: ScalarType
    shape: tuple[int, ...]
    storage: str = ""
    number: bool = False
    quantizer: Quantizer | None = None


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Scale, zero point and c10 data type (qint8, quint8) of a quantized tensor."""

    scale: float
    zero_point: int
    dtype: int = 13


@dataclass(slots=True, eq=False)
class Object:
    """An object of a class of TorchScript, a module for example.

    Attributes:
        kind: Its class, with its module.
        path: Attributes that lead to it from the network, joined by dots.
    """

    kind: str
    path: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


class Named(str):
    """A function, class or operator, by its qualified name."""

    __slots__ = ()


def tensors(values: Any) -> list[Tensor]:
    """Return the tensors of a value, including those in nested lists and dicts.

    Raises:
        ValueError: If there are too many values.
    """
    collected: list[Tensor] = []
    left = [values]
    for _ in range(_MOST_VALUES):
        if not left:
            return collected[::-1]
        value = left.pop()
        if isinstance(value, Tensor):
            collected.append(value)
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, dict):
            left += value.values()
    raise ValueError("a list has too many values")


def replaced(value: Any) -> Any:
    """Return an argument with references in place of tensors."""
    if isinstance(value, list | tuple):
        return [replaced(item) if isinstance(item, Tensor) else item for item in value]
    return value.name if isinstance(value, Tensor) else value


_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError)


class Results:
    """Values of one evaluation by name, in a graph that is thrown away."""

    def __init__(self, path: str, nbytes: int) -> None:
        self._context = ImportContext(Source("pytorch", path, unit="call"), Diagnostics())
        self._operators = Operators(self._context, lambda: nbytes, random_inputs=True)

    def bind(self, name: str, data: ir.TensorData) -> None:
        """Let a name have stored values."""
        self._context.bind_constant(name, lambda: data)

    def value(self, name: str) -> Value:
        """Return the value of a name."""
        return self._context.values.tensor(name)

    def set(self, name: str, value: Value) -> None:
        """Let a name have a value."""
        self._context.values[name] = value

    def forget(self, tensor: Tensor) -> None:
        """Let the elements of a tensor be unknown from now on."""
        name = f"{tensor.name}~{len(self._context.builder.graph.inputs)}"
        add_input(self._context, name, tensor.shape, dtype_of(tensor.dtype))
        self._context.values[tensor.name] = self._context.values[name]

    def of(self, call: Call, operands: Sequence[Tensor], types: Sequence[ScalarType]) -> list[Value | None]:
        """Return a call's results by its handler; None for results computed on demand."""
        context = self._context
        metas = {str(operand.name): Meta(operand.dtype, operand.shape) for operand in operands}
        metas |= {output: Meta(dtype, ()) for output, dtype in zip(call.outputs, types, strict=True)}
        inputs = {str(operand.name): str(operand.name) for operand in operands}
        graph = CallGraph(list(inputs), [Ref(output) for output in call.outputs], [call], metas)
        source, _ = source_graph(
            Program(context.source.path, graph, inputs, outputs=call.outputs), Bindings()
        )
        node = next(each for each in source.nodes if isinstance(each, AtenNode))
        node.stated, node.dtypes = [], [stated_dtype(dtype) for dtype in types]
        context.resolve_inputs(node, context.place(node))
        try:
            return self._handled(node, call.outputs)
        except XdlcError:
            if len(call.outputs) == 1:
                raise
            return self._handled(node, call.outputs[:1])

    def _handled(self, node: AtenNode, read: Sequence[str]) -> list[Value | None]:
        """Return the results of a handler, computed as far as they are read."""
        context, before = self._context, len(self._context.problems)
        where, handler = context.place(node), aten.find(node.domain, node.type)
        if handler is None:
            refusal, reason = unmapped(node, where), aten.reason(node.type)
            refusal.problem += f": {reason}" if reason else ""
            raise refusal
        self._operators.read = read
        try:
            context.begin(node)
            with context.entered(owner=node, stands_in=True):
                handled: list[Any] = list(cast("Sequence[Any]", handler.function(node, self._operators)))
        except Unresolved:
            problem = context.problems[before]
            del context.problems[before:]
            raise problem from None
        except XdlcError as problem:
            problem.where = problem.where or where
            raise
        except _ERRORS as error:
            misfit = f"the inputs do not fit the operator: {error}"[:300]
            raise UnsupportedOp(misfit, where=where, fix="check the shapes of the inputs") from error
        stated = handled[: len(node.outputs)]
        return [*stated, *[None] * (len(node.outputs) - len(stated))]


def shape_of(value: Value, name: str) -> tuple[int, ...]:
    """Return the shape of a result."""
    shape = tuple(size for size in value.dims or () if size is not None)
    if value.dims is None or len(shape) != len(value.dims):
        fix = "export the model with torch.export, which keeps these shapes"
        raise UnsupportedOp(f"the shape of the result of {name} depends on data", fix=fix, code="XD403")
    return shape
