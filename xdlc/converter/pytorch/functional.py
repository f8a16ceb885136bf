"""Functional form of graphs of calls: operators that change tensors become new values.

A tensor is a root or a view of one: the root's storage with the calls that lead to the view.  An operator
that changes a tensor is replaced by its functional form, whose result is written back through the calls
to the root; views that are read later are made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, refs, renamed
from xdlc.converter.pytorch.inlining import inlined
from xdlc.converter.pytorch.schemas import schema
from xdlc.errors import UnsupportedOp

_SAME = frozenset(
    """
    alias contiguous detach lift lift_fresh requires_grad view_as positive resolve_conj resolve_neg
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Views with the shape of what they view: written to as they are."""
_RESHAPES = frozenset(
    ["view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "_unsafe_view", "_reshape_alias"]
)
"""Views with the elements of what they view, in the same order."""
_FROM_THE_START = _SAME | _RESHAPES | {"expand", "permute", "swapaxes", "swapdims", "t", "transpose"}
"""Views whose first element is that of what they view."""
_SCATTERS = {
    "select": ("select_scatter", ("dim", "index")),
    "slice": ("slice_scatter", ("dim", "start", "end", "step")),
    "diagonal": ("diagonal_scatter", ("offset", "dim1", "dim2")),
    "as_strided": ("as_strided_scatter", ("size", "stride", "storage_offset")),
}
"""Operators that write a part of a tensor back, with the arguments that they share with the view."""
_MOST_STEPS = 64
_MOST_CALLS = 1 << 17


@dataclass(slots=True)
class _Storage:
    """A tensor that owns its elements.

    Attributes:
        root: Its first name.
        value: Name of the value that it has now.
        version: How often it has been changed.
    """

    root: str
    value: str
    version: int = 0


@dataclass(slots=True)
class _Step:
    """A call that makes a view, and which of its results that is."""

    call: Call
    index: int


@dataclass(slots=True)
class _Tensor:
    """A tensor: a view of a storage, or all of it.

    Attributes:
        storage: The storage.
        steps: Calls from the root to the view.
        value: Name of the value that holds it.
        version: Version of the storage that the value is of.
    """

    storage: _Storage
    steps: tuple[_Step, ...]
    value: str
    version: int = 0


@dataclass(slots=True)
class Functional:
    """A graph in functional form.

    Attributes:
        graph: The graph.
        written: Value at the end by the name of an input that is changed.
    """

    graph: CallGraph
    written: dict[str, str] = field(default_factory=dict)


def functional(graph: CallGraph) -> Functional:
    """Return a graph in functional form.

    Raises:
        UnsupportedOp: If a tensor is changed in a way that has no functional form.
    """
    graph = inlined(graph)
    walk = _Walk(graph)
    for call in graph.calls:
        walk.add(call)
    outputs = [Ref(walk.read(item)) if isinstance(item, Ref) else item for item in graph.outputs]
    written = {name: walk.read(name) for name in graph.inputs if walk.is_changed(name)}
    return Functional(replace(graph, outputs=outputs, calls=walk.calls, values=walk.values), written)


class _Walk:
    """Walk over the calls of a graph in the order in which they run."""

    def __init__(self, graph: CallGraph) -> None:
        self.calls: list[Call] = []
        self.values: dict[str, Meta] = dict(graph.values)
        self._tensors: dict[str, _Tensor] = {}
        self._taken = {*graph.values, *graph.inputs}
        self._numbers = 0
        for name in graph.inputs:
            self._tensors[name] = _Tensor(_Storage(name, name), (), name)

    def is_changed(self, name: str) -> bool:
        """Return whether a tensor has another value than its name states."""
        return self._tensors[name].storage.version > 0

    def read(self, name: str) -> str:
        """Return the name of the value that a tensor has now."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return name  # captured from the graph around
        if tensor.version != tensor.storage.version:
            value = tensor.storage.value
            for step in tensor.steps:
                value = self._again(step, value)
            tensor.value, tensor.version = value, tensor.storage.version
        return tensor.value

    def add(self, call: Call) -> None:
        """Add a call in functional form."""
        if len(self.calls) > _MOST_CALLS:
            raise UnsupportedOp(f"takes more than {_MOST_CALLS} calls in functional form")
        space, _, name = call.target.partition(".")
        arguments = schema(name) if space == "aten" else None
        written = [each.name for each in arguments or () if each.is_written]
        if written:
            self._change(call, written)
            return
        if not any(call.outputs) and space not in ("aten", "higher_order"):
            raise UnsupportedOp(
                f"{call.target} returns nothing: it changes arguments, and the program does not state which",
                where=f"call of {call.target}",
                fix="save program.run_decompositions({}), which states it",
            )
        inner = {
            key: self._inner(value) for key, value in call.arguments.items() if isinstance(value, CallGraph)
        }
        if space == "aten" and name.startswith("as_strided"):
            call = replace(call, arguments=call.arguments | {"self": self._storage_of(call)})
        names = {str(ref): self.read(ref) for ref in call.refs()}
        made = replace(call, arguments={k: renamed(v, names) for k, v in call.arguments.items()} | inner)
        self.calls.append(made)
        viewed = next((each.name for each in arguments or () if each.is_viewed), "")
        source = call.arguments.get(viewed)
        base = self._tensors.get(source) if isinstance(source, Ref) else None
        for index, output in enumerate(call.outputs):
            if base is None or not self._is_view(call, str(source)):
                self._tensors[output] = _Tensor(_Storage(output, output), (), output)
                continue
            steps = (*base.steps, _Step(made, index))
            if len(steps) > _MOST_STEPS:
                self._tensors[output] = _Tensor(_Storage(output, output), (), output)
                continue
            self._tensors[output] = _Tensor(base.storage, steps, output, base.storage.version)

    def _inner(self, graph: CallGraph) -> CallGraph:
        made = functional(graph)
        if made.written:
            raise UnsupportedOp(f"a graph inside changes its input {next(iter(made.written))!r}")
        return made.graph

    def _storage_of(self, call: Call) -> Ref:
        """Return the tensor whose elements, in order, are the storage that a strided view looks at.

        Raises:
            UnsupportedOp: If no tensor has them in that order.
        """
        given: Ref = call.arguments["self"]
        tensor = self._tensors.get(given)
        names = {step.call.target.split(".")[1] for step in tensor.steps} if tensor is not None else set()
        keeps = names <= _SAME | _RESHAPES
        if tensor is not None and call.target != "aten.as_strided_scatter":
            keeps = call.arguments.get("storage_offset") is not None or names <= _FROM_THE_START
            given = Ref(tensor.storage.root) if keeps else given
        if not keeps or not _is_in_order(self.values.get(given)):
            raise UnsupportedOp(
                f"{call.target.partition('.')[2]} looks at the memory of a tensor that is not contiguous",
                where=f"call of {call.target}",
                fix="take the elements by slices or indices instead",
            )
        return given

    def _is_view(self, call: Call, source: str) -> bool:
        """Return whether the result of an operator that may copy is a view."""
        name = call.target.split(".")[1]
        if name == "to":
            before, after = self.values.get(source), self.values.get(call.outputs[0])
            same = before is None or after is None or before.dtype == after.dtype
            return same and not call.arguments.get("copy", False)
        return True

    def _again(self, step: _Step, value: str) -> str:
        """Return the result of a call that makes a view, of another value."""
        call = step.call
        viewed = next(each.name for each in schema(call.target.partition(".")[2]) or () if each.is_viewed)
        outputs = [self.fresh(name, name) for name in call.outputs]
        arguments = call.arguments | {viewed: Ref(value)}
        self.calls.append(replace(call, arguments=arguments, outputs=outputs))
        return outputs[step.index]

    def fresh(self, name: str, like: str) -> str:
        """Return a name that is not taken, of a value with the shape and type of another."""
        made = name
        while made in self._taken:
            self._numbers += 1
            made = f"{name}_{self._numbers}"
        self._taken.add(made)
        if like in self.values:
            self.values[made] = self.values[like]
        return made

    def _change(self, call: Call, written: list[str]) -> None:
        """Add the functional form of a call that changes tensors.

        Raises:
            UnsupportedOp: If it has none.
        """
        name = call.target.partition(".")[2]
        operator, dot, overload = name.partition(".")
        plain = operator.removesuffix("_") + dot + overload
        target = call.arguments.get(written[0])
        if not isinstance(target, Ref) or len(written) > 1 or not operator.endswith("_"):
            fix = "call convert_pt2e(model) before the export" if "obs_f" in name else None
            raise UnsupportedOp(f"{name} changes {', '.join(written)}, which has no functional form", fix=fix)
        if operator in ("detach_", "requires_grad_"):
            self._tensors.update((output, self._tensors[target]) for output in call.outputs)
            return
        forms = schema(plain)
        names = {str(ref): self.read(ref) for ref in call.refs()}
        arguments: dict[str, Any] = {k: renamed(v, names) for k, v in call.arguments.items()}
        if forms is None or any(each.is_viewed for each in forms):  # squeeze_ and the like change the shape
            raise UnsupportedOp(f"{name} has no functional form")
        made = self.fresh(target, target)
        self.calls.append(replace(call, target=f"aten.{plain}", arguments=arguments, outputs=[made]))
        self._write(call, target, made)
        for output in call.outputs:
            self._tensors[output] = self._tensors[target]

    def _write(self, call: Call, name: str, value: str) -> None:
        """Let a tensor have another value, and the storage that it is a view of."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise UnsupportedOp(f"changes {name!r}, which a graph around has")
        storage, made = tensor.storage, value
        befores = [storage.value]
        for step in tensor.steps[:-1]:
            befores.append(self._again(step, befores[-1]))
        for step, before in zip(reversed(tensor.steps), reversed(befores), strict=False):
            made = self._inverse(call, step, before, made)
        storage.value = made
        storage.version += 1
        tensor.value, tensor.version = value, storage.version

    def _inverse(self, call: Call, step: _Step, before: str, value: str) -> str:
        """Return what a tensor becomes where its view is given another value.

        Args:
            call: The call that changes the view.
            step: The call that made the view.
            before: The tensor that is viewed.
            value: The view's new value.

        Raises:
            UnsupportedOp: If that cannot be expressed.
        """
        view = step.call
        name, given = view.target.split(".")[1], view.arguments
        if name in _SAME or name == "to":
            return value
        meta = self.values.get(before)
        rank = len(meta.sizes) if meta is not None else 0
        form: tuple[str, dict[str, Any]] | None = None
        if name in _RESHAPES and view.target != "aten.view.dtype":
            form = "view_as", {"self": Ref(value), "other": Ref(before)}
        elif name in _SCATTERS:
            scatter, shared = _SCATTERS[name]
            parts = {key: given[key] for key in shared if key in given}
            form = scatter, {"self": Ref(before), "src": Ref(value), **parts}
        elif name in ("t", "transpose", "swapaxes", "swapdims", "adjoint", "mT"):
            dims = [given.get(key, given.get(other)) for key, other in (("dim0", "axis0"), ("dim1", "axis1"))]
            if rank < 2 and name == "t":
                return value
            first, second = (-2, -1) if dims[0] is None else dims
            form = "transpose.int", {"self": Ref(value), "dim0": first, "dim1": second}
        elif name in ("permute", "numpy_T"):
            order = [axis % rank for axis in given.get("dims", range(rank)[::-1])]
            back = [order.index(axis) for axis in range(rank)]
            form = "permute", {"self": Ref(value), "dims": back}
        elif name in ("split", "split_with_sizes", "chunk", "unbind", "narrow"):
            form = self._part(step, before, value)
        if form is None:
            raise UnsupportedOp(
                f"{call.target.partition('.')[2]} changes a view made by {name}, which has no functional form"
            )
        made = self.fresh(before, before)
        self.calls.append(replace(view, target=f"aten.{form[0]}", arguments=form[1], outputs=[made]))
        return made

    def _part(self, step: _Step, before: str, value: str) -> tuple[str, dict[str, Any]] | None:
        """Return the call that writes a part of a tensor back."""
        view, given = step.call, step.call.arguments
        name, dim = view.target.split(".")[1], given.get("dim", 0)
        base: dict[str, Any] = {"self": Ref(before), "src": Ref(value), "dim": dim}
        if name == "unbind":
            return "select_scatter", base | {"index": step.index}
        if name == "narrow":
            start = given["start"]
            return "slice_scatter", base | {"start": start, "end": start + given["length"]}
        sizes = [self.values[output].sizes[dim] for output in view.outputs]
        if not all(isinstance(size, int) for size in sizes):
            return None
        start = sum(size for size in sizes[: step.index] if isinstance(size, int))
        return "slice_scatter", base | {"start": start, "end": start + int(sizes[step.index])}


def _is_in_order(meta: Meta | None) -> bool:
    """Return whether the elements of a tensor lie in memory as in order, as far as is stated."""
    if meta is None or not meta.strides:
        return True
    step: int | str = 1
    for size, stride in zip(reversed(meta.sizes), reversed(meta.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step = step * size if isinstance(step, int) and isinstance(size, int) else "?"
    return True


__all__ = ["Functional", "functional", "refs"]
