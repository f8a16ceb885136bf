"""Ops and graphs.

A graph changes only through its verbs, which keep producers and use lists consistent.  Ops are the links
of a list, so that inserting and removing cost the same in graphs of any size.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, overload

from xdlc.errors import ModelError
from xdlc.ir.names import FreeNames
from xdlc.ir.tensor import Param, Role, Tensor
from xdlc.records import record

NATIVE_PACKAGE = "qti.aisw"
HOST_PACKAGE = "xdlc"
_OWN_PACKAGES = (NATIVE_PACKAGE, HOST_PACKAGE, "snpe")  # layers of format 3 are of package snpe


@record(frozen=True)
class Origin:
    """Provenance of an op.

    Attributes:
        nodes: Names of its source nodes.
        reason: Reason for an inserted op, which the source does not have; of a host op, the reason why it is
            one.
    """

    nodes: tuple[str, ...] = ()
    reason: str | None = None

    def merged(self, later: Origin) -> Origin:
        """Return the origin of an op made from two ops."""
        if len(later.nodes) == 1:
            nodes = self.nodes if later.nodes[0] in self.nodes else self.nodes + later.nodes
        else:
            nodes = tuple(dict.fromkeys((*self.nodes, *later.nodes)))
        return Origin(nodes, self.reason or later.reason)


class Op:
    """One operation of a graph.

    Attributes:
        name: Unique in its graph.
        type: Operation type; QNN's name in package ``qti.aisw``.
        package: Op package.
        params: Scalar and tensor parameters by name.
        origin: Source nodes, or the reason for an inserted op.
    """

    __slots__ = (
        "_inputs",
        "_next",
        "_outputs",
        "_previous",
        "graph",
        "name",
        "origin",
        "package",
        "params",
        "type",
    )

    def __init__(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        params: Mapping[str, Param] | None = None,
        *,
        name: str,
        package: str = NATIVE_PACKAGE,
        origin: Origin | None = None,
    ) -> None:
        self.type = type
        self.package = package
        self.name = name
        self.params: dict[str, Param] = dict(params or {})
        self.origin = origin or Origin()
        self.graph: Graph | None = None
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._previous: Op | None = None
        self._next: Op | None = None

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """Input tensors by position; None for an omitted optional input."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Output tensors by position."""
        return tuple(self._outputs)

    @property
    def computed(self) -> list[Tensor]:
        """Inputs that are not static."""
        return [tensor for tensor in self._inputs if tensor is not None and not tensor.is_static]

    @property
    def is_inserted(self) -> bool:
        """Whether the op was inserted: it has a reason and is not a host op."""
        return self.origin.reason is not None and self.package != HOST_PACKAGE

    def twin(self, tensor_of: Callable[[Tensor], Tensor], *, name: str | None = None) -> Op:
        """Return a copy of the op on other tensors, in no graph, with shared parameters.

        Args:
            tensor_of: Returns the counterpart of one of this op's tensors; called for the inputs first.
            name: Name of the other op; default: the same.
        """
        return Op(
            self.type,
            [None if tensor is None else tensor_of(tensor) for tensor in self._inputs],
            [tensor_of(tensor) for tensor in self._outputs],
            self.params,
            name=self.name if name is None else name,
            package=self.package,
            origin=self.origin,
        )

    def param(self, name: str, default: Any = None) -> Any:
        """Return a parameter's plain value: a Python scalar or an array."""
        found = self.params.get(name)
        if found is None:
            return default
        return found.numpy() if isinstance(found, Tensor) else found.value

    def __repr__(self) -> str:
        return f"<{self.package}.{self.type} {self.name!r}>"


def is_udo(op: Op) -> bool:
    """Return whether an op is a UDO: of a package that is not built in."""
    return op.package not in _OWN_PACKAGES


Mark = tuple[Op | None, int]


class OpsView(Sequence[Op]):
    """The current ops of a graph: a sequence that follows its changes.

    An index walks there from the nearer end.
    """

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __iter__(self) -> Iterator[Op]:
        return iter(self._graph.since(None))

    def __reversed__(self) -> Iterator[Op]:
        op = self._graph.last
        while op is not None:
            before = op._previous
            yield op
            op = before

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> list[Op]: ...
    def __getitem__(self, index: int | slice) -> Op | list[Op]:
        if isinstance(index, slice):
            return list(self)[index]
        count = len(self)
        place = operator.index(index) + (count if index < 0 else 0)
        if not 0 <= place < count:
            raise IndexError(f"op {index} of {count}")
        if place < count // 2:
            return next(islice(self, place, None))
        return next(islice(reversed(self), count - 1 - place, None))

    def __contains__(self, op: object) -> bool:
        return isinstance(op, Op) and op.graph is self._graph

    def __repr__(self) -> str:
        return repr(list(self))


