"""Emulation of 8 bits in 16-bit encodings: one session for all widths of activations that ops may have.

Its graph has 16 bits wherever ops can have them.  What ops of unlike groups hand to each other goes through
a Convert of its own, and constants through a Quantize, for their widths may differ; scales, zero points and
upper ends are fed.  All values are rounded, as sessions do that are ``plain``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdlc.ir import Encoding, Graph, Op, ScaleOffset, Tensor, make_op
from xdlc.ir.dtype import UFIXED16
from xdlc.ir.tensor import Role
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.mixed.groups import Group
from xdlc.quant.op_specs import rule_of
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import QuantType, Use
from xdlc.quant.storing import entered, quantized_copy
from xdlc.runtime.cpu import AdjustableSession

if TYPE_CHECKING:
    from xdlc.quant.samples import Sample

LARGEST_CONSTANT = 1 << 18
"""Elements of constants that are rounded in every run; larger ones keep 16 bits."""


class Emulation:
    """A session of a graph under any widths of activations.

    Args:
        plan: A plan whose main graph runs no other graph and has no user's ops.
        narrow: Widths with the fewest bits of activations; those of weights stay.
        wide: Widths with 16 bits of activations wherever ops can have them.
    """

    def __init__(
        self,
        plan: Plan,
        calibration: Calibration,
        groups: Sequence[Group],
        narrow: Precision,
        wide: Precision,
        names: Sequence[str],
    ) -> None:
        self._plan, self._calibration = plan, calibration
        self._group = {op.name: index for index, group in enumerate(groups) for op in group.ops}
        self._narrow = plan.with_precision(narrow).decided(calibration).decision.statics
        widest = plan.with_precision(wide).decided(calibration)
        self._wide = widest.decision.statics
        model = quantized_copy(widest, calibration)
        ops = {op.name: op for op in plan.graph.ops}
        self._converted = {
            op.outputs[0].name: (plan.graph.tensors[source.name], op.outputs[0].dtype)
            for op in model.main.ops
            if op.type == "Convert"
            and (source := op.inputs[0]) is not None
            and source.name in plan.graph.tensors
        }
        self._uses: dict[str, Use] = {}
        for op in list(model.main.ops):
            for index, tensor in enumerate(op.inputs):
                if op.name in ops and tensor is not None and tensor.dtype is UFIXED16:
                    use = ops[op.name], index
                    if tensor.is_static:
                        self._round_constant(model.main, op, use)
                    elif self._is_edge(model.main, op, tensor):
                        stored = Tensor("", tensor.shape, tensor.dtype, tensor.encoding)
                        self._insert(model.main, "Convert", tensor, stored, op, use)
        self._session = AdjustableSession(model, names)

    def encodings(self, precision: Precision) -> dict[str, Any]:
        """Return what is to be fed so that activations have some widths.

        Args:
            precision: Widths between the narrowest and the widest.
        """
        plan = self._plan.with_precision(precision)
        decision = plan.main.ranges(self._calibration, plan.options, plan.choice)
        given: dict[str, Encoding] = {}
        for tensor, form in decision.activations.items():
            given[tensor.name] = given[entered(tensor)] = _encoding(form)
        for name, (tensor, dtype) in self._converted.items():
            read = decision.read(tensor, dtype)
            if read is not None and read[0] is dtype:
                given[name] = _encoding(read)
        for name, (op, index) in self._uses.items():
            source, type = op.inputs[index], plan.placement.read_type(plan.graph, op, index)
            if source is not None and type is not None:
                statics = self._narrow if type.bits == 8 else self._wide
                given[name] = _encoding(
                    statics[op, index] if source.is_static else decision.read(source, type)
                )
        return self._session.encodings(given)

    def run(self, sample: Sample, fed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs as real numbers by tensor name."""
        return self._session.run(sample, fed)

    def _is_edge(self, graph: Graph, op: Op, tensor: Tensor) -> bool:
        """Return whether an op may read a tensor in another width than it has."""
        writer = tensor.producer
        if writer is not None and writer.type not in ("Quantize", "Convert"):
            return self._group.get(writer.name) != self._group.get(op.name)
        return len({self._group.get(reader.name) for reader in graph.consumers(tensor)}) > 1

    def _round_constant(self, graph: Graph, op: Op, use: Use) -> None:
        """Round a constant in the run that has fewer bits beside narrower activations."""
        wanted, (writer, index) = self._narrow.get(use), use
        rule, real, tensor = rule_of(writer), writer.inputs[index], op.inputs[index]
        if (
            wanted is None
            or wanted[0].bits == 16
            or rule is None
            or (rule.selects and index == 0)
            or real is None
            or tensor is None
            or not isinstance(tensor.encoding, ScaleOffset)
            or real.size > LARGEST_CONSTANT
        ):
            return
        plain = Tensor(graph.unique_name(real.name), real.shape, real.dtype, role=Role.STATIC)
        plain.data = real.data
        graph.add_tensor(plain)
        stored = Tensor("", tensor.shape, tensor.dtype, tensor.encoding)
        self._insert(graph, "Quantize", plain, stored, op, use)

    def _insert(self, graph: Graph, type: str, source: Tensor, stored: Tensor, op: Op, use: Use) -> None:
        """Let an op read a tensor by way of another op."""
        index = use[1]
        stored.name = graph.unique_name(f"{op.name}_{index}_read")
        graph.insert_before(op, make_op(graph, type, [source], [stored], name=f"{stored.name}_op"))
        inputs = list(op.inputs)
        inputs[index] = stored
        graph.set_inputs(op, inputs)
        self._uses[stored.name] = use


def _encoding(form: QuantType | None) -> Encoding:
    """Return the encoding of a form, with the bits that it uses."""
    assert form is not None
    dtype, encoding = form
    if isinstance(encoding, ScaleOffset) and not dtype.is_signed:
        return replace(encoding, bits=dtype.bits)
    return encoding
