"""Nets of Caffe2 as source graphs: the last writer of a name rules, inputs, outputs.

An init net and its predict net are one program: fills are constants, other operators of the init net are
nodes before those of the predict net.  Caffe2 keeps every blob under a name in its workspace, and operators
overwrite blobs at will.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdlc.converter.caffe2.fills import INT8, MOST_CONSTANT, filled, is_constant
from xdlc.converter.caffe2.inputs import find_inputs, unmade
from xdlc.converter.caffe2.netdef import NetDef, OperatorDef
from xdlc.converter.importer import GraphInput, SourceGraph
from xdlc.converter.session.context import Allowance, Source
from xdlc.converter.session.node import Node
from xdlc.errors import ModelError, UsageError, XdlcError, raise_all
from xdlc.ir import dtype as types

_SECONDS = frozenset(
    """
    Concat DepthConcat Dropout GroupNorm InstanceNorm Int8Concat Int8Reshape LayerNorm LRN Reshape RoIPool
    SpatialBN
    """.split()  # noqa: SIM905 - a list literal would be 12 lines
)
"""Operators whose outputs but the first are for training or for other operators."""
_MOST_TYPOS = 8


@dataclass(frozen=True, slots=True)
class Caffe2Source(Source):
    """A predict net as errors name it, with its init net.

    Attributes:
        init: Name of the file of the init net.
    """

    init: str = ""

    def describe(self, node: Node) -> str:
        """Return the source's own words for a node, which may be of the init net."""
        words = Source.describe(self, node)
        return f"{words} of {self.init}" if node.message is _INIT else words


_INIT = object()
"""Marks the nodes of the init net."""


def source_graph(
    predict: NetDef,
    init: NetDef | None,
    *,
    given: Collection[str],
    stated: Mapping[str, GraphInput],
    ends: Sequence[str] = (),
    notices: list[str],
) -> SourceGraph:
    """Return the graph of a predict net with the tensors that its init net fills.

    Args:
        predict: The predict net.
        init: The init net, if there is one.
        given: Names whose shape or value the user states: inputs, also where the init net fills them.
        stated: Inputs whose shapes a file beside the nets states, by name.
        ends: Values at which the user ends the graph.
        notices: Gets what the user should know.

    Raises:
        XdlcError: Every name without data; several errors make a ProblemList.
    """
    _check_roles(predict, init)
    walk = _Walk(predict, init, find_inputs(predict, init, given, stated, notices))
    if init is not None:
        walk.run(init.ops, _INIT)
    walk.run(predict.ops)
    raise_all(walk.problems, where=str(predict.path))
    outputs = walk.outputs(notices)
    read = {name for node in walk.nodes for name in node.names}.union(outputs, ends)
    constants, spent = {}, Allowance(MOST_CONSTANT)
    for name, op in walk.fills.items():
        if name in read:
            try:
                constants[name] = filled(op, spent)
            except XdlcError as problem:
                walk.problems.append(problem)
    raise_all(walk.problems, where=str(predict.path))
    return SourceGraph(list(walk.inputs.values()), outputs, walk.nodes, constants)


def _check_roles(predict: NetDef, init: NetDef | None) -> None:
    """Refuse nets that are empty or exchanged."""
    if not predict.ops:
        raise ModelError("has no operators", where=str(predict.path), fix="give a net of Caffe2")
    if not predict.has_only_fills:
        if init is not None and init.ops and not any(op.is_fill for op in init.ops):
            problem, fix = "fills no tensor: it is no init net", "give the init net of the same model"
            raise UsageError(problem, where=str(init.path), fix=fix)
        return
    problem = "only fills tensors: it is an init net, not a predict net"
    fix = f"give the predict net, and this one with --exec_net {predict.path}"
    if init is not None and not init.has_only_fills:
        problem = f"is the init net, and {init.path.name} the predict net: they are exchanged"
        fix = f"give {init.path}, and this one with --exec_net {predict.path}"
    raise UsageError(problem, where=str(predict.path), fix=fix)


