"""Matching of encodings, named by source tensors, with tensors of the graph.

Names may have paths of modules.  Programs of PyTorch name nodes ``layer1.0.conv1.conv2d``, exports to ONNX
``/layer1/layer1.0/conv1/Conv``, and AIMET ``layer1.0.conv1``: all are of module ``layer1.0.conv1``, which
encodings of AIMET for PyTorch have as their key.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits
from xdlc.options import spell
from xdlc.quant.op_specs import is_real, single_name
from xdlc.quant.overrides.override import Grain, Override
from xdlc.quant.overrides.reading import Overrides

MOST_NAMED = 20
"""Names without a match for which the nearest tensors are looked up; of more the number is reported."""
TENSOR = "tensor"
INSIDE = "is inside an operation or is a constant, so the model has no such tensor"
FOLLOWS = "is for a bias or factor that xdlc merged with others: xdlc chooses the encoding itself"
_ROLES = ("weight", "bias")
_PORT = re.compile(r"(.+) (input|output) ([0-9]{1,9})")
"""Name of an input or output of a module by its position."""
_FITS, _UNLIKE = 0.1, 0.2
"""Logarithms by which scales are off that fit the largest values of channels, and that do not."""


@dataclass(slots=True)
class Matching:
    """Encodings, and the tensors that they belong to.

    Attributes:
        matches: Encodings with the tensors that hold what they are for.
        left: Names whose encodings have no effect, and why.
        by: What each name is that has tensors: ``tensor``, ``state_dict name`` or ``module path``.
        followed: Names whose encodings were changed as the conversion has changed their weights.
    """

    matches: list[tuple[Override, Tensor]] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)


def source_names(model: Model) -> Mapping[str, list[str]]:
    """Return the source's names of tensors whose own name is not the only one."""
    tensors: dict[str, Any] = model.metadata.get("tensors", {})
    names: Mapping[str, list[str]] = tensors.get(model.main.name, {})
    return names


def match(model: Model, overrides: Overrides, missing: str) -> Matching:
    """Return which tensors of the main graph the encodings of a file are for.

    A name is that of a tensor, among them the parameters of a state_dict, or has the path of a module.
    Encodings of weights into which the conversion has merged factors follow these.

    Args:
        model: The float model, as it was converted.
        missing: What a name that matches nothing is: ``error`` or ``warn``.

    Raises:
        UsageError: For names that match nothing, all of them, with the nearest tensors; for weights whose
            values were changed so that no encoding follows.
    """
    factors: dict[str, list[str]] = model.metadata.get("weight_factors", {}).get(model.main.name, {})
    problems: list[XdlcError] = []
    graph, others = model.main, source_names(model)
    holders: dict[str, list[Tensor]] = {}
    for tensor in graph.tensors.values():
        for name in others.get(tensor.name, [tensor.name]):
            holders.setdefault(name, []).append(tensor)
    gone = {name for holder, names in others.items() if holder not in graph.tensors for name in names}
    result, unknown, modules = Matching(), list[Override](), Modules(graph)
    is_torch = any("pytorch" in entry.get("tool", "") for entry in model.metadata.get("history", ()))
    for name, override in overrides.entries.items():
        own = graph.tensors.get(name) if name not in gone else None
        tensors = holders.get(name) or ([own] if own is not None else [])
        result.by[name] = TENSOR
        if is_torch and tensors and all(tensor.is_static for tensor in tensors):
            result.by[name] = "state_dict name"
        if not tensors and name not in gone and (tensors := modules.find(name, override.kind)):
            result.by[name] = "module path"
        reals = [tensor for tensor in tensors if is_real(tensor)]
        for tensor in reals:
            followed: Override | None = override
            if tensor.name in factors and name not in overrides.merged:
                try:
                    followed = following(model, override, tensor, factors[tensor.name])
                except UsageError as error:
                    problems.append(error)
            if followed is None:
                result.left[name] = FOLLOWS
                continue
            result.matches.append((followed, tensor))
            if followed is not override:
                result.followed.add(name)
        if reals:
            continue
        if tensors:
            result.left[name] = "is for a tensor without float values"
        elif name in gone or modules.knows(name):
            result.left[name] = INSIDE
        else:
            unknown.append(override)
    raise_all(problems, where=overrides.where)
    if unknown:
        _tell(unknown, holders, overrides.where, missing)
        result.left |= {override.name: "matches no tensor" for override in unknown}
    return result


