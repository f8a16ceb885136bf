"""Calls that run a graph once, or an operator by its name, replaced by what they run.

Regions of vmap, which torch.export writes as calls between two marks, become calls of ``map_impl``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType, SymbolRef
from xdlc.converter.pytorch.schemas import schema, with_defaults
from xdlc.errors import UnsupportedOp

_REGIONS = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 4,
    "invoke_subgraph": 0,
    "wrap": 0,
    "wrap_activation_checkpoint": 0,
    "tag_activation_checkpoint": 0,
    "strict_mode": 0,
    "hints_wrapper": 0,
    "invoke_quant": 0,
}
"""Operators that run a graph once, by the position of the graph; operands follow."""
_VMAP = "torch._functorch.predispatch."
_DROPPED = frozenset(
    [f"{_VMAP}lazy_load_decompositions", "torch._C._set_grad_enabled", "_C._set_grad_enabled"]
)
"""Calls without meaning for values."""
_CASTS = frozenset(["to", "_to_copy", "type_as", "copy", "copy_", "float", "half", "bfloat16"])
_LOWERED = frozenset(
    """
    addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d convolution _convolution linalg_matmul linear matmul mm scaled_dot_product_attention
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Operators that autocast computes in its type, also where the program states another (autocast_mode.h)."""
_MOST_CALLS = 1 << 17
_DEPTH = 32


def inlined(graph: CallGraph) -> CallGraph:
    """Return a graph without calls that run a graph once.

    Raises:
        UnsupportedOp: If a call has another form than that of torch's programs.
    """
    if not any(map(_is_special, graph.calls)):
        return graph
    walk = _Inlining(graph)
    walk.add_all(graph.calls, walk.names, 0)
    outputs = [_substituted(output, walk.names) for output in graph.outputs]
    return CallGraph(graph.inputs, outputs, walk.calls, walk.values, walk.symbols)


def _is_special(call: Call) -> bool:
    space, _, name = call.target.partition(".")
    if space == "higher_order":
        return name in _REGIONS or name.startswith("auto_functionalized") or name == "with_effects"
    return call.target in _DROPPED or call.target.startswith(_VMAP)


def _substituted(value: Any, names: dict[str, Any]) -> Any:
    """Return an argument with the values that tensors and numbers of a graph are."""
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
        names: Replacements of values of the outer graph.
    """

    def __init__(self, graph: CallGraph) -> None:
        self.calls: list[Call] = []
        self.names: dict[str, Any] = {}
        self.values = dict(graph.values)
        self.symbols = dict(graph.symbols)
        self._taken = {*graph.values, *graph.symbols, *graph.inputs}
        self._taken.update(output for call in graph.calls for output in call.outputs)
        self._low: ScalarType | None = None

    def add_all(self, calls: Sequence[Call], names: dict[str, Any], depth: int) -> None:
        """Add calls.

        Args:
            calls: The calls, of one graph.
            names: Replacements of values of this graph.
            depth: Number of graphs around.

        Raises:
            UnsupportedOp: If they are nested too deeply, or are too many.
        """
        if depth > _DEPTH:
            raise UnsupportedOp(f"graphs are nested more than {_DEPTH} deep")
        position = 0
        while position < len(calls):
            if len(self.calls) > _MOST_CALLS:
                raise UnsupportedOp(f"the program runs more than {_MOST_CALLS} calls")
            call = calls[position]
            position += 1
            if call.target == f"{_VMAP}_vmap_increment_nesting":
                position = self._add_vmap(calls, position, names, depth)
            else:
                self._add(call, names, depth)

    def _add(self, call: Call, names: dict[str, Any], depth: int) -> None:
        space, _, name = call.target.partition(".")
        if call.target in _DROPPED:
            return
        made = self._renamed(call, names)
        if space != "higher_order":
            self._append(made)
        elif name in _REGIONS:
            self._add_region(made, call.outputs, names, depth)
        elif name.startswith("auto_functionalized"):
            self._append(_mutation(made))
        elif name == "with_effects":
            self._append(_effect(made))
        else:
            self._append(made)

    def _renamed(self, call: Call, names: dict[str, Any]) -> Call:
        """Return a call with the names of values that the result has."""
        arguments = {key: _substituted(value, names) for key, value in call.arguments.items()}
        return replace(call, arguments=arguments, outputs=[self._named(each, names) for each in call.outputs])

    def _add_region(self, call: Call, outputs: Sequence[str], names: dict[str, Any], depth: int) -> None:
        """Add the calls of a graph that runs once.

        Args:
            call: The call that runs it.
            outputs: Names that the graph around has for the results.
            names: Replacements of values of the graph around.
            depth: Number of graphs around.

        Raises:
            UnsupportedOp: If the call has a form that is not known.
        """
        name, given = call.target.partition(".")[2], list(call.arguments.values())
        first = _REGIONS[name]
        graph = given[first] if first < len(given) else None
        operands = [*given[first + 1 :]]
        if name == "invoke_subgraph":
            operands = operands[1:]  # after the graph's name
        elif operands and isinstance(operands[0], list):  # strict_mode, hints_wrapper
            operands = operands[0]
        if not isinstance(graph, CallGraph) or len(operands) < len(graph.inputs):
            raise UnsupportedOp(f"{name} has a form that is not known")
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
        low, self._low = self._low, self._low
        if name == "wrap_with_autocast":
            dtype, enabled = given[1], given[2]
            self._low = dtype if enabled and isinstance(dtype, ScalarType) else None
        self.add_all(graph.calls, inner, depth + 1)
        self._low = low
        for output, result in zip(outputs, graph.outputs, strict=False):
            if output:
                names[output] = _substituted(result, inner)

    def _named(self, name: str, names: dict[str, Any], kind: type[str] = Ref) -> str:
        """Return the name of a value of the graph at hand, and choose a free one if it has none."""
        found = names.get(name)
        if isinstance(found, str):
            return found
        if not name or names is self.names:
            return name
        made = self._free(name)
        names[name] = kind(made)
        return made

    def _free(self, name: str) -> str:
        """Return a name that is not taken."""
        made, number = name, 0
        while made in self._taken:
            number += 1
            made = f"{name}_{number}"
        self._taken.add(made)
        return made

    def _append(self, call: Call) -> None:
        """Add a call, with operands in the data type in which autocast computes it."""
        metas = [self.values[output] for output in call.outputs if output in self.values]
        wanted = metas[0].dtype if metas else None
        name = call.target.partition(".")[2].partition(".")[0]
        pair = (ScalarType(6), self._low)
        if self._low is not None and wanted == ScalarType(6) and name in _LOWERED:
            self.values[call.outputs[0]] = metas[0]._replace(dtype=self._low)
            wanted = self._low
        if self._low is not None and wanted is not None and wanted in pair and name not in _CASTS:
            arguments = {key: self._cast(value, wanted, pair) for key, value in call.arguments.items()}
            call = replace(call, arguments=arguments)
        self.calls.append(call)

    def _cast(self, value: Any, wanted: ScalarType, pair: Sequence[ScalarType | None]) -> Any:
        if isinstance(value, list):
            return [self._cast(item, wanted, pair) for item in value]
        meta = self.values.get(value) if isinstance(value, Ref) else None
        if meta is None or meta.dtype == wanted or meta.dtype not in pair:
            return value
        name = self._free(f"{value}_cast")
        self.values[name] = Meta(wanted, meta.sizes, meta.strides)
        self.calls.append(_call("_to_copy", [name], self=value, dtype=wanted))
        return Ref(name)

    # ------------------------------------------------------------------ regions of vmap

    def _add_vmap(self, calls: Sequence[Call], begin: int, names: dict[str, Any], depth: int) -> int:
        """Add a call of ``map_impl`` for the calls of a region; return the position after it.

        Raises:
            UnsupportedOp: If the region has no end, or no batched values.
        """
        nested, position = 1, begin
        while position < len(calls) and nested:
            mark = calls[position].target.removeprefix(_VMAP)
            nested += {"_vmap_increment_nesting": 1, "_vmap_decrement_nesting": -1}.get(mark, 0)
            position += 1
        region = [self._renamed(call, names) for call in calls[begin : position - 1]]
        level = next((_listed(call)[2] for call in region if call.target == f"{_VMAP}_add_batch_dim"), None)
        if nested or level is None:
            raise UnsupportedOp("a region of vmap has a form that is not known")
        inner = CallGraph([], [], [], self.values, self.symbols)
        sequences: list[Any] = []
        results: list[tuple[str, str, int]] = []
        for call in region:
            given = _listed(call)
            mark = call.target.removeprefix(_VMAP)
            if mark == "_add_batch_dim" and given[2] == level:
                sequences.append(self._moved(given[0], given[1]))
                inner.inputs.append(call.outputs[0])
            elif mark == "_remove_batch_dim" and given[1] == level:
                (name,), axis = call.outputs, given[3]
                inner.outputs.append(given[0])
                results.append((name, name if axis == 0 else self._rows(name, axis), axis))
            else:
                inner.calls.append(call)
        made = {*inner.inputs, *(output for call in inner.calls for output in call.outputs)}
        reads = [ref for ref in dict.fromkeys(_reads(inner)) if ref not in made]
        inner.inputs += map(str, reads)
        arguments = {"arg0": inlined(inner), "arg1": sequences, "arg2": reads}
        self.calls.append(Call("higher_order.map_impl", arguments, [rows for _, rows, _ in results]))
        for name, rows, axis in results:
            if axis:
                back = {"source": 0, "destination": axis}
                self.calls.append(_call("movedim.int", [name], self=Ref(rows), **back))
        return position

    def _rows(self, name: str, axis: int) -> str:
        """Return a name for a value that has an axis of another in front."""
        made, meta = self._free(f"{name}_rows"), self.values.get(name)
        if meta is not None:
            sizes = list(meta.sizes)
            sizes.insert(0, sizes.pop(axis))
            self.values[made] = Meta(meta.dtype, tuple(sizes))
        return made

    def _moved(self, value: Any, axis: int) -> Any:
        """Return a value with an axis in front."""
        meta = self.values.get(value) if isinstance(value, Ref) else None
        if meta is None or axis % len(meta.sizes) == 0:
            return value
        rows = self._rows(value, axis)
        self.calls.append(_call("movedim.int", [rows], self=value, source=axis, destination=0))
        return Ref(rows)


