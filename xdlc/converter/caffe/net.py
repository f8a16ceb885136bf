"""Caffe nets as source graphs: phases, in-place blobs, inputs, training layers.

Source of the rules: net.cpp (``FilterNet``, ``AppendBottom``, ``AppendTop``) and insert_splits.cpp of Caffe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from shlex import quote
from typing import Any

from xdlc import ir
from xdlc.converter.caffe.registry import Layer
from xdlc.converter.caffe.versions import current_layers
from xdlc.converter.caffe.weights_file import WeightsFile
from xdlc.converter.protobuf_text import Message, Word, flattened, readable
from xdlc.converter.session.node import GraphInput, Node, SourceGraph
from xdlc.errors import ModelError, XdlcError, nearest_names, raise_all
from xdlc.ir.names import FreeNames
from xdlc.options import spell

_MESSAGES = {"layer", "layers", "input_shape", "state"}
_ROOT = {"name", "input", "input_dim", "force_backward", "debug_info", *_MESSAGES}
_DROPPED = set(
    """
    name type bottom top include exclude phase loss_weight param blobs propagate_down blobs_lr weight_decay
    loss_param
    """.split()  # noqa: SIM905 - a list literal would be 15 lines
)
"""Fields of every layer that its handler does not get."""
_DATA = set("Data AnnotatedData ImageData HDF5Data LMDBData MemoryData WindowData VideoData".split())  # noqa: SIM905
_ENDS = ("Accuracy", "HDF5Output", "DetectionEvaluate")
_LARGEST = 1 << 31
_MOST_LAYERS = 6_000
_MOST_ENDS = 30_000
"""Bottoms and tops of a net."""
_MOST_DIMS = 32  # Caffe's own limit
_LETTERS = 1024
"""Characters of a name."""
_SHOWN = 16
"""Parameters of a data layer that a notice names, and characters of each."""
_HINTS = 8
"""Problems that come with the nearest names."""
_CORRECT = "correct the layer in the net's text"


@dataclass(slots=True)
class _Entry:
    """A layer.

    Attributes:
        type: Its type; ``module.layer`` of a Python layer.
        bottoms: Names of the blobs that it reads.
        tops: Names of the blobs that it writes.
    """

    message: Message
    name: str
    type: str
    bottoms: list[str]
    tops: list[str]


def source_graph(
    net: Message,
    where: str,
    weights: WeightsFile | None,
    *,
    named: Collection[str] = (),
    ends: Sequence[str] = (),
    notices: list[str],
) -> SourceGraph:
    """Return the graph of a net for inference.

    Args:
        weights: Its weights; None if there is no file of them.
        named: Inputs whose shape or value the user states.
        ends: Blobs at which the graph is to end; of a ``SoftmaxWithLoss``, the probabilities.
        notices: Gets what the user should know.

    Raises:
        XdlcError: Every layer that contradicts the net; several make a ProblemList.
    """
    _check_root(net, where)
    builder = _Net(where, notices)
    stages = {stage for state in net.messages("state") for stage in state.scalars("stage")}
    entries = [builder.entry(layer) for layer in current_layers(net, where)]
    if sum(len(item.bottoms) + len(item.tops) for item in entries) > _MOST_ENDS:
        raise ModelError(
            f"the net has too many bottoms and tops; xdlc supports at most {_MOST_ENDS}",
            where=where,
            fix="split the net into several files",
        )
    entries = [item for item in entries if builder.is_in_test(item, stages)]
    entries = [entry for entry in entries if builder.is_for_inference(entry, ends)]
    builder.add_inputs(net, entries)
    raise_all(builder.problems, where=where)
    outputs = builder.add_nodes([item for item in entries if item.type not in ("Input", *_DATA)], weights)
    used = {name for node in builder.nodes for name in node.names}
    inputs = [entry for entry in builder.inputs.values() if entry.name in used or entry.dims is not None]
    makers = {top: entry for entry in reversed(entries) if not entry.bottoms for top in entry.tops}
    for entry in inputs:
        builder.check_input(entry, named, makers.get(entry.name))
    raise_all(builder.problems, where=where)
    if not builder.nodes:
        raise ModelError(
            "the net has no layers for inference",
            where=where,
            fix="pass the deployment net, like deploy.prototxt",
        )
    return SourceGraph(inputs, outputs, builder.nodes, builder.constants)


def _check_root(net: Message, where: str) -> None:
    """Refuse texts that are not nets."""
    count = len(net.fields.get("layer", ())) + len(net.fields.get("layers", ()))
    if not count and not net.fields.keys().isdisjoint(("net", "train_net", "base_lr")):
        raise ModelError(
            "the file is a solver, not a net",
            where=where,
            fix="pass the file of the net that the solver names",
        )
    if not 0 < count <= _MOST_LAYERS:
        fix = (
            "pass the text of a Caffe net, like deploy.prototxt"
            if not count
            else "split the net into several files"
        )
        raise ModelError(f"the net has {count or 'no'} layers", where=where, fix=fix)
    if "layer" in net.fields and "layers" in net.fields:
        line = min(each.line for each in net.messages("layers"))
        problem = f"the net has layers of the form 'layer', but line {line} has the earlier form 'layers'"
        raise ModelError(problem, where=where, fix="write all layers in one form", line=line)
    for name, values in net.fields.items():
        if name not in _ROOT:
            raise ModelError(f"field {name!r} is not a field of a net", where=where, fix="remove the field")
        if any(isinstance(value, Message) != (name in _MESSAGES) for value in values):
            raise ModelError(f"field {name!r} has a value of the wrong kind", where=where, fix=_CORRECT)


class _Net:
    """A net under construction.

    Args:
        notices: Gets what the user should know.

    Attributes:
        problems: Errors of layers.
    """

    def __init__(self, where: str, notices: list[str]) -> None:
        self.problems: list[XdlcError] = []
        self.inputs: dict[str, GraphInput] = {}
        self.nodes: list[Node] = []
        self.constants: dict[str, ir.TensorData] = {}
        self._where = where
        self._notices = notices
        self._taken: set[str] = set()
        self._free_name = FreeNames(self._taken, mark="#", first=2)
        self._owners: dict[str, str] = {}
        self._loaded: set[str] = set()

    def _report(self, entry: _Entry, problem: str, fix: str = _CORRECT) -> None:
        """Add the error of a layer."""
        line = entry.message.line
        where = f"{self._where}: layer {entry.name!r} ({entry.type or 'without a type'}, line {line})"
        self.problems.append(
            ModelError(problem, where=where, fix=fix, node=entry.name, op=entry.type, line=line)
        )

    # ------------------------------------------------------------------ layers

    def entry(self, layer: Message) -> _Entry:
        """Return a layer with checked fields."""
        names, types, bottoms, tops = (self._names(layer, key) for key in ("name", "type", "bottom", "top"))
        entry = _Entry(layer, "".join(names[:1]), "".join(types[:1]), bottoms, tops)
        if entry.type == "Python":
            python = next(iter(layer.messages("python_param")), layer)
            entry.type = ".".join([*self._names(python, "module")[:1], *self._names(python, "layer")[:1]])
        for key, found in (("name", names), ("type", types), ("bottom", bottoms), ("top", tops)):
            stated = layer.fields.get(key, [])
            if len(found) != len(stated) or (len(stated) > 1 and key in ("name", "type")):
                self._report(entry, f"field {key} is not a name, or appears {len(stated)} times")
        if not entry.type:
            self._report(entry, "the layer has no type", "add the type of the layer")
        if "" in (*bottoms, *tops):
            self._report(entry, "the layer has a bottom or top without a name")
        return entry

    def _names(self, message: Message, key: str) -> list[str]:
        """Return the texts of a field; bytes that are not UTF-8 are escaped."""
        quoted = [each for each in message.scalars(key) if not isinstance(each, Word)]
        found = [each for each in quoted if isinstance(each, str)]
        if any(len(text) > _LETTERS for text in found):
            problem = f"line {message.line}: {key} has more than {_LETTERS} characters"
            raise ModelError(problem, where=self._where, fix=_CORRECT)
        return [readable(text) for text in found]

    def is_in_test(self, entry: _Entry, stages: Collection[Any]) -> bool:
        """Return whether a layer belongs to phase TEST and the net's stages."""
        include, exclude = entry.message.messages("include"), entry.message.messages("exclude")
        if include and exclude:
            self._report(entry, "the layer has both include and exclude rules")
        holds = any(_holds(rule, stages) for rule in include or exclude)
        return holds if include else not holds

    def is_for_inference(self, entry: _Entry, ends: Sequence[str]) -> bool:
        """Return whether a layer is kept; SoftmaxWithLoss becomes Softmax at an output."""
        kind = f"layer {entry.name!r} ({entry.type})"
        if entry.type == "SoftmaxWithLoss" and set(entry.tops) & set(ends):
            fields = {key: held for key, held in entry.message.fields.items() if key == "softmax_param"}
            entry.message, entry.type = Message(entry.message.line, fields), "Softmax"
            entry.bottoms, entry.tops = entry.bottoms[:1], entry.tops[:1]
            self._notices.append(f"{kind} becomes Softmax, because an output of the net reads its result")
        elif entry.type.endswith("Loss") or entry.type in _ENDS:
            as_softmax = entry.type == "SoftmaxWithLoss" and entry.tops
            found = f"; {spell('out_name')} {quote(entry.tops[0])} outputs its probabilities"
            more = found if as_softmax else ""
            self._notices.append(f"xdlc drops {kind}: it is for training or evaluation only{more}")
            return False
        return True

    # ------------------------------------------------------------------ inputs

    def add_inputs(self, net: Message, entries: Sequence[_Entry]) -> None:
        """Add the inputs that the net states, and the tops of layers that read data."""
        names, dims = self._names(net, "input"), net.scalars("input_dim")
        shapes = [shape.scalars("dim") for shape in net.messages("input_shape")]
        sizes = shapes or [dims[start : start + 4] for start in range(0, len(dims), 4)]
        if len(set(names)) != len(names) or len(names) > _MOST_ENDS:
            raise ModelError(
                "the net has an input twice, or too many inputs", where=self._where, fix="remove inputs"
            )
        if sizes and (len(sizes) != len(names) or (not shapes and len(dims) % 4)):
            problem = (
                f"the net has {len(names)} inputs, but {len(shapes)} input_shape and {len(dims)} input_dim"
            )
            raise ModelError(problem, where=self._where, fix="write one shape for each input")
        self._add_tops(names, sizes)
        for entry in entries:
            message, count = entry.message, len(entry.tops)
            if entry.type == "Input":
                stated = [
                    shape for param in message.messages("input_param") for shape in param.messages("shape")
                ]
                if len(stated) not in (0, 1, count):
                    self._report(entry, f"the layer has {len(stated)} shapes, but {count} tops")
                sizes = [shape.scalars("dim") for shape in stated] * (count if len(stated) == 1 else 1)
            elif entry.type in _DATA:
                keys = ("batch_size", "channels", "height", "width")
                stated = message.messages("memory_data_param")
                sizes = [[size for key in keys for size in param.scalars(key)[:1]] for param in stated]
                self._notices.append(
                    f"layer {entry.name!r} ({entry.type}) is now an input, without its transforms "
                    f"({_transform(message)}): apply them to images before you pass the images"
                )
            else:
                continue
            for top in self.inputs.keys() & set(entry.tops):
                self._report(entry, f"the layer writes blob {top!r}, which is already an input")
            self._add_tops(entry.tops, sizes[:count])

    def _add_tops(self, names: Sequence[str], sizes: Sequence[Sequence[Any]]) -> None:
        """Add inputs with their sizes; non-integers become 0, which is refused."""
        for name, dims in zip_longest(names, sizes):
            labels = None if dims is None else [size if isinstance(size, int) else 0 for size in dims]
            self.inputs[name] = GraphInput(name, ir.dtype.FLOAT32, labels)

    def check_input(self, entry: GraphInput, named: Collection[str], maker: _Entry | None) -> None:
        """Report an input of invalid or missing shape; ``--input_dim`` replaces it."""
        dims = entry.dims or ()
        sizes = [size for size in dims[: _MOST_DIMS + 1] if isinstance(size, int)]
        is_possible = all(0 < size < _LARGEST for size in sizes) and math.prod(sizes) < _LARGEST
        if entry.name in named or (entry.dims is not None and is_possible and len(dims) <= _MOST_DIMS):
            return
        state = f"the invalid shape {sizes[:8]}" if entry.dims is not None else "no shape"
        problem = f"input {entry.name!r} has {state}"
        fix = f"pass {spell('input_dims')} {quote(entry.name)} N,C,H,W"
        if maker is None:
            self.problems.append(ModelError(problem, where=self._where, fix=fix))
        else:
            self._report(maker, problem, fix)

    # ------------------------------------------------------------------ nodes

    def add_nodes(self, entries: Sequence[_Entry], weights: WeightsFile | None) -> list[str]:
        """Add the nodes of layers, and return the outputs of the net.

        A blob that layers write in place becomes one value for each write.  The last has the name of the
        blob, as ``net.blobs`` of pycaffe has it; the ones before are named ``BLOB@LAYER``.
        """
        last = {top: index for index, entry in enumerate(entries) for top in entry.tops}
        self._taken.update(self.inputs, last)
        values = {name: name for name in self.inputs}
        makers: dict[str, str] = {}
        for index, entry in enumerate(entries):
            missing = [name for name in entry.bottoms if name not in values]
            for name in missing:
                close = nearest_names(name, values) if len(self.problems) < _HINTS else ""
                fix = close or "name a blob that an earlier layer writes"
                self._report(entry, f"no earlier layer writes the bottom {name!r}", fix)
            reads, writes = [values.get(name, name) for name in entry.bottoms], []
            for top in entry.tops:
                is_new = top not in entry.bottoms or entry.tops.count(top) > 1
                if top in values and is_new and not missing:
                    problem = f"the layer writes blob {top!r}, as {makers.get(top, 'the input')!r} does"
                    self._report(entry, problem, "rename the blob")
                is_last = last[top] == index and top not in self.inputs
                values[top] = top if is_last else self._free(f"{top}@{entry.name}")
                makers[top] = entry.name
                writes.append(values[top])
            if not writes and entry.type != "Silence":
                self._report(
                    entry, "the layer has no top", "add a top: the name of the blob that the layer writes"
                )
            self._add_node(entry, reads, writes, weights)
        read = {name for node in self.nodes for name in node.names}
        blobs = {name: top for top, name in values.items()}
        ends = [name for node in self.nodes for name in node.outputs if name in blobs and name not in read]
        self._notices += [
            f"output {name!r} is blob {blobs[name]!r}, which has the name of an input"
            for name in ends
            if blobs[name] != name
        ]
        self.nodes = [node for node in self.nodes if node.type != "Silence"]
        return list(dict.fromkeys(ends))

    def _add_node(
        self, entry: _Entry, reads: list[str], writes: list[str], weights: WeightsFile | None
    ) -> None:
        """Add the node of a layer."""
        kept = {name: values for name, values in entry.message.fields.items() if name not in _DROPPED}
        try:
            attributes = dict(flattened(Message(entry.message.line, kept)))
        except ModelError as problem:
            self._report(entry, problem.problem)
            return
        blobs, reason = self._blobs(entry, weights)
        node = Node(entry.type, [*reads, *blobs], writes, attributes, entry.name, line=entry.message.line)
        node.message = Layer(entry.message, len(reads), len(blobs), reason)
        self.nodes.append(node)

    def _blobs(self, entry: _Entry, weights: WeightsFile | None) -> tuple[list[str], Callable[[], str]]:
        """Return a layer's weight names, and a function that returns why more are missing.

        Layers that share weights by the names of their ``param`` have those that are stored with the last.
        """
        if weights is None:
            return [], lambda: "you passed no weights file"
        try:
            blobs = weights.blobs(entry.name)
        except XdlcError as problem:
            self.problems.append(problem)
            return [], str
        if blobs and entry.name in self._loaded:
            self._report(
                entry,
                "the layer has the name of another layer, but weights are stored by name",
                "rename one of the two layers",
            )
        self._loaded.add(entry.name)
        shared = [str(next(iter(param.scalars("name")), "")) for param in entry.message.messages("param")]
        names = []
        for index, (data, label) in enumerate(zip_longest(blobs, shared)):
            name = self._owners.get(label) if label else None
            if name is None and data is not None:
                name = self._free(f"{entry.name}.blob{index}")
                if label:
                    self._owners[label] = name
            if name is not None and data is not None:
                self.constants[name] = data
            names += [name] if name is not None else []
        return names, lambda: weights.lacks(entry.name)

    def _free(self, name: str) -> str:
        """Return a free name, numbered if necessary, and reserve it."""
        free = self._free_name(name)
        self._taken.add(free)
        return free


def _transform(message: Message) -> str:
    """Return the content of a data layer's transform_param, in words."""
    stated = [
        f"{name} {str(value)[:_SHOWN]}"
        for transform in message.messages("transform_param")[:1]
        for name in islice(transform.fields, _SHOWN)
        for value in transform.scalars(name)[:3]
    ]
    return f"transform_param: {', '.join(stated)}" if stated else "mean, scale, crop, mirror"


def _holds(rule: Message, stages: Collection[Any]) -> bool:
    """Return whether a rule matches phase TEST, level 0, and some stages."""
    low, high = (next(iter(rule.scalars(name)), 0) for name in ("min_level", "max_level"))
    wanted, unwanted = (set(rule.scalars(name)) for name in ("stage", "not_stage"))
    if isinstance(low, str) or isinstance(high, str) or not wanted <= set(stages) or unwanted & set(stages):
        return False
    return low <= 0 <= high and rule.scalars("phase")[:1] in ([], ["TEST"], [1])
