"""Encodings of a file in a quantization: matched, given to tensors, reported.

Encodings on tensors of floats are kept by all that follows: algorithms leave these tensors alone, ranges
and weights are decided around them.  What the file wants in float keeps its op float.

Two ops that only move values, like Reshape, may have unequal encodings for input and output: both are kept,
with a Convert after the op.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.graph import is_udo
from xdlc.options import spell
from xdlc.quant.existing_encodings import forget_given
from xdlc.quant.op_specs import rule_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.overrides.matching import TENSOR, Matching, match, moved
from xdlc.quant.overrides.override import Override
from xdlc.quant.overrides.reading import read_overrides
from xdlc.quant.overrides.storage import activation_form, bias_form, udo_form, weight_form
from xdlc.quant.placement import place
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import GIVEN, Decision, QuantType, used_bits

_FLOAT_BIAS = "is a bias that is to stay float, which no fixed-point op has"
_STORED = "is stored as integers already"


@dataclass(frozen=True, slots=True)
class BoundOverrides:
    """Overrides of a file, matched with the tensors of a float graph.

    Attributes:
        where: The file, for errors.
        forms: Stored form by name of the tensor.
        places: The entry of each, for errors.
        floats: Names of the ops that stay float.
        left: Names whose encodings have no effect, and why.
        counts: Number of names by what they are: of tensors, of a state_dict, or with paths of modules.
        followed: Number of names whose encodings were changed with their weights.
    """

    where: str
    forms: dict[str, QuantType]
    places: dict[str, str]
    floats: frozenset[str]
    left: dict[str, str]
    counts: Mapping[str, int]
    followed: int = 0

    def summary(self, decision: Decision) -> str:
        """Return how many tensors have encodings of the file, how many were filled in, and what was left.

        Tensors that share an encoding of the file are neither.
        """
        names = {tensor.name for tensor, source in decision.sources.items() if source != GIVEN}
        for op, index in decision.statics:
            tensor = op.inputs[index]
            names.update([tensor.name] if tensor is not None else ())
        ways = ", ".join(f"{count} by {way}" for way, count in self.counts.items())
        matched = f"{len(self.forms)} matched" + (f" ({ways})" if self.counts.keys() - {TENSOR} else "")
        text = f"{matched}, {len(names - self.forms.keys())} filled, {len(self.left)} left"
        if self.followed:
            text += f", {self.followed} scaled as BatchNorm and the like were merged into their weights"
        return f"{text}, {len(self.floats)} op(s) float" if self.floats else text


def give(graph: Graph, matching: Matching, where: str, *, per_channel: bool) -> BoundOverrides:
    """Give tensors of a float graph the encodings that were matched with them.

    Args:
        graph: The graph, its products turned into FullyConnected.
        matching: The encodings and tensors; names without an effect are added to what is left.
        where: The file, for errors.
        per_channel: Whether weights have a scale per channel where the file does not state it.

    Raises:
        UsageError: For encodings that their tensors cannot have; several make a ProblemList.
    """
    forms: dict[str, QuantType] = {}
    places: dict[str, str] = {}
    floats: set[str] = set()
    problems: list[XdlcError] = []
    # The forms of biases depend on those of the weights beside them.
    for override, tensor in sorted(matching.found, key=lambda entry: _is_bias(graph, entry[1])):
        if tensor.dtype.is_fixed:
            matching.left[override.name] = _STORED
            continue
        try:
            if override.is_float:
                ops = _float_ops(graph, tensor)
                floats.update(op.name for op in ops)
                if not ops:
                    matching.left[override.name] = _FLOAT_BIAS
                continue
            form = _form(graph, override, tensor, per_channel)
            held = forms.setdefault(tensor.name, form)
            if held != form:
                raise UsageError(
                    f"is for the tensor {tensor.name!r}, for which {places[tensor.name]} is another encoding",
                    where=override.where,
                    fix="omit one of the two: they are one tensor in the model",
                )
            places.setdefault(tensor.name, override.where)
            tensor.encoding = form[1]
        except UsageError as error:
            problems.append(error)
    raise_all(problems, where=where)
    counts = Counter(matching.by[name] for name in {override.name: None for override, _ in matching.found})
    followed = len(matching.followed)
    return BoundOverrides(where, forms, places, frozenset(floats), matching.left, counts, followed)


def store(model: Model, source: Source, missing: str, notify: Callable[[str], None] | None) -> str:
    """Give the tensors of a float model the encodings of a file, for a later quantization; return a summary.

    Args:
        model: The model, as it was converted; it is changed.
        source: The file, or what it holds.
        missing: What a name that matches nothing is: ``error`` or ``warn``.
        notify: Receives a notice of the encodings that are left.

    Raises:
        UsageError: If names match nothing, unless these are to be warned of, or encodings do not fit.
        StorageError: If the file cannot be read.
    """
    overrides = read_overrides(source)
    given = give(model.main, match(model, overrides, missing), overrides.where, per_channel=True)
    kept = f"stays float with {spell('quantize.float_ops')}"
    left = {**dict.fromkeys(sorted(given.floats), kept), **given.left}
    if notify is not None:
        for name, reason in left.items():
            notify(f"encoding of {name!r} is not stored: it {reason}")
    followed = f", {given.followed} scaled with their weights" if given.followed else ""
    return f"{len(given.forms)} stored, {len(left)} left{followed}"


def _uses(graph: Graph, tensor: Tensor) -> list[tuple[Op, int]]:
    return [
        (op, index)
        for op in graph.consumers(tensor)
        for index, read in enumerate(op.inputs)
        if read is tensor
    ]


def _is_param(op: Op, index: int) -> bool:
    rule = rule_of(op)
    return rule is not None and rule.is_weighted and index in (1, 2)


def _is_bias(graph: Graph, tensor: Tensor) -> bool:
    return tensor.is_static and any(_is_param(op, index) and index == 2 for op, index in _uses(graph, tensor))


def _float_ops(graph: Graph, tensor: Tensor) -> list[Op]:
    """Return the ops that stay float where a tensor does: what writes it, else what reads it."""
    if tensor.producer is not None:
        return [tensor.producer]
    return [op for op, index in _uses(graph, tensor) if not (_is_param(op, index) and index == 2)]


def _form(graph: Graph, override: Override, tensor: Tensor, per_channel: bool) -> QuantType:
    if not tensor.is_static:
        return activation_form(override)
    uses = _uses(graph, tensor)
    if uses and all(is_udo(op) for op, _ in uses):
        return udo_form(override, tensor)
    params = [(op, index) for op, index in uses if _is_param(op, index)]
    for op, index in params:
        rule = rule_of(op)
        if rule is None:
            continue
        if index == 2:
            return bias_form(override, op, rule, tensor, per_channel=per_channel)
        if rule.weight is not None:
            return weight_form(override, op, rule, tensor, per_channel=per_channel)
    return activation_form(override)


def settle(graph: Graph, precision: Precision, given: BoundOverrides) -> None:
    """Change bit widths, those of the options, to those of encodings.

    Raises:
        UsageError: If weights of 16 bits are given to an op of 8-bit activations.
    """
    for name in given.floats:
        precision.acts[name] = None
    for name, (dtype, _) in given.forms.items():
        tensor = graph.tensors.get(name)
        if tensor is not None and tensor.is_static:
            precision.statics[name] = dtype
    placement = place(graph, precision)
    problems: list[XdlcError] = []
    for op in placement.fixed:
        rule, weight = rule_of(op), op.inputs[1] if len(op.inputs) > 1 else None
        if rule is None or rule.weight is None or weight is None or weight.name not in given.forms:
            continue
        if not weight.is_static:
            continue
        form = given.forms[weight.name]
        bits = used_bits(form[1]) or form[0].bits
        precision.weights[op.name] = bits
        if bits == 16 and placement.fixed[op] == 8:
            problems.append(
                UsageError(
                    f"has 16 bits, but {op.type} {op.name!r} computes with activations of 8 bits: HTP has no "
                    "such kernel",
                    where=given.places[weight.name],
                    fix=f"give {op.outputs[0].name!r} 16 bits too, or the weight 8",
                )
            )
    raise_all(problems, where=given.where)


Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file of encodings, or what such a file holds."""