def _tell(unknown: list[Override], known: Iterable[str], where: str, missing: str) -> None:
    names = list(known)
    problems: list[XdlcError] = [
        UsageError(
            f"the model has no tensor {override.name!r}",
            where=override.where,
            fix=f"{nearest_names(override.name, names) or 'list the tensors with: xdlc info MODEL'}; to "
            f"ignore it: {spell('override_missing', 'warn')}",
        )
        for override in unknown[:MOST_NAMED]
    ]
    more = len(unknown) - MOST_NAMED
    if more > 0:
        problems.append(
            UsageError(
                f"{more} more name(s) match no tensor",
                where=where,
                fix="check that the file is for this model",
            )
        )
    if missing == "warn":
        for problem in problems:
            text = str(problem).partition("; to ignore it")[0]
            warnings.warn(text, stacklevel=2)
        return
    raise_all(problems, where=where)


def moved(matching: Matching, graph: Graph, new: Mapping[Tensor, Tensor]) -> None:
    """Move encodings to reshaped static tensors; report encodings of removed tensors.

    Args:
        matching: What was found before; changed.
        new: New static tensors, and the old ones.
    """
    heirs: dict[Tensor, list[Tensor]] = {}
    for tensor, old in new.items():
        heirs.setdefault(old, []).append(tensor)
    present: list[tuple[Override, Tensor]] = []
    for override, tensor in matching.matches:
        holders = list(_present(graph, [tensor, *heirs.get(tensor, ())]))
        present += [(override, holder) for holder in holders]
        if not holders:
            matching.left[override.name] = INSIDE
    matching.matches = present


