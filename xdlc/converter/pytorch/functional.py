"""Functional form of graphs of calls: operators that change tensors become new values.

A tensor is a root or a view of one: the root's storage with the calls that lead to the view.  An operator
that changes a tensor is replaced by its functional form, whose result is written back through the calls
to the root; views that are read later are made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, renamed
from xdlc.converter.pytorch.carrying import carried, origins
from xdlc.converter.pytorch.inlining import inlined
from xdlc.converter.pytorch.schemas import functional_name, schema, with_defaults
from xdlc.converter.pytorch.views import (
    Step,
    Storage,
    Tensor,
    inverse,
    is_view,
    part,
    strided_source,
    viewed_argument,
)
from xdlc.errors import UnsupportedOp, XdlcError

_MOST_STEPS = 64
_MOST_VALUES = 1 << 16
_COPY = "change a copy of it: call clone() before"
_UNKNOWN = "whether a tensor that is changed is a view or a copy of another one depends on its strides"
_RANDOM = frozenset(
    ["bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_"]
)


@dataclass(slots=True)
class Functional:
    """A graph in functional form.

    Attributes:
        graph: The graph.
        written: Value at the end by the name of an input that is changed, or of a value of a graph around.
        passed: Positions of the outputs that are inputs, or values of a graph around, or views of these.
    """

    graph: CallGraph
    written: dict[str, str] = field(default_factory=dict)
    passed: frozenset[int] = frozenset()


def functional(graph: CallGraph) -> Functional:
    """Return a graph in functional form.

    Raises:
        UnsupportedOp: If a tensor is changed in a way that has no functional form.
    """
    return _functional(inlined(graph), None)


def _functional(graph: CallGraph, outer: _Walk | None) -> Functional:
    walk = _Walk(graph, outer)
    for call in graph.calls:
        try:
            walk.add(call)
        except XdlcError as error:
            error.where = error.where or f"call {next(filter(None, call.outputs), '')!r} ({call.target})"
            raise
    outputs = [Ref(walk.read(item)) if isinstance(item, Ref) else item for item in graph.outputs]
    written = {name: walk.read(name) for name in walk.changed()}
    passed = walk.passed(graph.outputs) if outer is not None else frozenset()
    return Functional(replace(graph, outputs=outputs, calls=walk.calls, values=walk.values), written, passed)


def _names(graph: CallGraph) -> set[str]:
    """Return the names of all values of a graph and of the graphs inside it."""
    found = {*graph.values, *graph.inputs, *graph.symbols}
    for call in graph.calls:
        found.update(call.outputs)
        for value in call.arguments.values():
            found |= _names(value) if isinstance(value, CallGraph) else set()
    return found


class _Walk:
    """Walk over the calls of a graph in the order in which they run.

    Args:
        graph: The graph.
        outer: The walk over the graph around.
    """

    def __init__(self, graph: CallGraph, outer: _Walk | None) -> None:
        self.calls: list[Call] = []
        self.values: dict[str, Meta] = dict(graph.values)
        self._outer = outer
        self._tensors: dict[str, Tensor] = {}
        self._taken: set[str] = outer._taken if outer is not None else _names(graph)
        self._numbers = self._count = 0
        self._bases: dict[str, str] = {}
        for name in graph.inputs:
            self._tensors[name] = Tensor(Storage(name, name), (), name)

    def changed(self) -> list[str]:
        """Return the names of inputs, and of values of the graphs around, that have other values now."""
        roots = (tensor.storage for name, tensor in self._tensors.items() if name == tensor.storage.root)
        made = {output for call in self.calls for output in call.outputs}
        return [storage.root for storage in roots if storage.version and storage.root not in made]

    def passed(self, outputs: Sequence[Any]) -> frozenset[int]:
        """Return the positions of tensors that share elements with inputs, or values of a graph around."""
        made = {output for call in self.calls for output in call.outputs}
        storages = [self._tensor(item).storage if isinstance(item, Ref) else None for item in outputs]
        return frozenset(
            index for index, each in enumerate(storages) if each and (each.is_passed or each.root not in made)
        )

    def _tensor(self, name: str) -> Tensor:
        """Return a tensor; one that the graph does not make is of a graph around."""
        if name not in self._tensors:
            value = name
            if self._outer is not None:
                value = self._outer.read(name)
                meta = self._outer.values.get(value)
                if meta is not None:
                    self.values.setdefault(value, meta)
            self._tensors[name] = Tensor(Storage(name, value), (), value)
        return self._tensors[name]

    def read(self, name: str) -> str:
        """Return the name of the value that a tensor has now.

        Raises:
            UnsupportedOp: If that is not known.
        """
        tensor = self._tensor(name)
        storage = tensor.storage
        if tensor.version != storage.version:
            doubt = storage.doubt or next((step.doubt for step in tensor.steps if step.doubt), "")
            if doubt:
                raise UnsupportedOp(doubt, fix=_COPY)
            value = storage.value
            for step in tensor.steps:
                value = self._again(step, value)
            tensor.value, tensor.version = value, storage.version
        return tensor.value

    def add(self, call: Call) -> None:
        """Add a call in functional form."""
        space, _, name = call.target.partition(".")
        arguments = schema(name) if space == "aten" else None
        written = [each.name for each in arguments or () if each.is_written]
        if written and call.arguments.get("training", True) is not False:
            self._change(call, name, written)
        elif any(isinstance(value, CallGraph) for value in call.arguments.values()):
            self._add_graphs(call)
        elif not any(call.outputs) and space not in ("aten", "higher_order"):
            raise UnsupportedOp(
                f"{call.target} returns nothing: it changes arguments, and the program does not state which",
                fix="save program.run_decompositions({}), which states it",
            )
        else:
            if space == "aten" and name.startswith("as_strided"):
                given = call.arguments["self"]
                source = strided_source(call, given, self._tensor(given), self.values)
                call = replace(call, arguments=call.arguments | {"self": Ref(source)})
            made = self._append(call)
            self._add_views(call, made)

    def _append(self, call: Call) -> Call:
        """Add a call of the values that tensors have now; return it."""
        names = {str(ref): self.read(ref) for ref in call.refs()}
        arguments = {key: renamed(value, names) for key, value in call.arguments.items()}
        made = replace(call, arguments=arguments)
        self._emit(made)
        return made

    def _emit(self, call: Call) -> None:
        """Add a call as it is.

        Raises:
            UnsupportedOp: If there are too many values by now.
        """
        self._count += 1 + len(call.outputs)
        if self._count > _MOST_VALUES:
            raise UnsupportedOp(f"has more than {_MOST_VALUES} values in functional form", fix=_COPY)
        self.calls.append(call)

    # ------------------------------------------------------------------ views

    def _add_views(self, call: Call, made: Call) -> None:
        """Note which results of a call are views, of what."""
        argument = viewed_argument(call)
        source = call.arguments.get(argument)
        for index, output in enumerate(call.outputs):
            many = isinstance(source, list) and index < len(source)
            each = source[index] if isinstance(source, list) and many else source
            self._tensors[output] = Tensor(Storage(output, output), (), output)
            if not isinstance(each, Ref):
                continue
            base = self._tensor(each)
            known = is_view(call, self.values.get(base.value), self.values.get(output))
            if known is False:
                continue
            doubt = _UNKNOWN if known is None else ""
            steps = base.steps
            if len(steps) >= _MOST_STEPS:
                steps = steps[:_MOST_STEPS]
                doubt = f"more than {_MOST_STEPS} views of one another, of which one is changed"
            step = Step(made, index, argument, index if many else None, doubt)
            self._tensors[output] = Tensor(base.storage, (*steps, step), output, base.storage.version)

    def _again(self, step: Step, value: str) -> str:
        """Return the result of a call that makes a view, of another value."""
        call, output = step.call, step.call.outputs[step.index]
        form = part(call, step.index, value, self.values)
        if form is not None:
            outputs, target = [self.fresh(output, output)], f"aten.{form[0]}"
            self._emit(replace(call, target=target, arguments=with_defaults(*form), outputs=outputs))
            return outputs[0]
        outputs = [self.fresh(name, name) for name in call.outputs]
        viewed: Any = Ref(value)
        if step.position is not None:
            viewed = list(call.arguments[step.argument])
            viewed[step.position] = Ref(value)
        self._emit(replace(call, arguments=call.arguments | {step.argument: viewed}, outputs=outputs))
        return outputs[step.index]

    def fresh(self, name: str, like: str) -> str:
        """Return a name that is not taken, of a value with the shape and type of another."""
        made = base = self._bases.get(name, name)
        while made in self._taken:
            self._numbers += 1
            made = f"{base}_{self._numbers}"
        self._taken.add(made)
        self._bases[made] = base
        if like in self.values:
            self.values[made] = self.values[like]
        return made

    # ------------------------------------------------------------------ changes

    def _change(self, call: Call, name: str, written: list[str]) -> None:
        """Add the functional form of a call that changes tensors.

        Raises:
            UnsupportedOp: If it has none.
        """
        operator, plain = name.partition(".")[0], functional_name(name)
        if operator in _RANDOM:
            raise UnsupportedOp("its result is random", fix="export the network for inference")
        target = call.arguments.get(written[0])
        forms = schema(plain)
        if not isinstance(target, Ref) or len(written) > 1 or forms is None or plain == name:
            problem = f"{name} changes {', '.join(written)}, which has no functional form"
            fix = "call convert_pt2e(model) before the export" if "obs_f" in name else _COPY
            raise UnsupportedOp(problem, fix=fix)
        if plain in ("detach", "requires_grad"):
            self._tensors.update((output, self._tensor(target)) for output in call.outputs)
            return
        names = {forms[0].name: call.arguments[written[0]]}
        names |= {key: value for key, value in call.arguments.items() if key != written[0]}
        if any(each.is_viewed for each in forms):
            self._reshape(replace(call, target=f"aten.{plain}", arguments=names), target)
            self._tensors.update((output, self._tensor(target)) for output in call.outputs)
            return
        made = self.fresh(target, self._tensor(target).value)
        self._append(replace(call, target=f"aten.{plain}", arguments=names, outputs=[made]))
        self._write(target, made)
        self._tensors.update((output, self._tensor(target)) for output in call.outputs)

    def _reshape(self, call: Call, target: str) -> None:
        """Add a call that turns a tensor itself into a view, as ``squeeze_`` does."""
        tensor = self._tensor(target)
        like = next(iter(call.outputs), target)
        name = self.fresh(like, like)
        call = replace(call, outputs=[name])
        made = self._append(call)
        step = Step(made, 0, viewed_argument(call))
        tensor.steps, tensor.value = (*tensor.steps, step), name

    def _write(self, name: str, value: str) -> None:
        """Let a tensor have another value, and the storage that it is a view of."""
        tensor = self._tensor(name)
        storage, made = tensor.storage, value
        if storage.is_passed:
            raise UnsupportedOp(
                f"{name!r} is changed, and may be an operand of the call that returns it", fix=_COPY
            )
        doubt = next((step.doubt for step in tensor.steps if step.doubt), "")
        if doubt:
            storage.doubt = doubt
        else:
            befores = [storage.value]
            for step in tensor.steps[:-1]:
                befores.append(self._again(step, befores[-1]))
            for step, before in zip(reversed(tensor.steps), reversed(befores), strict=False):
                made = self._written_back(step, before, made)
            storage.value = made
        storage.version += 1
        tensor.value, tensor.version = value, storage.version

    def _written_back(self, step: Step, before: str, value: str) -> str:
        """Return what a tensor becomes where its view is given another value."""
        form = inverse(step.call, step.index, before, value, self.values)
        if form is None:
            return value
        made = self.fresh(before, before)
        arguments = with_defaults(*form)
        self._emit(replace(step.call, target=f"aten.{form[0]}", arguments=arguments, outputs=[made]))
        return made

    # ------------------------------------------------------------------ graphs inside

    def _add_graphs(self, call: Call) -> None:
        """Add a call that runs graphs; tensors of this graph that they change become results.

        Raises:
            UnsupportedOp: If they change a tensor in a way that has no functional form.
        """
        given = {key: value for key, value in call.arguments.items() if isinstance(value, CallGraph)}
        inner = {key: _functional(value, self) for key, value in given.items()}
        names = sorted(
            {each for key in inner for each in origins(call, given[key], inner[key].written).values()}
        )
        made = self._append(call)
        results = {outside: self.fresh(outside, self.read(outside)) for outside in names}
        graphs = {key: each.graph for key, each in inner.items()}
        written = {key: each.written for key, each in inner.items()}
        self.calls[-1] = replace(made, arguments=made.arguments | graphs)
        if names:
            self.calls[-1] = carried(call, made, graphs, written, results, self.read)
        for index, output in enumerate(call.outputs):
            is_passed = any(index in each.passed for each in inner.values())
            self._tensors[output] = Tensor(Storage(output, output, is_passed=is_passed), (), output)
        for outside, result in results.items():
            storage = self._tensor(outside).storage
            if any(ref != outside and self._tensor(ref).storage is storage for ref in call.refs()):
                raise UnsupportedOp(f"a graph inside changes {outside!r}, and reads a view of it", fix=_COPY)
            self._write(outside, result)
