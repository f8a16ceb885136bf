"""Nets of Caffe2 as source graphs; the last operator that writes a name wins.

An init net and its predict net are one program: fills are constants, other operators of the init net are
nodes before those of the predict net.  Caffe2 keeps every blob under a name in its workspace, and operators
overwrite blobs at will.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import Any

from xdlc.converter.caffe2.inputs import INT8, MOST_CONSTANT, filled, find_inputs, is_constant
from xdlc.converter.caffe2.netdef import NetDef, OperatorDef
from xdlc.converter.session.context import Allowance, Source
from xdlc.converter.session.node import GraphInput, Node, SourceGraph
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.options import spell

_SECONDS = frozenset(
    """
    Concat DepthConcat Dropout GroupNorm InstanceNorm Int8Concat Int8Reshape LayerNorm LRN Reshape RoIPool
    SpatialBN
    """.split()  # noqa: SIM905 - a list literal would be 12 lines
)
"""Operators whose outputs but the first are for training or for other operators."""
_MOST_OPERATORS = 12_000
_MOST_MISSING = 8
"""Outputs that nothing makes and that are reported."""


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
    named: Collection[str],
    stated: Mapping[str, GraphInput],
    ends: Sequence[str] = (),
    notices: list[str],
) -> SourceGraph:
    """Return the graph of a predict net with the tensors that its init net fills.

    Args:
        init: The init net, if there is one.
        named: Names whose shape or value the user states: inputs, also where the init net fills them.
        stated: Inputs whose shapes a file beside the nets states, by name.
        ends: Values at which the user ends the graph.
        notices: Gets what the user should know.

    Raises:
        XdlcError: If the nets are exchanged or empty, or have no input.
    """
    _check_roles(predict, init)
    inputs, problems = find_inputs(predict, init, named, stated, notices)
    kept = [*inputs, *problems]
    walk = _Walk([*(init.ops if init is not None else ()), *predict.ops], kept)
    if init is not None:
        walk.run((op for op in init.ops if not set(op.outputs) <= set(kept)), _INIT)
    walk.run(predict.ops)
    if len(walk.nodes) > _MOST_OPERATORS:
        problem = f"the net has {len(walk.nodes)} operators; xdlc supports at most {_MOST_OPERATORS}"
        raise ModelError(problem, where=str(predict.path), fix="convert a part of the net")
    outputs = _outputs(predict, walk, notices)
    read = {name for node in walk.nodes for name in node.names}.union(outputs, ends)
    constants, spent = {}, Allowance(MOST_CONSTANT)
    for name in filter(read.__contains__, walk.fills):
        try:
            constants[name] = filled(walk.fills[name], spent)
        except XdlcError as problem:
            problems[name] = problem
    return SourceGraph(list(inputs.values()), outputs, walk.nodes, constants, problems=problems)


def _check_roles(predict: NetDef, init: NetDef | None) -> None:
    """Refuse nets that are empty or exchanged."""
    if not predict.ops:
        raise ModelError("the net has no operators", where=str(predict.path), fix="pass a Caffe2 predict net")
    if not predict.has_only_fills:
        if init is not None and init.ops and not any(op.is_fill for op in init.ops):
            problem, fix = (
                "the file fills no tensor, so it is not an init net",
                "pass the init net of the same model",
            )
            raise UsageError(problem, where=str(init.path), fix=fix)
        return
    problem = "the net only fills tensors, so it is an init net, not a predict net"
    fix = f"pass the predict net, and this net with {spell('weights')} {quote(str(predict.path))}"
    if init is not None and not init.has_only_fills:
        problem = f"you swapped the nets: this file is the init net, and {init.path.name} is the predict net"
        fix = f"pass {init.path}, and this net with {spell('weights')} {quote(str(predict.path))}"
    raise UsageError(problem, where=str(predict.path), fix=fix)


class _Walk:
    """Walk over operators in execution order, with the current value of each name.

    Attributes:
        fills: Fills by the name of their value.
        values: The value that each name has now.

    Args:
        inputs: Names of inputs and missing values, which keep them.
    """

    def __init__(self, ops: Sequence[OperatorDef], inputs: Collection[str]) -> None:
        self.nodes: list[Node] = []
        self.fills: dict[str, OperatorDef] = {}
        self.values = {name: name for name in inputs}
        self._kept = frozenset(inputs)
        self._left = Counter(name for op in ops for name in op.outputs)
        self._taken = {*self._left, *inputs}
        self._numbers: Counter[str] = Counter()

    def run(self, ops: Iterable[OperatorDef], mark: object = None) -> None:
        """Add the nodes of operators in their order, with a mark."""
        for op in ops:
            reads = [self.values.get(name, name) for name in op.inputs]
            writes = [self._next(name) for name in op.outputs]
            if is_constant(op) and op.type not in INT8:
                self.fills[writes[0]] = op
                continue
            own = op.name or next(iter(writes), op.type)
            load = partial(_attributes, op)
            self.nodes.append(Node(op.type, reads, writes, {}, own, load=load, message=mark, line=op.line))

    def _next(self, name: str) -> str:
        """Return a unique name for a written value; the last one has the blob's name."""
        self._left[name] -= 1
        value = name
        while value in self._taken and (self._left[name] or name in self._kept):
            self._numbers[name] += 1
            value = f"{name}#{self._numbers[name]}"
        self._taken.add(value)
        self.values[name] = value
        return value


def _attributes(op: OperatorDef, strict: bool) -> dict[str, Any]:
    """Return an operator's attributes; a quantized fill has its tensor as ``values``.

    Raises:
        XdlcError: If one has no value that an operator reads; if not ``strict``, it is an ``Argument`` then.
    """
    is_int8, attributes = op.type in INT8 and op.is_fill, {}
    for name, argument in op.args.items():
        try:
            attributes[name] = None if is_int8 and name == "values" else argument.value()
        except XdlcError:
            if strict:
                raise
            attributes[name] = argument
    return attributes | ({"values": filled(op, Allowance(0))} if is_int8 and strict else {})


def _outputs(predict: NetDef, walk: _Walk, notices: list[str]) -> list[str]:
    """Return the stated outputs of a net, or else values that no operator reads."""
    seconds = {name for node in walk.nodes if node.type in _SECONDS for name in node.outputs[1:]}
    excess = set([name for name in predict.outputs if name not in walk.values][_MOST_MISSING:])
    values = {walk.values.get(name, name): name for name in predict.outputs if name not in excess}
    useless = [value for value in values if value in seconds or value in walk.fills]
    if len(useless) < len(values):
        for value in useless:
            why = (
                "the init net fills this output"
                if value in walk.fills
                else "this output is for training only"
            )
            notices.append(f"output {values.pop(value)!r} is not in the DLC: {why}")
    if not predict.outputs:
        read = {name for node in walk.nodes for name in node.names} | seconds
        ends = {name for node in walk.nodes if node.message is not _INIT for name in node.outputs} - read
        values = {value: name for name, value in walk.values.items() if value in ends}
    for value, name in values.items():
        if value != name:
            notices.append(f"output {value!r} is blob {name!r}, which has the name of an input")
    return list(values)