def _present(graph: Graph, tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    return (tensor for tensor in tensors if graph.tensors.get(tensor.name) is tensor)


def note_names(model: Model, before: Model, moved: Mapping[str, str]) -> None:
    """Record the source's name of each tensor that quantization has added.

    Args:
        model: The quantized model; its metadata are changed.
        moved: Names of static tensors in new shapes, and the old names.
    """
    graph, names = model.main, dict(source_names(before))
    for tensor in graph.tensors.values():
        if tensor.name in before.main.tensors:
            continue
        old = moved.get(tensor.name) or _quantized(tensor)
        names[tensor.name] = names.get(old, [old]) if old is not None else []
    if names:
        model.metadata["tensors"] = {**model.metadata.get("tensors", {}), graph.name: names}


def _quantized(tensor: Tensor) -> str | None:
    """Return the name of the float tensor that a Quantize converts to this tensor."""
    op = tensor.producer
    source = op.inputs[0] if op is not None and single_name(op) == "Quantize" else None
    return source.name if source is not None else None


def following(model: Model, override: Override, tensor: Tensor, record: Sequence[str]) -> Override | None:
    """Return the encoding of a merged weight from that of the source's weight.

    The result is None if the name is that of a bias or a factor.

    A file may be of a network in which BatchNorm was merged before: scales that fit the merged weight, and
    not that of the source, stay as they are.

    Args:
        override: The encoding of the source's weight.
        record: What ``weight_factors`` of the converter stated of the weight.

    Raises:
        UsageError: If no encoding of the merged weight has the same quantized values.
    """
    op = next(iter(model.main.consumers(tensor)), None)
    if op is None or override.is_float:
        return override
    rule = traits(op)
    if rule.weight is None or op.inputs[rule.weight] is not tensor:
        return None
    text, *notes = record or [""]
    factors = _factors(text, 1 if rule.channel_axis is None else tensor.shape[rule.channel_axis])
    if "reordered" in notes and override.grain not in (Grain.TENSOR, Grain.CHANNEL):
        raise override.error(
            f"has scales per block of inputs, which {op.type} {op.name!r} reads in another order",
            "write scales per channel, or omit the entry",
        )
    if set(factors) == {1.0} or _is_of_merged(override, tensor, factors, rule.channel_axis):
        return override
    result = override.times(factors)
    if result is not None:
        return result
    types = {name: kind for name, kind, _ in model.metadata.get("nodes", ())}
    nodes = [name for name in op.origin.nodes if name in types]
    is_batchnorm = any("batch" in types[name].lower() for name in nodes)
    how = "each channel has its own factor" if factors else "in another way than by a factor per channel"
    symmetric = "write symmetric scales; " if factors else ""
    apart = f"or convert with {spell('disable_batchnorm_folding', True)}; " if is_batchnorm else ""
    raise override.error(
        f"is for a weight that {', '.join(nodes[1:]) or 'a step before it'} changed when it went into "
        f"{op.type} {op.name!r}: {how}",
        f"{symmetric}compute encodings of the merged network, {apart}or omit the entry",
    )


def _factors(text: str, count: int) -> list[float]:
    """Return the ``count`` finite factors that a text encodes; [] if it does not."""
    try:
        factors = struct.unpack(f"<{count}f", base64.b64decode(text))
    except (ValueError, struct.error):
        return []
    return [*factors] if all(map(math.isfinite, factors)) else []


def _is_of_merged(override: Override, tensor: Tensor, factors: Sequence[float], axis: int | None) -> bool:
    """Return whether symmetric scales fit the merged weight, not the source's.

    The largest value of each channel shows this.
    """
    if not override.symmetric or override.grain not in (Grain.TENSOR, Grain.CHANNEL) or axis is None:
        return False
    sizes = np.abs(np.moveaxis(tensor.numpy(), axis, 0)).reshape(tensor.shape[axis], -1).max(1)
    alive, reach = sizes > 0, np.array(override.scales) * (1 << (override.bits - 1))
    if not alive.any() or (override.grain is Grain.CHANNEL and reach.size != sizes.size):
        return False

    def misfit(largest: Array) -> float:
        fit = reach / largest.max() if override.grain is Grain.TENSOR else reach[alive] / largest
        return float(np.median(np.abs(np.log2(fit))))

    before = sizes[alive] / np.abs(np.broadcast_to(factors, sizes.shape))[alive] if factors else None
    return misfit(sizes[alive]) < _FITS and (before is None or misfit(before) > _UNLIKE)


class Modules:
    """The ops of each module of a graph.

    Args:
        graph: The graph, with the source nodes of each op.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._ops: dict[str, dict[Op, None]] = {}
        for op in graph.ops:
            if not op.is_inserted:
                for node in op.origin.nodes:
                    for path in filter(None, _paths(node)):
                        self._ops.setdefault(path, {})[op] = None

    def find(self, name: str, kind: str | None) -> list[Tensor]:
        """Return the tensors that a name with a module's path means.

        Args:
            name: ``conv1.weight``, ``conv1 output 0``, or a module, whose first output is meant.
            kind: ``activation`` or ``param``; None where that is not known.
        """
        if port := _PORT.fullmatch(name):
            return self._port(port[1], port[2], int(port[3]))
        module, _, role = name.rpartition(".")
        tensors: list[Tensor] = []
        if kind != "activation" and role in _ROLES:
            tensors = list(dict.fromkeys(self._parameters(module, role)))
        if not tensors and kind != "param":
            tensors = self._port(name, "output", 0)
        return tensors

    def knows(self, name: str) -> bool:
        """Return whether a name has the path of a module with ops."""
        if port := _PORT.fullmatch(name):
            return port[1] in self._ops
        module, _, role = name.rpartition(".")
        return name in self._ops or (role in _ROLES and module in self._ops)

    def _parameters(self, module: str, role: str) -> Iterator[Tensor]:
        for op in self._ops.get(module, ()):
            if module not in _paths(op.origin.nodes[0]):
                continue  # merged into a layer, whose weights are not its own
            found = traits(op)
            index = found.bias if role == "bias" else found.weight
            tensor = op.inputs[index] if index is not None and index < len(op.inputs) else None
            if tensor is not None and tensor.is_static:
                yield tensor

    def _port(self, module: str, side: str, place: int) -> list[Tensor]:
        ops = self._ops.get(module, {})
        tensors = list(dict.fromkeys(self._read(ops) if side == "input" else self._written(ops)))
        tensor = tensors[place] if place < len(tensors) else None
        return [tensor] if tensor is not None and self._is_whole(module, side, tensor, ops) else []

    def _read(self, ops: Collection[Op]) -> Iterator[Tensor]:
        """Iterate over computed tensors that the ops read and other ops write."""
        for op in ops:
            for tensor in op.inputs:
                if tensor is not None and not tensor.is_static and not _is_of(tensor.producer, ops):
                    yield tensor

    def _written(self, ops: Collection[Op]) -> Iterator[Tensor]:
        """Iterate over tensors of the ops that other ops read or the graph outputs."""
        for op in ops:
            for tensor in op.outputs:
                readers = self._graph.consumers(tensor)
                if self._graph.is_output(tensor) or any(reader not in ops for reader in readers):
                    yield tensor

    def _is_whole(self, module: str, side: str, tensor: Tensor, ops: Collection[Op]) -> bool:
        """Return whether the ops at a module's border tensor end or begin in the module."""
        if side == "output":
            writer = tensor.producer
            return writer is not None and module in _paths(writer.origin.nodes[-1])
        readers = [op for op in self._graph.consumers(tensor) if op in ops]
        return all(module in _paths(op.origin.nodes[0]) for op in readers)


def _is_of(op: Op | None, ops: Collection[Op]) -> bool:
    return op is not None and op in ops


def _paths(node: str) -> Sequence[str]:
    """Return the modules that a name of a node may state."""
    if not node.startswith("/"):
        return node, node.rpartition(".")[0]
    path: list[str] = []
    for part in node.strip("/").split("/")[:-1]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1] = part
        else:
            path.append(part)
    return node, ".".join(path)
