"""Ties: tensors that share one encoding, as states and their next values do.

An application copies a state's next value to its input as stored integers, and so does a runtime of language
models with a cache of keys and values: where the two ends have unlike encodings, results are wrong without
any message.  Ends are found by ``metadata["states"]`` and by their names; others are the user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import DType, Graph, Model, Op, Tensor, make_op
from xdlc.options import spell
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.op_specs import is_real, listed, rule_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.precision import ACT_BITS, Precision
from xdlc.runtime.states import next_values

_CACHES = (
    (re.compile(r"(past_\w+)_in"), r"\1_out"),
    (re.compile(r"past_key_values\.(.+)"), r"present.\1"),
)
"""Names of the inputs that hold a cache, and those of the outputs with what joins it."""
_FOLLOWING = ("{}_next", "next_{}", "new_{}")
"""Names of the next value of an input."""


@dataclass(frozen=True, slots=True)
class Tie:
    """Tensors of a graph that share one encoding.

    Attributes:
        names: Their names; results of ops that only gather values of theirs are among them.
        bits: Bits of all of them; None: those of the ops that read and write them.
        is_centred: Whether quantized zero is in the middle, as runtimes clear caches.
        is_asked: Whether the user tied them, so that unlike types are an error.
    """

    names: tuple[str, ...]
    bits: int | None = None
    is_centred: bool = False
    is_asked: bool = False


def find_ties(model: Model, options: QuantOptions) -> tuple[Tie, ...]:
    """Return the ties of the main graph, and inputs with bits of their own.

    The model is float.

    Raises:
        UsageError: If a name that the user ties names no activation, or one of integers, or two tied tensors
            have different encodings in the model.
    """
    graph = model.main
    ties: list[Tie] = []
    for names in options.tie:
        _check(graph, names)
        ties = _joined(ties, Tie(tuple(dict.fromkeys(names)), is_asked=True))
    for names, is_cache in _conventional(model):
        ties = _joined(ties, Tie(names, is_centred=is_cache))
    tied = {name for tie in ties for name in tie.names}
    bits_of = {tensor.name: options.act_bitwidth_of.get(tensor.name) for tensor in graph.inputs}
    ties += [Tie((name,)) for name, bits in bits_of.items() if bits is not None and name not in tied]
    return tuple(_completed(graph, tie, bits_of) for tie in ties)


def _check(graph: Graph, names: Sequence[str]) -> None:
    """Check the names of a tie of the user's."""
    where = spell("tie")
    if isinstance(names, str) or len(set(names)) < 2:
        raise UsageError(
            f"{names!r} are fewer than two tensors",
            where=where,
            fix="name two or more tensors that share one encoding",
        )
    for name in names:
        tensor = graph.tensors.get(name)
        if tensor is None or tensor.is_static:
            what = "no tensor" if tensor is None else "no activation, but static data"
            activations = [key for key, activation in graph.tensors.items() if not activation.is_static]
            fix = nearest_names(name, activations) or "list the tensors with: xdlc info MODEL"
            raise UsageError(f"{name!r} is {what} of the graph", where=where, fix=fix)
        if not is_real(tensor):
            raise UsageError(
                f"{name!r} holds {tensor.dtype}, which has no encoding", where=where, fix="omit this name"
            )
    stated = [graph.tensors[name] for name in names if graph.tensors[name].encoding is not None]
    for tensor in stated[1:]:
        if tensor.encoding != stated[0].encoding:
            raise UsageError(
                f"{stated[0].name!r} and {tensor.name!r} have different encodings: {stated[0].encoding} and "
                f"{tensor.encoding}",
                where=where,
                fix="omit one of the encodings, or make the encodings equal",
            )