class _Walk:
    """Walk over the operators in the order in which they run, with the value of each name.

    Attributes:
        inputs: The inputs by name.
        nodes: The nodes.
        fills: Fills by the name of their value.
        problems: Errors.
    """

    def __init__(self, predict: NetDef, init: NetDef | None, inputs: Mapping[str, GraphInput]) -> None:
        self.inputs = inputs
        self.nodes: list[Node] = []
        self.fills: dict[str, OperatorDef] = {}
        self.problems: list[XdlcError] = []
        self._predict = predict
        every = [*(init.ops if init is not None else ()), *predict.ops]
        self._writes = Counter(name for op in every for name in op.outputs)
        self._taken = {*self._writes, *inputs}
        self._done: Counter[str] = Counter()
        self._values = {name: name for name in inputs}
        self._names: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def run(self, ops: Sequence[OperatorDef], mark: object = None) -> None:
        """Add the nodes of operators.

        Args:
            ops: The operators, in their order.
            mark: Mark of the nodes.
        """
        for op in ops:
            if is_constant(op) and op.outputs[0] in self.inputs and mark is _INIT:
                continue  # a stand-in
            reads = [self._value(name, op) for name in op.inputs]
            writes = [self._next(name) for name in op.outputs]
            if is_constant(op) and op.type not in INT8:
                self.fills[writes[0]] = op
                continue
            try:
                attributes = self._attributes(op)
            except XdlcError as problem:
                self.problems.append(problem)
                continue
            own = self._free(op.name or next(iter(writes), op.type), self._names)
            self.nodes.append(Node(op.type, reads, writes, attributes, own, message=mark, line=op.line))

    def _value(self, name: str, op: OperatorDef) -> str:
        """Return the value that a name has now."""
        if name in self._values or not name:
            return self._values.get(name, "")
        if len(self.problems) < _MOST_TYPOS:
            self.problems.append(unmade(name, self._values, op.where))
        return name

    def _next(self, name: str) -> str:
        """Return the name of the value that an operator writes now: the last keeps the blob's name."""
        self._done[name] += 1
        is_last = self._done[name] == self._writes[name] and name not in self.inputs
        value = name if is_last else self._free(name, self._taken)
        self._values[name] = value
        return value

    def _free(self, name: str, taken: set[str]) -> str:
        """Return a name that is not taken yet, numbered if need be, and take it."""
        found = name
        while found in taken:
            self._numbers[name] += 1
            found = f"{name}#{self._numbers[name]}"
        taken.add(found)
        return found

    def _attributes(self, op: OperatorDef) -> dict[str, object]:
        """Return the arguments of an operator as attributes."""
        held: dict[str, object] = {}
        is_int8 = op.type in INT8 and op.is_fill
        for name, argument in op.args.items():
            if is_int8 and name in ("shape", "values"):
                continue
            nets = [_inner(net) for net in argument.nets(self._predict.path)]
            held[name] = (nets[0] if "n" in argument.fields else nets) if nets else argument.value()
        if is_int8:
            held["values"] = filled(op, Allowance(0))
        return held

    def outputs(self, notices: list[str]) -> list[str]:
        """Return the outputs: those that the net states, or else what nothing reads."""
        read = {name for node in self.nodes for name in node.names}
        seconds = {name for node in self.nodes if node.type in _SECONDS for name in node.outputs[1:]}
        stated = list(dict.fromkeys(self._predict.outputs))
        where = f"{self._predict.path}: external_output"
        missing = [name for name in stated if name not in self._values]
        self.problems += [unmade(name, self._values, where) for name in missing[:_MOST_TYPOS]]
        values = {self._values[name]: name for name in stated if name in self._values}
        useless = [value for value in values if value in seconds or value in self.fills]
        if len(useless) < len(values):
            for value in useless:
                why = "the init net fills it" if value in self.fills else "only training uses it"
                notices.append(f"output {values.pop(value)!r} is dropped: {why}")
        if not stated:
            ends = (name for node in self.nodes if node.message is not _INIT for name in node.outputs)
            blobs = {value: name for name, value in self._values.items()}
            unread = (name for name in ends if name not in read and name not in seconds)
            values = {name: blobs[name] for name in unread if name in blobs}
            if not values:
                problem, fix = "no operator computes an output", "give a net for inference"
                self.problems.append(ModelError(problem, where=str(self._predict.path), fix=fix))
        for value, name in values.items():
            if value != name:
                notices.append(f"output {value!r} is blob {name!r}, which has the name of an input")
        return list(values)


def _inner(net: NetDef) -> SourceGraph:
    """Return a net that an operator runs, with everything that it reads as inputs."""
    made = {name for op in net.ops for name in op.outputs}
    reads = dict.fromkeys((*net.inputs, *(name for op in net.ops for name in op.inputs if name not in made)))
    walk = _Walk(net, None, {name: GraphInput(name, types.FLOAT32) for name in reads})
    walk.run(net.ops)
    return SourceGraph(list(walk.inputs.values()), walk.outputs([]), walk.nodes)
