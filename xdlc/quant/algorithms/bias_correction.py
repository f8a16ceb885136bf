"""Bias correction by the results of the quantized network itself.

What is always done makes up for rounded weights under the inputs of the float network.  This looks
at the quantized network itself, so that rounded and clipped activations, and errors handed on from
the layers before, are made up for too (Nagel et al., 2019, section 4.2 and appendix D).  Layers
are corrected from front to back, in a few groups; each correction has to prove itself on samples
that it does not come from.  Layers in front of outputs keep their biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array, TensorData
from xdlc.ir.dtype import SFIXED32
from xdlc.quant.acceptance import Guard
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.bias import layers_of_outputs
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.equalization_chains import plus
from xdlc.quant.judge import Score
from xdlc.quant.op_specs import rule_of
from xdlc.quant.plan import Plan
from xdlc.quant.ranges import Range, representable
from xdlc.quant.storing import quantized_copy
from xdlc.runtime.lower import Lowered


class Means:
    """A pass that adds the means of some tensors over all axes but the last.

    The results have the names of the tensors with a prefix.

    Args:
        limits: Names of tensors, and the range that each is cut to first; None: it is not.
    """

    def __init__(self, limits: Mapping[str, Range | None]) -> None:
        self._left = dict(limits)

    def __call__(self, lowered: Lowered) -> None:
        """Add means of the tensors that this part is the first to contain."""
        for name in [name for name in self._left if name in lowered.graph.tensors]:
            tensor, limit = lowered.graph.tensors[name], self._left.pop(name)
            value, order = lowered.value(name, any_layout=True), lowered.layout(name)
            (value,) = lowered.add_node("Cast", [value], to=1)
            if limit is not None:
                ends = [lowered.add_constant(np.float32(end)) for end in (limit.low, limit.high)]
                (value,) = lowered.add_node("Clip", [value, *ends])
            axes = np.array([place for place, axis in enumerate(order) if axis != tensor.rank - 1], np.int64)
            (mean,) = lowered.add_node("ReduceMean", [value, lowered.add_constant(axes)], keepdims=0)
            lowered.add_output(self.key(name), mean, dt.FLOAT32, (tensor.shape[-1],))

    @staticmethod
    def key(name: str) -> str:
        """Return the name of the result for a tensor."""
        return f"mean:{name}"

    @classmethod
    def read(cls, results: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
        """Return the means of a run by tensor name, float64."""
        return {name: np.asarray(results[cls.key(name)], np.float64) for name in names}


GROUPS = 8
"""Most groups of layers that are corrected one after the other; each costs one trial."""


@algorithm("bias_correction", Stage.WEIGHTS)
def bias_correction(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Add the mean error of each channel of the quantized network to biases.

    Ops are corrected group by group.
    """
    shown = layers_of_outputs(plan.graph)
    ops = [op for op in plan.placement.fixed if op not in shown and _is_correctable(plan, op)]
    if not ops:
        return plan.noted("bias_correction: no op has a bias that xdlc can correct")
    guard = Guard(plan, calibration, engine)
    run = partial(_trial, plan, calibration, engine, guard)
    float_means = _means_of(plan, engine, {_name(op): _limit(plan, op) for op in ops}, guard)
    groups = [list(group) for group in np.array_split(np.array(ops, object), min(GROUPS, len(ops)))]
    start, means = run(groups[0])
    best, before, applied = start, _biases(ops), 0
    for group, following in pairwise([*groups, []]):
        earlier = _biases(group)
        for op in group:
            _add(op, _certain(float_means[_name(op)] - means[_name(op)]))
        score, means = run(following)
        if score.mean_db >= best.mean_db and not score.is_worse(best):
            best, applied = score, applied + len(group)
            continue
        _restore(earlier)
        if following:
            _, means = run(following)
    if best.is_gain(start):
        return plan.noted(
            f"bias_correction: corrected {applied} of {len(ops)} biases; SQNR of the outputs is "
            f"{best.mean_db:.1f} dB, was {start.mean_db:.1f} dB"
        )
    _restore(before)
    return plan.noted("bias_correction: xdlc dropped the corrections, because the outputs did not improve")


def _is_correctable(plan: Plan, op: Op) -> bool:
    rule, form = rule_of(op), plan.decision.statics.get((op, 2))
    if not rule.is_weighted or form is None or form[0] is not SFIXED32:
        return False
    bias, result = op.inputs[2], op.outputs[0]
    return (
        bias is not None
        and bias.dtype.is_float
        and bias.encoding is None
        and plan.graph.sole_consumer(bias) is op
        and result in plan.decision.activations
        and bool(result.size)
        and bias.shape == result.shape[-1:]
    )


def _name(op: Op) -> str:
    return op.outputs[0].name


def _limit(plan: Plan, op: Op) -> Range | None:
    """Return the range of an op's result encoding, or None."""
    dtype, encoding = plan.decision.activations[op.outputs[0]]
    return representable(encoding, dtype) if isinstance(encoding, ScaleOffset) else None


def _means_of(plan: Plan, engine: Engine, limits: dict[str, Range | None], guard: Guard) -> dict[str, Array]:
    session = engine.session(plan.float_model, quantized=False, refine=Means(limits))
    return _rows([Means.read(session.run(sample), list(limits)) for sample in guard.seen])


def _rows(runs: list[dict[str, Array]]) -> dict[str, Array]:
    """Return the means of each tensor as [samples, channels]."""
    return {name: np.stack([run[name] for run in runs]) for name in (runs[0] if runs else ())}


def _certain(errors: Array) -> Array:
    """Return the mean over samples, less of it the more it may be chance.

    The mean of few samples that differ much is uncertain; it is shrunk by the part of its square
    that its own variance explains (James and Stein).
    """
    mean, count = errors.mean(axis=0), len(errors)
    if count < 2:
        return np.asarray(mean)
    variance = errors.var(axis=0, ddof=1) / count
    square = np.maximum(mean**2, np.finfo(np.float64).tiny)
    return np.asarray(mean * np.maximum(1 - variance / square, 0))


def _biases(ops: list[Op]) -> list[tuple[Tensor, TensorData | None]]:
    return [(bias, bias.data) for op in ops if (bias := op.inputs[2]) is not None]


def _restore(biases: list[tuple[Tensor, TensorData | None]]) -> None:
    for bias, data in biases:
        bias.data = data


def _add(op: Op, summand: Array) -> None:
    bias = op.inputs[2]
    if bias is not None and bias.data is not None:
        bias.data = bias.data.transform(partial(plus, summand=summand))


def _trial(
    plan: Plan, calibration: Calibration, engine: Engine, guard: Guard, group: list[Op]
) -> tuple[Score, dict[str, Array]]:
    """Return a score of the present network, and the means of some results.

    The means are those of each sample.
    """
    names = [_name(op) for op in group]
    model = quantized_copy(plan, calibration)
    session = engine.session(model, outputs=guard.judge.names, refine=Means(dict.fromkeys(names)))
    score = guard.judge.score([session.run(sample) for sample in guard.judged])
    return score, _rows([Means.read(session.run(s), names) for s in (guard.seen if names else [])])
