"""Functional form of call graphs: calls inlined, in-place operators as new values.

A tensor is a root or a view of one: the root's storage with the calls that lead to the view.  An operator
that changes a tensor is replaced by its functional form, whose result is written back through the calls
to the root; views that are read later are made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdlc.converter.pytorch.calls import (
    Call,
    CallGraph,
    Meta,
    Ref,
    SymbolRef,
    functional_name,
    renamed,
    schema,
    with_defaults,
)
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.pytorch.views import (
    COPY,
    Step,
    Storage,
    Tensor,
    inverse,
    step_of,
    strided_source,
    viewed_argument,
)
from xdlc.errors import UnsupportedOp, XdlcError
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
"""Calls without effect on values."""


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
    """Walk over calls of a graph, with called graphs that run once inlined.

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
            raise UnsupportedOp(f"xdlc does not support this form of {name}")
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


_MOST_STEPS = 64
_MOST_VALUES = 1 << 16
_OPERANDS = {"cond": ("arg3",), "while_loop": ("arg2", "arg3")}
"""Arguments that inputs of graphs are, by the operator that runs these and may carry further results."""


@dataclass(slots=True)
class Functional:
    """A graph in functional form.

    Attributes:
        written: Value at the end by the name of an input that is changed.
        passed: Positions of the outputs that are inputs, or views of these.
    """

    graph: CallGraph
    written: dict[str, str]
    passed: frozenset[int]


def functional(graph: CallGraph) -> Functional:
    """Return a graph in functional form.

    Raises:
        UnsupportedOp: If a tensor is changed in a way that has no functional form.
    """
    graph = inlined(graph)
    walk = _Walk(graph)
    for call in graph.calls:
        try:
            walk.add(call)
        except XdlcError as error:
            error.where = error.where or f"call {next(filter(None, call.outputs), '')!r} ({call.target})"
            raise
    outputs = [Ref(walk.read(item)) if isinstance(item, Ref) else item for item in graph.outputs]
    passed = frozenset(index for index, item in enumerate(graph.outputs) if walk.passes(item))
    written = {name: walk.read(name) for name in graph.inputs if walk.tensor(name).storage.version}
    return Functional(replace(graph, outputs=outputs, calls=walk.calls, values=walk.values), written, passed)


