"""Comparison of a float model with the decided quantization, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import is_udo
from xdlc.ir.quantization import float_data
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.decision import QuantType, Use
from xdlc.quant.effective_range import EffectiveRange, effective_range
from xdlc.quant.encoding_groups import EncodingGroups
from xdlc.quant.engine import Engine
from xdlc.quant.op_specs import is_real, single_name
from xdlc.quant.placement import Placement
from xdlc.quant.plan import Plan
from xdlc.quant.samples import Sample, run_sample
from xdlc.quant.storing import quantized_copy
from xdlc.runtime.htp_fusion import gate_of, with_producer

GROUP_BYTES = 1 << 28
"""Most bytes of float values of a sample that are held at once, unless one tensor alone has more."""

RUN_BYTES = 1 << 22
"""Bytes of activations that take as long as a run of hardly any."""

Step = Callable[[], None]


@dataclass
class Subject:
    """A plan, and samples to measure it with.

    Attributes:
        plan: The plan, decided.
        calibration: Its calibration.
        engine: What runs networks.
        samples: Samples that calibration has not seen.
    """

    plan: Plan
    calibration: Calibration
    engine: Engine
    samples: Sequence[Sample] = ()

    @property
    def reference(self) -> Model:
        """The float model before algorithms touched weights; ops and tensors have the plan's names."""
        return self.plan.float_model

    @cached_property
    def reference_ops(self) -> dict[str, Op]:
        """The ops of the float model by name."""
        return {op.name: op for op in self.reference.main.ops}

    @cached_property
    def trial(self) -> Model:
        """The quantized model."""
        return quantized_copy(self.plan, self.calibration)

    @property
    def graph(self) -> Graph:
        """The plan's graph, whose ops and tensors decisions are about."""
        return self.plan.graph

    @property
    def placement(self) -> Placement:
        """Which ops are quantized."""
        return self.plan.placement

    @property
    def groups(self) -> EncodingGroups:
        """Which tensors share an encoding."""
        return self.plan.decision.groups or self.plan.main.groups

    @cached_property
    def activations(self) -> list[Tensor]:
        """Activations of the plan's graph that hold float values, in order of execution."""
        made = [tensor for op in self.graph.ops for tensor in op.outputs]
        return [tensor for tensor in (*self.graph.inputs, *made) if is_real(tensor) and tensor.size]

    @property
    def work(self) -> int:
        """What a run costs: bytes of all activations as float32, and what even small networks take."""
        return RUN_BYTES + 4 * sum(tensor.size for tensor in self.activations)

    @cached_property
    def statics(self) -> dict[Use, QuantType]:
        """The stored form of static data by use, in the main graph."""
        ops = set(self.graph.ops)
        return {use: form for use, form in self.plan.decision.statics.items() if use[0] in ops}

    @cached_property
    def stored_statics(self) -> dict[tuple[str, int], Tensor]:
        """Static tensors of the quantized model by op and input."""
        return {
            (op.name, index): tensor
            for op, index in self.statics
            if (tensor := self._trial_ops[op.name].inputs[index]) is not None
        }

    @cached_property
    def _trial_ops(self) -> dict[str, Op]:
        return {op.name: op for op in self.trial.main.ops}

    def form(self, tensor: Tensor) -> QuantType | None:
        """Return the stored form of an activation, None if it stays float."""
        return self.plan.decision.activations.get(tensor)

    def effect(self, tensor: Tensor) -> EffectiveRange:
        """Return the part of an activation that affects its readers."""
        form = self.form(tensor)
        if form is None:
            return EffectiveRange()
        useful = self.plan.decision.useful.get(tensor)
        if useful is not None:
            return EffectiveRange(useful.low, useful.high)
        found = effective_range(self.graph, self.placement, self.groups, tensor, form)
        return replace(found, joined=self.joined_to(tensor))

    def stored_name(self, tensor: Tensor) -> str:
        """Return the name under which the quantized model has an activation in its stored form."""
        twin = self.trial.main.tensors[tensor.name]
        form = self.form(tensor)
        if form is not None and not twin.dtype.is_fixed:
            for reader in self.trial.main.consumers(twin):
                if single_name(reader) == "Quantize" and reader.outputs[0].dtype is form[0]:
                    return reader.outputs[0].name
        return tensor.name

    def joined_to(self, tensor: Tensor) -> str | None:
        """Return the op that takes an activation unrounded, as it is computed as one with its op, or None."""
        stored = self.trial.main.tensors[tensor.name]
        readers = self.trial.main.consumers(stored)
        if not readers or self.trial.main.is_output(stored):
            return None
        return readers[0].name if all(_takes_unrounded(op, stored) for op in readers) else None

    def weighted(self) -> list[Op]:
        """Return the ops that have quantized static data, and may run under another name too."""
        ops = set(self.graph.ops)
        params = (op for op, _ in self.plan.decision.params if op in ops)
        return [op for op in dict.fromkeys((*(op for op, _ in self.statics), *params)) if self._has_twin(op)]

    def _has_twin(self, op: Op) -> bool:
        """Return whether an op can run twice; kernels that a model carries are for ops of certain names."""
        if not is_udo(op):
            return True
        kernels = self.engine.kernels
        return kernels is not None and kernels.knows(op.twin(lambda tensor: tensor, name=_twin_name(op)))

    def with_stored_weights(self, ops: Sequence[Op]) -> tuple[Model, dict[str, str]]:
        """Return the float model with a second op beside some, which has the stored static data.

        Args:
            ops: Ops of the plan's graph.

        Returns:
            The model, and by name of an op's result the name of that of its twin.
        """
        model = self.reference.clone()
        graph = model.main
        originals = {op.name: op for op in graph.ops}
        names: dict[str, str] = {}
        for op in ops:
            original = originals[op.name]
            stored = {
                original.inputs[index]: self.stored_statics[op.name, index]
                for held, index in self.statics
                if held is op and (op.name, index) in self.stored_statics
            }
            results = set(original.outputs)

            def twin(
                tensor: Tensor, stored: dict[Tensor | None, Tensor] = stored, results: set[Tensor] = results
            ) -> Tensor:
                if tensor in results:
                    name = names[tensor.name] = graph.unique_name(f"{tensor.name}~stored")
                    return Tensor(name, tensor.shape, tensor.dtype, dynamic_axes=tensor.dynamic_axes)
                if tensor not in stored:
                    return tensor
                name = graph.unique_name(f"{tensor.name}~stored")
                made = Tensor(name, tensor.shape, tensor.dtype, role=tensor.role)
                made.data = float_data(stored[tensor]).cast(tensor.dtype.numpy)
                return graph.add_tensor(made)

            second = original.twin(twin, name=_twin_name(original))
            for name, param in self._trial_ops[op.name].params.items() if is_udo(op) else ():
                if isinstance(param, Tensor) and param.dtype.is_fixed:
                    second.params[name] = real = Tensor(param.name, param.shape, FLOAT32, role=param.role)
                    real.data = float_data(param)
            graph.insert_after(original, second)
        return model, names


def _twin_name(op: Op) -> str:
    return f"{op.name}~stored"


def _takes_unrounded(op: Op, source: Tensor) -> bool:
    name = single_name(op)
    if name == "ElementWiseMultiply":
        return gate_of(op) is source
    if op.inputs[0] is not source or not with_producer(source, name):
        return False
    # With one encoding for both, rounding before and after the function is the same.
    return name == "Prelu" or source.encoding != op.outputs[0].encoding


def groups(tensors: Sequence[Tensor], limit: int = GROUP_BYTES) -> Iterator[list[Tensor]]:
    """Yield runs of tensors whose float values fit together into ``limit`` bytes."""
    group: list[Tensor] = []
    held = 0
    for tensor in tensors:
        if group and held + 4 * tensor.size > limit:
            yield group
            group, held = [], 0
        group.append(tensor)
        held += 4 * tensor.size
    if group:
        yield group


def run(session: object, sample: Sample, index: int) -> dict[str, Array]:
    """Return the results of a session for a held-out sample, which an error names."""
    return run_sample(session, sample, f"held-out sample {index}")