def _listed(call: Call) -> list[Any]:
    return [*call.arguments.values(), *(None for _ in range(4))]


def _reads(graph: CallGraph) -> Iterator[Ref]:
    for call in graph.calls:
        yield from call.refs()
    yield from (output for output in graph.outputs if isinstance(output, Ref))


def _call(name: str, outputs: list[str], **arguments: Any) -> Call:
    """Return a call of an operator of ATen, whose other arguments have their defaults."""
    return Call(f"aten.{name}", with_defaults(name, arguments), outputs)


def _operator(name: Any) -> str:
    return str(name).removeprefix("torch.ops.").removesuffix(".default")


def _mutation(call: Call) -> Call:
    """Return the call of an operator of the user that changes tensors, whose new values are results too.

    Raises:
        UnsupportedOp: If it changes a part of a tensor.
    """
    given = dict(call.arguments)
    target = _operator(given.pop("arg0", ""))
    bases = given.pop("_all_bases", [])
    for key in [key for key in given if key.endswith("_base_index")]:
        name = key[1 : -len("_base_index")]
        index = given.pop(key)
        given[name] = None if index is None else bases[index]
    if any(key.startswith("_") and key.endswith(("_slice_dim", "_size", "_stride")) for key in given):
        raise UnsupportedOp(f"{target} changes a part of a tensor, which has no functional form")
    given = {key: value for key, value in given.items() if not key.endswith("_alias")}
    return replace(call, target=target, arguments=given)


def _effect(call: Call) -> Call:
    """Return the call of an operator with a side effect, without the token that keeps its place."""
    _, operator, *operands = call.arguments.values()
    target = _operator(operator)
    known = [each.name for each in schema(target.removeprefix("aten.")) or ()]
    keys = [*known, *(f"arg{index}" for index in range(len(known), len(operands)))]
    arguments = dict(zip(keys, operands, strict=False))
    return replace(call, target=target, arguments=arguments, outputs=call.outputs[1:])


__all__ = ["inlined"]
