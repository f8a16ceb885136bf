"""Calls that run a graph once, or an operator by name, replaced by their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Ref, SymbolRef
from xdlc.errors import UnsupportedOp
from xdlc.ir.names import FreeNames

_REGIONS = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 4,
    "invoke_subgraph": 0,
    "wrap": 0,
    "wrap_activation_checkpoint": 0,
    "tag_activation_checkpoint": 0,
}
"""Operators that run a graph once, by the position of the graph; operands follow."""
_VMAP = "torch._functorch.predispatch."
_DROPPED = frozenset(["torch._C._set_grad_enabled", "_C._set_grad_enabled"])
"""Calls without meaning for values."""


def inlined(graph: CallGraph) -> CallGraph:
    """Return a graph without calls that run a graph once.

    Raises:
        UnsupportedOp: If a call has another form than that of torch's programs, or is of vmap.
    """
    walk = _Inlining(graph)
    names: dict[str, Any] = {}
    walk.add_all(graph.calls, names, is_inside=False)
    outputs = [_substituted(output, names) for output in graph.outputs]
    return CallGraph(graph.inputs, outputs, walk.calls, walk.values, walk.symbols)


def _substituted(value: Any, names: dict[str, Any]) -> Any:
    """Return an argument with values substituted for a graph's tensors and numbers."""
    if isinstance(value, Ref | SymbolRef):
        return names.get(value, value)
    if isinstance(value, list | tuple):
        return [_substituted(item, names) for item in value]
    return value


class _Inlining:
    """Walk over calls of a graph and of those that run once inside it.

    Attributes:
        calls: Calls so far.
        values: What is stated of their tensors.
        symbols: Numbers that depend on dynamic dimensions.
    """

    def __init__(self, graph: CallGraph) -> None:
        self.calls: list[Call] = []
        self.values = dict(graph.values)
        self.symbols = dict(graph.symbols)
        self._taken = {*graph.values, *graph.symbols, *graph.inputs}
        self._taken.update(output for call in graph.calls for output in call.outputs)
        self._free_name = FreeNames(self._taken)

    def add_all(self, calls: Sequence[Call], names: dict[str, Any], *, is_inside: bool) -> None:
        """Add the calls of one graph.

        Args:
            calls: The calls.
            names: Replacements of values of this graph.
            is_inside: Whether a graph is around, whose names must not be those of this graph.

        Raises:
            UnsupportedOp: If a call is of vmap.
        """
        for call in calls:
            if call.target.startswith(_VMAP):
                raise UnsupportedOp(
                    "torch.vmap is not supported",
                    fix="write the function for whole batches",
                )
            if call.target in _DROPPED:
                continue
            arguments = {key: _substituted(value, names) for key, value in call.arguments.items()}
            outputs = [self._named(output, names) if is_inside else output for output in call.outputs]
            added = replace(call, arguments=arguments, outputs=outputs)
            space, _, name = call.target.partition(".")
            if space == "higher_order" and name in _REGIONS:
                results = self._add_region(added, name)
                names.update(zip(call.outputs, results, strict=False))
            elif space == "higher_order" and name.startswith("auto_functionalized"):
                self.calls.append(_mutation(added))
            else:
                self.calls.append(added)

    def _add_region(self, call: Call, name: str) -> list[Any]:
        """Add the calls of a graph that runs once; return its results.

        Raises:
            UnsupportedOp: If the call has a form that is not known, or computes in types of its own.
        """
        arguments, first = list(call.arguments.values()), _REGIONS[name]
        graph = arguments[first] if first < len(arguments) else None
        operands = arguments[first + 1 :]
        if name == "invoke_subgraph":
            operands = operands[1:]  # after the graph's name
        if not isinstance(graph, CallGraph) or len(operands) < len(graph.inputs):
            raise UnsupportedOp(f"this form of {name} is not supported")
        if name == "wrap_with_autocast" and arguments[2]:
            raise UnsupportedOp(
                "autocast chooses the type of each operator while the network runs",
                fix="export the network without torch.autocast: a DLC of float32 runs as float16 on HTP",
            )
        inner: dict[str, Any] = dict(zip(graph.inputs, operands, strict=False))
        made = {output for each in graph.calls for output in each.outputs}
        for output, result in zip(call.outputs, graph.outputs, strict=False):
            if isinstance(result, Ref) and result in made and result not in inner and output:
                inner[result] = Ref(output)
        for value, meta in graph.values.items():
            if value not in inner:
                self.values[self._named(value, inner)] = meta
        for value, number in graph.symbols.items():
            if value not in inner:
                self.symbols[self._named(value, inner, SymbolRef)] = number
        self.add_all(graph.calls, inner, is_inside=True)
        return [_substituted(result, inner) for result in graph.outputs]

    def _named(self, name: str, names: dict[str, Any], kind: type[str] = Ref) -> str:
        """Return the name of a value of an inlined graph; choose a free one if needed."""
        if not name or isinstance(names.get(name), str):
            return str(names.get(name, name))
        free = self._free_name(name)
        self._taken.add(free)
        names[name] = kind(free)
        return free


def _mutation(call: Call) -> Call:
    """Return a mutating call of a user's operator, with the new values as results.

    Raises:
        UnsupportedOp: If it changes a part of a tensor.
    """
    arguments = dict(call.arguments)
    target = str(arguments.pop("arg0", "")).removeprefix("torch.ops.").removesuffix(".default")
    bases = arguments.pop("_all_bases", [])
    for key in [key for key in arguments if key.endswith("_base_index")]:
        index = arguments.pop(key)
        arguments[key[1 : -len("_base_index")]] = None if index is None else bases[index]
    if any(key.startswith("_") and key.endswith(("_slice_dim", "_size", "_stride")) for key in arguments):
        raise UnsupportedOp(f"{target} changes a part of a tensor in place, which is not supported")
    arguments = {key: value for key, value in arguments.items() if not key.endswith("_alias")}
    return replace(call, target=target, arguments=arguments)