def _conventional(model: Model) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield input and output of states and caches, and whether it is a cache."""
    graph = model.main
    for names in next_values(model).items():
        yield names, False
    results = {tensor.name: tensor for tensor in graph.outputs}
    for tensor in graph.inputs:
        caches = [form.sub(result, tensor.name) for form, result in _CACHES if form.fullmatch(tensor.name)]
        for name in [*caches, *(form.format(tensor.name) for form in _FOLLOWING)]:
            result = results.get(name)
            if result is not None and _may_follow(tensor, result):
                yield (tensor.name, name), name in caches


def _may_follow(state: Tensor, result: Tensor) -> bool:
    """Return whether a result has the type and shape of an input, but for one axis."""
    if state.dtype is not result.dtype or not is_real(state) or state.rank != result.rank:
        return False
    return sum(size != dim for size, dim in zip(state.shape, result.shape, strict=True)) <= 1


def _joined(ties: Iterable[Tie], new: Tie) -> list[Tie]:
    """Return ties with a new one, joined with those that it meets."""
    apart = []
    for tie in ties:
        if set(tie.names).isdisjoint(new.names):
            apart.append(tie)
        else:
            names = tuple(dict.fromkeys((*tie.names, *new.names)))
            new = Tie(names, None, tie.is_centred or new.is_centred, tie.is_asked or new.is_asked)
    return [*apart, new]


def _completed(graph: Graph, tie: Tie, bits_of: Mapping[str, int | None]) -> Tie:
    """Return a tie with its bits, and with what gathers its values."""
    members = [graph.tensors[name] for name in tie.names]
    asked = {name: bits for name in tie.names if (bits := bits_of.get(name)) is not None}
    stated = {tensor.name: bits for tensor in members if (bits := given_bits(tensor)) is not None}
    if asked and len({*asked.values(), *stated.values()}) > 1:
        texts = [f"{bits} for {name!r}" for name, bits in asked.items()]
        texts += [f"{bits} by the encoding of {name!r}" for name, bits in stated.items()]
        raise UsageError(
            f"tensors that share one encoding have two requested widths: {' and '.join(texts)}",
            where=spell("act_bitwidth_of"),
            fix="request only one width",
        )
    bits = next(iter((*stated.values(), *asked.values())), None)
    gathered = [] if len(members) < 2 else [op.outputs[0].name for op, _ in carriers(graph, members)]
    is_centred = tie.is_centred or (bool(asked) and len(members) > 1)
    names = tuple(dict.fromkeys((*tie.names, *gathered)))
    return replace(tie, names=names, bits=bits, is_centred=is_centred)


def carriers(graph: Graph, tied: Iterable[Tensor]) -> list[tuple[Op, list[Tensor]]]:
    """Return the ops that gather values of tied tensors alone, and what each gathers.

    Concat of a cache and its new columns is one.  Values may be moved on the way.
    """
    roots = {root_of(tensor) for tensor in tied}
    gathering: dict[Op, list[Tensor]] = {}
    waiting = [root for root in roots if not root.is_static]
    while waiting:
        tensor = waiting.pop()
        for op in graph.consumers(tensor):
            rule = rule_of(op)
            if op in gathering:
                continue
            if rule.selects and op.inputs[0] is tensor:
                waiting += op.outputs
                continue
            inputs = [joined for i in rule.gathers if i < len(op.inputs) and (joined := op.inputs[i])]
            if tensor in inputs and all(root_of(joined) in roots for joined in inputs):
                gathering[op] = inputs
                waiting += op.outputs
                roots.add(op.outputs[0])
    return list(gathering.items())


def root_of(tensor: Tensor) -> Tensor:
    """Return the tensor whose values ops have moved to a tensor."""
    while tensor.producer is not None:
        rule = rule_of(tensor.producer)
        source = tensor.producer.inputs[0] if rule.selects and not rule.fills else None
        if source is None:
            break
        tensor = source
    return tensor


def part_results(graph: Graph, ties: Iterable[Tie], precision: Precision) -> None:
    """Insert a Reshape before computed tensors that have bits of their own.

    The op keeps its own bits; values are rounded to the fewer ones after it.  Ops of 16 bits, which
    nothing widens, write tensors of 16 bits themselves.
    """
    for tie in ties:
        for tensor in (graph.tensors[name] for name in tie.names if tie.bits is not None):
            op = tensor.producer
            rule = rule_of(op)
            if op is None or not rule.activation_bits or rule.selects or rule.gathers:
                continue
            if given_bits(tensor) is not None:
                continue
            if precision.act_bits_of(op) == tie.bits == max(ACT_BITS):
                continue
            name = graph.unique_name(f"{tensor.name}_computed")
            computed = Tensor(name, tensor.shape, tensor.dtype, dynamic_axes=tensor.dynamic_axes)
            graph.set_output(op, op.outputs.index(tensor), computed)
            move = make_op(graph, "Reshape", [computed], [tensor], name=f"{name}_op", origin=op.origin)
            graph.insert_after(op, move)


def check_types(graph: Graph, ties: Iterable[Tie], type_of: Callable[[Tensor], DType | None]) -> None:
    """Check before calibration that tensors that the user tied have one type.

    Args:
        type_of: Returns the type of an activation; None: floats.

    Raises:
        UsageError: If they have not.
    """
    for tie in ties:
        types = {name: type_of(graph.tensors[name]) for name in tie.names if tie.is_asked}
        if len(set(types.values())) > 1:
            text = " and ".join(f"{name!r} is {dtype or 'float'}" for name, dtype in types.items())
            raise _unlike(text)


def _unlike(text: str) -> UsageError:
    return UsageError(
        f"{text}: they cannot share one encoding",
        where=spell("tie"),
        fix=f"set the same width for all ops that write and read these tensors: {spell('act_bitwidth_of')}",
    )


def tie_notes(graph: Graph, ties: Iterable[Tie]) -> Iterator[str]:
    """Yield a note on default ties, and warnings of ties with unlike encodings.

    Raises:
        UsageError: If tensors that the user tied have unlike encodings.
    """
    pairs = [tie.names[:2] for tie in ties if not tie.is_asked and len(tie.names) > 1]
    pairs = [names for names in pairs if graph.tensors[names[0]].dtype.is_fixed]
    if pairs:
        text = listed([f"{first!r} and {second!r}" for first, second in pairs], 2)
        yield f"each state shares an encoding with its next value: {text}"
    for tie in ties:
        ends = [graph.tensors[name] for name in tie.names if name in graph.tensors]
        unlike = [end for end in ends if (end.dtype, end.encoding) != (ends[0].dtype, ends[0].encoding)]
        if not unlike:
            continue
        forms = " and ".join(f"{end.name!r} {end.dtype} {end.encoding}" for end in (ends[0], unlike[0]))
        if tie.is_asked:
            raise _unlike(forms)
        if all(end.dtype.is_fixed for end in (ends[0], unlike[0])):
            yield f"warning: each step rounds a state again: {forms} have different encodings"