class _Walk:
    """Walk over the calls of a graph in execution order."""

    def __init__(self, graph: CallGraph) -> None:
        self.calls: list[Call] = []
        self.values: dict[str, Meta] = dict(graph.values)
        self._tensors: dict[str, Tensor] = {}
        self._taken = {*graph.values, *graph.inputs, *graph.symbols}
        self._taken.update(output for call in graph.calls for output in call.outputs)
        self._numbers = self._count = 0
        self._bases: dict[str, str] = {}
        for name in graph.inputs:
            self._tensors[name] = Tensor(Storage(name, name, is_input=True), (), name)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor."""
        if name not in self._tensors:
            raise UnsupportedOp(f"{name!r} is read, but is neither an input of the graph nor computed by it")
        return self._tensors[name]

    def passes(self, output: Any) -> bool:
        """Return whether an output may share elements with an input."""
        storage = self.tensor(output).storage if isinstance(output, Ref) else None
        return storage is not None and (storage.is_input or storage.is_passed)

    def read(self, name: str) -> str:
        """Return the name of the value that a tensor has now.

        Raises:
            UnsupportedOp: If that is not known.
        """
        tensor = self.tensor(name)
        storage = tensor.storage
        if tensor.version != storage.version:
            doubt = storage.doubt or next((step.doubt for step in tensor.steps if step.doubt), "")
            if doubt:
                raise UnsupportedOp(doubt, fix=COPY)
            value = storage.value
            for step in tensor.steps:
                value = self._again(step, value)
            tensor.value, tensor.version = value, storage.version
        return tensor.value

    def add(self, call: Call) -> None:
        """Add a call in functional form."""
        space, _, name = call.target.partition(".")
        written = [each.name for each in schema(name) or () if each.is_written] if space == "aten" else []
        if written and call.arguments.get("training", True) is not False:
            self._change(call, name, written)
        elif any(isinstance(value, CallGraph) for value in call.arguments.values()):
            self._add_graphs(call)
        elif not any(call.outputs) and space not in ("aten", "higher_order"):
            raise UnsupportedOp(
                f"{call.target} returns nothing: it changes arguments that the program does not name",
                fix="save program.run_decompositions({}), which names the tensors",
            )
        else:
            if space == "aten" and name.startswith("as_strided"):
                source = strided_source(call, self.tensor(call.arguments["self"]), self.values)
                call = replace(call, arguments=call.arguments | {"self": source})
            self._add_views(call, self._append(call))

    def _append(self, call: Call) -> Call:
        """Add a call of the values that tensors have now; return it."""
        names = {str(ref): self.read(ref) for ref in call.refs()}
        arguments = {key: renamed(value, names) for key, value in call.arguments.items()}
        return self._emit(replace(call, arguments=arguments))

    def _emit(self, call: Call) -> Call:
        """Add a call unchanged; return it.

        Raises:
            UnsupportedOp: If there are too many values by now.
        """
        self._count += 1 + len(call.outputs)
        if self._count > _MOST_VALUES:
            raise UnsupportedOp(
                f"the program has more than {_MOST_VALUES} values without in-place changes", fix=COPY
            )
        self.calls.append(call)
        return call

    def _operator(self, call: Call, name: str, arguments: Mapping[str, Any], like: str) -> str:
        """Add an operator in place of a call; return its result, typed like ``like``."""
        made, given = self._fresh(like), with_defaults(name, arguments)
        self._emit(replace(call, target=f"aten.{name}", arguments=given, outputs=[made]))
        return made

    def _fresh(self, like: str) -> str:
        """Return a free name for a value with the shape and type of another."""
        name = base = self._bases.get(like, like)
        while name in self._taken:
            self._numbers += 1
            name = f"{base}_{self._numbers}"
        self._taken.add(name)
        self._bases[name] = base
        if like in self.values:
            self.values[name] = self.values[like]
        return name

    # ------------------------------------------------------------------ views

    def _add_views(self, call: Call, functional_call: Call) -> None:
        """Record which results of a call are views, and of which tensor."""
        source: Any = call.arguments.get(viewed_argument(call))
        for index, output in enumerate(call.outputs):
            self._tensors[output] = Tensor(Storage(output, output), (), output)
            viewed = source[min(index, len(source) - 1)] if source and isinstance(source, list) else source
            step = step_of(functional_call, index, self.values) if isinstance(viewed, Ref) else None
            if step is not None:
                base = self.tensor(viewed)
                if len(base.steps) == _MOST_STEPS:
                    step.doubt = f"one of more than {_MOST_STEPS} nested views is changed in place"
                steps = (*base.steps[: _MOST_STEPS - 1], step)
                self._tensors[output] = Tensor(base.storage, steps, output, base.storage.version)

    def _again(self, step: Step, value: str) -> str:
        """Return the result of a view's call applied to another value."""
        arguments = step.call.arguments | {step.argument: Ref(value)}
        made = self._fresh(step.call.outputs[0])
        self._emit(replace(step.call, arguments=arguments, outputs=[made]))
        return made

    # ------------------------------------------------------------------ changes

    def _change(self, call: Call, name: str, written: list[str]) -> None:
        """Add the functional form of a call that changes tensors.

        Raises:
            UnsupportedOp: If it has none.
        """
        plain, target = functional_name(name), call.arguments.get(written[0])
        forms, reason = schema(plain), aten.reason(plain)
        if not isinstance(target, Ref) or len(written) > 1 or forms is None or plain == name or reason:
            problem = reason or f"{name} changes {', '.join(written)} in place, which is not supported"
            fix = "call convert_pt2e(model) before the export" if "obs_f" in name else COPY
            raise UnsupportedOp(problem, fix=fix)
        arguments = {forms[0].name: target}
        arguments |= {key: value for key, value in call.arguments.items() if key != written[0]}
        tensor = self.tensor(target)
        is_view = any(form.is_viewed for form in forms)  # like squeeze_: the tensor itself gets another shape
        result = self._fresh(next(iter(call.outputs), target) if is_view else tensor.value)
        done = self._append(replace(call, target=f"aten.{plain}", arguments=arguments, outputs=[result]))
        if is_view:
            tensor.steps, tensor.value = (*tensor.steps, Step(done, viewed_argument(done))), result
        else:
            self._write(target, result)
        self._tensors.update((output, tensor) for output in call.outputs)

    def _write(self, name: str, value: str) -> None:
        """Set the value of a tensor, and of the storage that it views."""
        tensor = self.tensor(name)
        storage, content = tensor.storage, value
        if storage.is_passed:
            problem = f"{name!r} is changed in place, and may share elements with an operand"
            raise UnsupportedOp(problem, fix=COPY)
        doubt = next((step.doubt for step in tensor.steps if step.doubt), "")
        if doubt:
            storage.doubt = doubt
        else:
            befores = [storage.value]
            for step in tensor.steps[:-1]:
                befores.append(self._again(step, befores[-1]))
            for step, before in zip(reversed(tensor.steps), reversed(befores), strict=False):
                form = inverse(step.call, before, content, self.values)
                content = content if form is None else self._operator(step.call, *form, like=before)
            storage.value = content
        storage.version += 1
        tensor.value, tensor.version = value, storage.version

    # ------------------------------------------------------------------ graphs inside

    def _add_graphs(self, call: Call) -> None:
        """Add a call that runs graphs; operands changed by them become extra results.

        Raises:
            UnsupportedOp: If they change a tensor in a way that has no functional form.
        """
        graphs = {key: value for key, value in call.arguments.items() if isinstance(value, CallGraph)}
        forms = {key: functional(value) for key, value in graphs.items()}
        name, added = call.target.partition(".")[2], self._append(call)
        operands = [item for key in _OPERANDS.get(name, ()) for item in call.arguments.get(key, [])]
        changed = sorted({form.graph.inputs.index(each) for form in forms.values() for each in form.written})
        storages = [self.tensor(ref).storage for ref in call.refs()]
        for index in changed:
            if index >= len(operands) or not isinstance(operands[index], Ref):
                raise UnsupportedOp(f"a graph of {name} changes one of its inputs in place", fix=COPY)
            if storages.count(self.tensor(operands[index]).storage) > 1:
                problem = f"a sub-graph changes {operands[index]!r} in place, and reads a view of it"
                raise UnsupportedOp(problem, fix=COPY)
        results = [self._fresh(self.read(operands[index])) for index in changed]
        arguments = added.arguments | {key: form.graph for key, form in forms.items()}
        if changed:
            arguments = _carried(name, arguments, forms, changed)
        self.calls[-1] = replace(added, arguments=arguments, outputs=[*added.outputs, *results])
        for index, output in enumerate(call.outputs):
            is_passed = any(index in form.passed for form in forms.values())
            self._tensors[output] = Tensor(Storage(output, output, is_passed=is_passed), (), output)
        for index, result in zip(changed, results, strict=True):
            self._write(operands[index], result)
        if any(form.passed for form in forms.values()):
            for storage in storages:
                storage.is_passed = True  # a result may be an operand itself