class Importing:
    """The encodings of a file on their way into a quantization; without one every step does nothing.

    Args:
        source: The file, or what it holds; None: encodings are those of the model alone.
        ignore: Drop the encodings that tensors of floats have in the model.

    Raises:
        UsageError: If encodings are to be ignored but a file is given, or the file is no file of encodings.
        StorageError: If the file cannot be read.
    """

    def __init__(self, source: Source | None, *, ignore: bool) -> None:
        if ignore and source is not None:
            raise UsageError(
                "encodings are given and are to be ignored",
                where=spell("ignore_quantization_overrides"),
                fix=f"omit {spell('quantization_overrides')}, or this option",
            )
        self._overrides = None if source is None else read_overrides(source)
        self._ignore = ignore
        self._matching = Matching()
        self._given: BoundOverrides | None = None
        self._summary = ""

    def match(self, model: Model, options: QuantOptions) -> list[str]:
        """Find the tensors of the float model, before it is changed; return notes.

        Raises:
            UsageError: For names that match nothing, unless these are to be warned of.
        """
        if self._overrides is not None:
            self._matching = match(model, self._overrides, options.override_missing)
        return [f"{forget_given(model.main)} encoding(s) of the model were ignored"] if self._ignore else []

    def give(self, graph: Graph, options: QuantOptions, new: Mapping[Tensor, Tensor]) -> None:
        """Give tensors their encodings.

        Args:
            graph: The main graph in the form that is quantized.
            options: Whether weights have a scale per channel.
            new: Static tensors in new shapes, and the old ones.

        Raises:
            UsageError: For encodings that their tensors cannot have.
        """
        if self._overrides is not None:
            moved(self._matching, graph, new)
            per_channel = options.use_per_channel_quantization
            self._given = give(graph, self._matching, self._overrides.where, per_channel=per_channel)

    def settle(self, graph: Graph, precision: Precision) -> None:
        """Change bit widths, those of the options, to those of encodings.

        Raises:
            UsageError: For a combination of bits that no kernel has.
        """
        if self._given is not None:
            settle(graph, precision, self._given)

    def conclude(self, decision: Decision) -> list[str]:
        """Return notes on how many encodings were matched, filled in and left, once all are decided."""
        if self._given is None:
            return []
        self._summary = self._given.summary(decision)
        notes = [f"overrides: {self._summary}"]
        reasons: dict[str, list[str]] = {}
        for name, reason in self._given.left.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            notes.append(f"override left, {reason}: {', '.join(names[:5])}{more}")
        return notes

    def sign(self, model: Model) -> None:
        """Add to the last step of the history what became of the encodings."""
        if self._overrides is not None:
            model.metadata["history"][-1]["args"]["quantization_overrides"] = self._summary