class Graph:
    """A list of ops in execution order, and the tensors between them.

    Attributes:
        name: Name of the graph in the container.
        inputs: Graph inputs.
        outputs: Graph outputs.
        tensors: All tensors by name, in order of appearance.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.tensors: dict[str, Tensor] = {}
        self._uses: dict[Tensor, dict[Op, int]] = {}
        self._op_names: set[str] = set()
        self._first: Op | None = None
        self._last: Op | None = None
        self._count = 0
        self._free_name = FreeNames(self.tensors, self._op_names)

    # ------------------------------------------------------------------ reading

    @property
    def ops(self) -> OpsView:
        """The ops in execution order; an iteration yields those at its start."""
        return OpsView(self)

    @property
    def last(self) -> Op | None:
        """The last op."""
        return self._last

    def since(self, mark: Op | None) -> list[Op]:
        """Return the ops after ``mark``; all ops if it is None."""
        ops, op = [], self._first if mark is None else mark._next
        while op is not None:
            ops.append(op)
            op = op._next
        return ops

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {self._count} ops, {len(self.tensors)} tensors>"

    def consumers(self, tensor: Tensor) -> tuple[Op, ...]:
        """Return the ops that read ``tensor``, each once."""
        return tuple(self._uses.get(tensor, ()))

    def is_output(self, tensor: Tensor) -> bool:
        """Return whether ``tensor`` is a graph output."""
        return tensor.role in (Role.OUTPUT, Role.INPUT_OUTPUT)

    def is_read(self, tensor: Tensor) -> bool:
        """Return whether an op reads ``tensor``, or it is a graph output."""
        return tensor in self._uses or self.is_output(tensor)

    def sole_consumer(self, tensor: Tensor) -> Op | None:
        """Return the only reader of ``tensor``; None for several or a graph output."""
        users = self._uses.get(tensor, {})
        return next(iter(users)) if len(users) == 1 and not self.is_output(tensor) else None

    def unique_name(self, base: str) -> str:
        """Return ``base``, or ``base_N`` if a tensor or op has that name."""
        return self._free_name(base)

    # ------------------------------------------------------------------ building

    def add_tensor(self, tensor: Tensor) -> Tensor:
        """Add a tensor.

        Raises:
            ModelError: If another tensor of the graph has its name.
        """
        held = self.tensors.setdefault(tensor.name, tensor)
        if held is not tensor:
            raise ModelError(f"two tensors are named {tensor.name!r}", where=f"graph {self.name!r}")
        return tensor

    def add_input(self, tensor: Tensor) -> Tensor:
        """Add a graph input."""
        tensor.role = Role.INPUT
        self.inputs.append(self.add_tensor(tensor))
        return tensor

    def add_output(self, tensor: Tensor) -> Tensor:
        """Make a tensor a graph output."""
        self.add_tensor(tensor)
        tensor.role = Role.OUTPUT
        self.outputs.append(tensor)
        return tensor

    def append(self, op: Op) -> Op:
        """Append ``op`` at the end."""
        return self._link(op, self._last, None)

    def insert_before(self, anchor: Op, op: Op) -> Op:
        """Insert ``op`` before ``anchor``."""
        return self._link(op, anchor._previous, anchor)

    def insert_after(self, anchor: Op, op: Op) -> Op:
        """Insert ``op`` after ``anchor``."""
        return self._link(op, anchor, anchor._next)

    def _link(self, op: Op, previous: Op | None, following: Op | None) -> Op:
        if op.name in self._op_names:
            raise ModelError(f"two ops are named {op.name!r}", where=f"graph {self.name!r}")
        for tensor in op._outputs:
            if tensor.producer is not None or tensor.data is not None or tensor.role is Role.INPUT:
                raise ModelError(
                    f"op {op.name!r} writes {tensor.name!r}, which already has a source",
                    where=f"graph {self.name!r}",
                )
        fresh: dict[str, Tensor] = {}
        for touched in (*op._outputs, *op._inputs):
            if touched is None:
                continue
            if self.tensors.get(touched.name, fresh.setdefault(touched.name, touched)) is not touched:
                raise ModelError(f"two tensors are named {touched.name!r}", where=f"graph {self.name!r}")
        self._op_names.add(op.name)
        op.graph, op._previous, op._next = self, previous, following
        if previous is None:
            self._first = op
        else:
            previous._next = op
        if following is None:
            self._last = op
        else:
            following._previous = op
        self._count += 1
        for tensor in op._outputs:
            self.add_tensor(tensor).producer = op
        for source in op._inputs:
            self._use(source, op)
        return op

    def _use(self, tensor: Tensor | None, op: Op) -> None:
        if tensor is not None:
            self.add_tensor(tensor)
            users = self._uses.setdefault(tensor, {})
            users[op] = users.get(op, 0) + 1

    def _drop_use(self, tensor: Tensor | None, op: Op) -> None:
        if tensor is None:
            return
        users = self._uses[tensor]
        users[op] -= 1
        if not users[op]:
            del users[op]
        if not users:
            del self._uses[tensor]

    # ------------------------------------------------------------------ changing

    def remove(self, op: Op) -> None:
        """Remove ``op`` and its outputs, which must have no reader."""
        for tensor in op._outputs:
            if self.is_read(tensor):
                raise ModelError(
                    f"op {op.name!r} cannot be removed: another op reads {tensor.name!r}",
                    where=f"graph {self.name!r}",
                )
        self.unlink(op)
        for tensor in op._outputs:
            del self.tensors[tensor.name]

    def discard(self, op: Op) -> bool:
        """Remove ``op`` if its outputs have no reader; return whether that is so."""
        is_unread = not any(map(self.is_read, op._outputs))
        if is_unread:
            self.remove(op)
        return is_unread

    def unlink(self, op: Op) -> None:
        """Remove ``op`` but keep its outputs for a replacement."""
        if op._previous is None:
            self._first = op._next
        else:
            op._previous._next = op._next
        if op._next is None:
            self._last = op._previous
        else:
            op._next._previous = op._previous
        self._op_names.discard(op.name)
        self._count -= 1
        for tensor in op._outputs:
            tensor.producer = None
        for source in op._inputs:
            self._drop_use(source, op)
        op.graph = op._previous = op._next = None

    def replace(self, old: Tensor, new: Tensor, readers: Iterable[Op] | None = None) -> None:
        """Make readers read ``new``; if all do, ``old`` must not be a graph output."""
        if readers is None and self.is_output(old):
            raise ModelError(f"{old.name!r} is a graph output", where=f"graph {self.name!r}")
        if old is new:
            return
        for op in self.consumers(old) if readers is None else readers:
            self.set_inputs(op, [new if tensor is old else tensor for tensor in op._inputs])

    def bypass(self, op: Op) -> bool:
        """Remove an op equal to its first input, unless it copies input to output."""
        source, result = op._inputs[0], op._outputs[0]
        if source is None:
            return False
        if not self.is_output(result):
            self.replace(result, source)
            self.remove(op)
            return True
        producer = source.producer
        if producer is None or self.is_output(source):
            return False
        self.unlink(op)
        self.replace(source, result)
        self.set_output(producer, producer.outputs.index(source), result)
        return True

    def replace_op(self, old: Op, new: Op) -> Op:
        """Replace ``old`` by ``new``, which may have outputs of ``old``."""
        anchor = old._next
        self.unlink(old)
        taken = set(new._outputs)
        for tensor in old._outputs:
            if tensor not in taken:
                del self.tensors[tensor.name]
        return self.append(new) if anchor is None else self.insert_before(anchor, new)

    def set_inputs(self, op: Op, inputs: Sequence[Tensor | None]) -> None:
        """Set the inputs of ``op``."""
        for tensor in op._inputs:
            self._drop_use(tensor, op)
        op._inputs = list(inputs)
        for tensor in op._inputs:
            self._use(tensor, op)

    def set_output(self, op: Op, index: int, tensor: Tensor) -> None:
        """Make ``tensor``, which must have no producer, output ``index`` of ``op``."""
        if tensor.producer is not None or tensor.is_static or tensor.role is Role.INPUT:
            raise ModelError(f"{tensor.name!r} already has a source", where=f"graph {self.name!r}")
        old = op._outputs[index]
        op._outputs[index] = self.add_tensor(tensor)
        old.producer = None
        tensor.producer = op
        if not self.is_read(old):
            self.tensors.pop(old.name, None)

    def rename(self, tensor: Tensor, name: str) -> None:
        """Rename a tensor; the name must be free."""
        if name in self.tensors:
            raise ModelError(f"two tensors would be named {name!r}", where=f"graph {self.name!r}")
        del self.tensors[tensor.name]
        self.tensors[name] = tensor
        tensor.name = name

    def rename_op(self, op: Op, name: str) -> None:
        """Rename an op and its tensor parameters; the name must be free."""
        if name in self._op_names:
            raise ModelError(f"two ops would be named {name!r}", where=f"graph {self.name!r}")
        self._op_names.discard(op.name)
        self._op_names.add(name)
        self._free_name.release(op.name)
        op.name = name
        for key, param in op.params.items():
            if isinstance(param, Tensor):
                param.name = f"{name}_{key}"

    def supersede(self, old: Tensor, new: Tensor) -> None:
        """Rename ``new`` to the static tensor ``old``, and remove that if unread."""
        if old is not new and old.is_static and not self._uses.get(old):
            name = old.name
            del self.tensors[name]
            self.rename(new, name)

    def mark(self) -> Mark:
        """Return the current state, for ``retract``."""
        return self._last, len(self.tensors)

    def retract(self, mark: Mark) -> None:
        """Remove everything appended since ``mark``, and free its names.

        Ops must have been appended at the end only, and no earlier op may read their outputs.
        """
        last, count = mark
        while self._last is not None and self._last is not last:
            op = self._last
            self.remove(op)
            for name in (op.name, *(tensor.name for tensor in op._outputs)):
                self._free_name.release(name)
        for tensor in list(islice(reversed(self.tensors.values()), max(len(self.tensors) - count, 0))):
            if tensor.is_static and not self._uses.get(tensor):
                del self.tensors[tensor.name]
                self._free_name.release(tensor.name)

    def prune(self) -> bool:
        """Remove unused ops and tensors; return whether there were any."""
        before = self._count, len(self.tensors)
        op = self._last
        while op is not None:
            previous = op._previous
            self.discard(op)
            op = previous
        for name, tensor in list(self.tensors.items()):
            if not (tensor.producer or self._uses.get(tensor) or tensor.role in (Role.INPUT, Role.OUTPUT)):
                del self.tensors[name]
        return before != (self._count, len(self.tensors))

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[Any, ...]]:
        """Return a flat description for pickle and deepcopy: ops may be a million."""
        numbers: dict[Tensor | None, int | None] = {None: None}
        numbers |= {tensor: number for number, tensor in enumerate(self.tensors.values())}
        ops = [
            (
                op.type,
                [numbers[tensor] for tensor in op._inputs],
                [numbers[tensor] for tensor in op._outputs],
                {
                    key: replace(param, producer=None) if isinstance(param, Tensor) else param
                    for key, param in op.params.items()
                },
                op.name,
                op.package,
                op.origin,
            )
            for op in self.ops
        ]
        tensors = [replace(tensor, producer=None) for tensor in self.tensors.values()]
        ends = [[numbers[tensor] for tensor in side] for side in (self.inputs, self.outputs)]
        return _rebuilt, (self.name, tensors, *ends, ops)

    def clone(self) -> Graph:
        """Return a copy with its own ops and tensors; static data is shared, not copied."""
        rebuild, description = self.__reduce__()
        return rebuild(*description)

    def verify(self) -> None:
        """Check that every op reads tensors that exist before it.

        Raises:
            ModelError: Naming the op and the tensor.
        """
        ready = {tensor for tensor in self.tensors.values() if tensor.producer is None}
        for tensor in ready:
            if not tensor.is_static and tensor.role not in (Role.INPUT, Role.INPUT_OUTPUT, Role.NULL):
                raise ModelError(
                    f"tensor {tensor.name!r} is read, but no op produces it", where=f"graph {self.name!r}"
                )
        for op in self.ops:
            for source in op._inputs:
                if source is not None and source not in ready:
                    raise ModelError(
                        f"op {op.name!r} reads {source.name!r}, but no earlier op writes this tensor",
                        where=f"graph {self.name!r}",
                        fix="put producers before their readers, and remove cycles",
                    )
            ready.update(op._outputs)


def _rebuilt(
    name: str,
    tensors: Sequence[Tensor],
    inputs: Sequence[int],
    outputs: Sequence[int],
    ops: Iterable[tuple[Any, ...]],
) -> Graph:
    """Return the graph of a description that ``Graph.__reduce__`` returned."""
    graph = Graph(name)
    for tensor in tensors:
        graph.add_tensor(tensor)
    graph.inputs = [tensors[number] for number in inputs]
    graph.outputs = [tensors[number] for number in outputs]
    for kind, reads, writes, params, op_name, package, origin in ops:
        read = [None if number is None else tensors[number] for number in reads]
        written = [tensors[number] for number in writes]
        graph.append(Op(kind, read, written, params, name=op_name, package=package, origin=origin))
    return graph


def make_op(
    graph: Graph,
    type: str,
    inputs: Iterable[Tensor | None],
    outputs: Iterable[Tensor],
    params: Mapping[str, Param] | None = None,
    *,
    name: str | None = None,
    package: str = NATIVE_PACKAGE,
    origin: Origin | None = None,
) -> Op:
    """Return an op, not yet linked, whose name is free in ``graph``.

    Tensor parameters are renamed ``<op name>_<param>``, as the vendor's writer does.
    """
    name = graph.unique_name(name or type)
    op = Op(type, list(inputs), list(outputs), params, name=name, package=package, origin=origin)
    for key, param in op.params.items():
        if isinstance(param, Tensor):
            param.name = f"{op.name}_{key}"
    return op