def _carried(
    name: str, arguments: dict[str, Any], forms: Mapping[str, Functional], changed: list[int]
) -> dict[str, Any]:
    """Return a call's arguments, with graphs extended to return what they change.

    Args:
        name: ``cond`` or ``while_loop``.
        arguments: Arguments of the call, with graphs in functional form.
        changed: Positions of the inputs of the graphs that one of them changes.

    Raises:
        UnsupportedOp: If a loop changes one of its variables, or its condition changes anything.
    """
    carried = dict(arguments)
    variables = len(arguments["arg2"]) if name == "while_loop" else 0
    if name == "while_loop" and (changed[0] < variables or forms["arg0"].written):
        raise UnsupportedOp("a loop changes one of its variables in place", fix=COPY)
    for key, form in forms.items():
        inputs, outputs = form.graph.inputs, form.graph.outputs
        ends = [Ref(form.written.get(inputs[index], inputs[index])) for index in changed]
        if name == "cond":
            carried[key] = replace(form.graph, outputs=[*outputs, *ends])
            continue
        rest = [index for index in range(variables, len(inputs)) if index not in changed]
        order = [*range(variables), *changed, *rest]
        if key == "arg1":
            outputs = [*outputs[:variables], *ends]
            operands = [[*arguments["arg2"], *arguments["arg3"]][index] for index in order]
            carried["arg2"] = operands[: variables + len(changed)]
            carried["arg3"] = operands[variables + len(changed) :]
        carried[key] = replace(form.graph, inputs=[inputs[index] for index in order], outputs=outputs)
    return carried
