"""Encodings of activations, chosen by statistics; graphs are not changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.ir.dtype import UFIXED8, DType
from xdlc.quant.attention_masks import MaskRanges, lowest_score
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.encoding_groups import EncodingGroups, is_signed, useful_range
from xdlc.quant.multipliers import exact, rest_of, rounds
from xdlc.quant.op_specs import listed, rule_of, single_name
from xdlc.quant.options import QuantOptions
from xdlc.quant.range_methods import Choice, Grid, find_range_method
from xdlc.quant.range_methods.auto import with_headroom
from xdlc.quant.ranges import (
    EVERYTHING,
    GIVEN,
    NOTHING,
    Decision,
    QuantType,
    Range,
    activation_type,
    asymmetric,
    centred,
    given_form,
    range_of,
    representable,
    second_factor,
    softmax_top,
    stored_form,
    symmetric,
    unit_encoding,
)
from xdlc.quant.static_encodings import StaticEncodings
from xdlc.quant.weights import channel_ranges
from xdlc.quant.widening.weight_halves import can_split, halves, splits

if TYPE_CHECKING:
    from xdlc.quant.plan import GraphPlan


def watch_list(activations: Iterable[Tensor], groups: EncodingGroups) -> list[Tensor]:
    """Return the activations to measure; ranges of other activations follow from them."""
    return [
        tensor
        for tensor in activations
        if tensor not in groups.derived
        and groups.given(tensor) is None
        and (unit_low(tensor) is None or _is_softmax(tensor))
    ]


def _is_softmax(tensor: Tensor) -> bool:
    return tensor.producer is not None and single_name(tensor.producer) == "Softmax"


def unit_low(tensor: Tensor) -> int | None:
    """Return the lower end of the range that an op fixes for its result, or None."""
    return rule_of(tensor.producer).unit_low


class ActivationEncodings:
    """Chooses the encodings of a graph: of activations, and then of static data.

    ``StaticEncodings`` chooses those of static data.

    Args:
        choice: The method of ``auto`` at 8 bits; None: min-max.
    """

    def __init__(
        self, plan: GraphPlan, calibration: Calibration, options: QuantOptions, choice: Choice | None
    ) -> None:
        self._plan = plan
        self._lows = plan.lows
        self.graph = plan.graph
        self.placement = plan.placement
        self.precision = plan.precision
        self.options = options
        self.groups = plan.groups.copy()
        self.adopted = plan.adopted
        self.masks = MaskRanges(plan.graph, plan.masks, self._seen_by_softmax, self._reach)
        self._hiding = plan.masks.hiding
        self._calibration = calibration
        self._stats = calibration.statistics
        self._method = find_range_method(options.act_quantizer_calibration)
        self._choice = choice or Choice("min-max")
        self._ranges: dict[tuple[Tensor, int], Range] = {}
        self._static_ranges: dict[Tensor, Range] = {}
        self._signed: dict[Tensor, bool] = {}
        self._padding: dict[Tensor, Range] = {}
        for tensor, values in self.groups.padding:
            self._padding[tensor] = self._padding.get(tensor, NOTHING).merge(values)

    def decide(self) -> Decision:
        """Return the stored form of every tensor that quantized ops touch.

        Raises:
            ModelError: If static data hold NaN or infinite values; names the tensor.
        """
        decision = self.activations()
        decision.sources = {tensor: self._source(tensor) for tensor in decision.activations}
        StaticEncodings(self).decide(decision)
        if splits(self.options.soc):
            for op in filter(can_split, self.placement.fixed):
                pair = halves(op, decision)
                decision.halves |= {} if pair is None else {op: pair}
        decision.notes += self._mask_notes(decision)
        return decision

    def activations(self) -> Decision:
        """Return the stored form of activations, without static data."""
        self.groups.join_gathered(self.group_range, lambda _: self._forget())
        decision = Decision(groups=self.groups)
        for tensor, types in self._plan.activations.items():
            decision.activations[tensor] = self.activation(tensor)
            if self.masks.limits.get(tensor, EVERYTHING) != EVERYTHING:
                decision.useful[tensor] = self.masks.limits[tensor]
            for dtype in types:
                decision.converted[tensor, dtype] = self.activation(tensor, dtype)
        if rounds(self.options.soc):
            self._make_exact(decision)
        return decision

    def _make_exact(self, decision: Decision) -> None:
        """Change scales of 8-bit second factors so that HTP's products are exact."""
        exact_factors: set[Tensor] = set()
        for op in self.placement.fixed:
            tensor = op.inputs[1] if (op, 1) in self.placement.narrowed else None
            if tensor is None or tensor in exact_factors or (tensor, UFIXED8) not in decision.converted:
                continue
            exact_factors.add(tensor)
            dtype, encoding = decision.converted[tensor, UFIXED8]
            decision.converted[tensor, UFIXED8] = dtype, exact(encoding, rest_of(op, decision))

    def _forget(self) -> None:
        self._ranges.clear()
        self._signed.clear()

    def _type(self, tensor: Tensor) -> DType:
        return self._plan.types[tensor] or activation_type(self.options.act_bitwidth)

    def _bits(self, tensor: Tensor) -> int:
        return self._type(tensor).bits

    def _is_signed(self, tensor: Tensor) -> bool:
        """Return whether a tensor's group is stored as signed integers."""
        if not self.placement.ports:
            return False
        root = self.groups.find(tensor)
        if root not in self._signed:
            members = self.groups.members(root)
            free = all(self._lows[member] is None for member in members)
            self._signed[root] = free and is_signed(self.graph, self.placement, members)
        return self._signed[root]

    def group_range(self, tensor: Tensor, bits: int | None = None) -> Range:
        """Return the range of all tensors that share an encoding with a tensor."""
        root = self.groups.find(tensor)
        key = root, bits or self._bits(tensor)
        values = self._ranges.get(key)
        if values is None:
            values, form = NOTHING, self._given(root)
            if form is not None and isinstance(form[1], ScaleOffset):
                values = representable(form[1], form[0])
            for member in self.groups.members(root) if form is None else ():
                values = values.merge(self._own_range(member, key[1]))
            if form is None and self._is_signed(root):
                values = values.merge(Range(-values.high, -values.low))
            self._ranges[key] = values
        return values

    def _own_range(self, tensor: Tensor, bits: int) -> Range:
        """Return the contribution of a tensor to the range of its group."""
        padding = self._padding.get(tensor, NOTHING).cut(self.masks.limits.get(tensor, EVERYTHING))
        if tensor in self.groups.derived:
            return padding
        if tensor.is_static:
            return padding.merge(self.static_range(tensor))
        return padding.merge(self.masks.held(tensor, self._all_values(tensor, bits)))

    def static_range(self, tensor: Tensor) -> Range:
        """Return the range of static data, as far as it affects readers."""
        if tensor not in self._static_ranges:
            self._static_ranges[tensor] = channel_ranges(tensor, None).whole
        return self.masks.held(tensor, self._static_ranges[tensor])

    def _all_values(self, tensor: Tensor, bits: int) -> Range:
        """Return the range that the range method chooses for a tensor, masks included."""
        low = self._lows[tensor]
        statistics = self._stats.get(tensor, Statistics())
        seen = statistics.seen
        if low is not None:
            top = softmax_top(seen.high, bits) if _is_softmax(tensor) else 1.0
            return Range(float(low), top)
        if self._method.needs_network and bits == 16:
            is_fine = tensor.producer is not None and tensor.producer.name in self.precision.fine
            return seen if is_fine else with_headroom(self.graph, tensor, seen)
        if tensor in self._hiding:
            return seen  # histograms of masks show nothing of scores
        if not self._method.needs_network:
            grid = Grid(bits, self.options.percentile_calibration_value, self._symmetric)
            return self._chosen(tensor, self._method.name, grid)
        return self._chosen(tensor, self._choice.method, Grid(bits, self._choice.percentile, self._symmetric))

    def _chosen(self, tensor: Tensor, method: str, grid: Grid) -> Range:
        """Return the range that a range method chooses for a tensor, computed once."""
        key = tensor, method, grid
        ranges = self._calibration.ranges
        if key not in ranges:
            ranges[key] = find_range_method(method).find(self._stats.get(tensor, Statistics()), grid)
        return ranges[key]

    def _reach(self, tensor: Tensor) -> Range:
        """Return the range of all values that a tensor can have, empty if unknown."""
        if tensor.is_static:
            return range_of(tensor.numpy())
        form = self._given(tensor)
        if form is not None and isinstance(form[1], ScaleOffset):
            return representable(form[1], form[0])
        reach, bits = NOTHING, self._bits(tensor)
        for member in self.groups.members(tensor) if tensor in self.groups.derived else [tensor]:
            if member in self._stats or self._lows[member] is not None:
                reach = reach.merge(self._all_values(member, bits))
        return reach

    def _seen_by_softmax(self, tensor: Tensor, softmax: Op) -> Range:
        """Return the part of the range of a Softmax's input that affects its result."""
        form = self._given(tensor)
        if form is not None and isinstance(form[1], ScaleOffset):
            return Range(representable(form[1], form[0]).low, EVERYTHING.high)
        peaks, result = self._calibration.peaks.get(tensor, Statistics()).seen, softmax.outputs[0]
        if peaks.is_empty:
            return EVERYTHING
        if self._bits(tensor) == 16:
            peaks = with_headroom(self.graph, tensor, peaks)
        bits = self.placement.bits_of(self.graph, result) or 16
        top = softmax_top(self._stats.get(result, Statistics()).seen.high, bits)
        return Range(lowest_score(softmax, peaks, top / (1 << bits)), EVERYTHING.high)

    @property
    def _symmetric(self) -> bool:
        # Both symmetric schemas are stored unsigned: a third of HTP's operations, DepthWiseConv2d and
        # LayerNorm among them, have no signed 16-bit kernel, and the float values are the same.
        return bool(self.options.act_quantizer_schema != "asymmetric")

    def activation(self, tensor: Tensor, read_as: DType | None = None) -> QuantType:
        """Return the stored form of a tensor, in its own type or in a requested one."""
        tied = self.placement.carried.get(tensor)
        if tied is not None and self._type(tied) is read_as:
            return self.activation(tied)
        own = self._type(tensor)
        dtype = read_as or own
        form = self._given(tensor)
        if form is not None:
            return given_form(form, dtype, is_own=read_as is None)
        # What was rounded to fewer bits before has no values beyond the range of those.
        values, _ = self._useful(tensor, dtype if dtype.bits <= own.bits else own)
        if dtype.is_signed:
            return dtype, symmetric(values, dtype.bits)
        low = self._fixed_low(tensor, values)
        if low is not None:
            return dtype, unit_encoding(low, dtype.bits, softmax_top(values.high, dtype.bits))
        if dtype.bits == 16 and self._is_read_centred(tensor):
            return dtype, second_factor(values)
        is_centred = not self.placement.centred.isdisjoint(self.groups.members(tensor))
        if dtype.bits == own.bits and (is_centred or self._is_signed(tensor)):
            return dtype, replace(symmetric(values, dtype.bits), offset=-(1 << (dtype.bits - 1)))
        return dtype, (centred if self._symmetric else asymmetric)(values, dtype.bits)

    def _is_read_centred(self, tensor: Tensor) -> bool:
        """Return whether an op needs the zero of a tensor's 16-bit group in the middle."""
        for member in self.groups.members(tensor):
            for reader in self.graph.consumers(member):
                if reader in self.placement.fixed and any(
                    reader.inputs[index] is member and (reader, index) not in self.placement.narrowed
                    for index in rule_of(reader).centred_16
                ):
                    return True
        return False

    def _given(self, tensor: Tensor) -> QuantType | None:
        """Return the form that a tensor's group has in the model, or None."""
        given = self.groups.given(tensor)
        if given is None:
            return None
        holder = next((m for m in self.groups.members(tensor) if m.dtype.is_fixed), None)
        return stored_form(holder.dtype if holder is not None else activation_type(self._bits(tensor)), given)

    def _useful(self, tensor: Tensor, dtype: DType) -> tuple[Range, bool]:
        """Return the range of a tensor's group, and whether it was cut for its readers."""
        values = self.group_range(tensor, dtype.bits)
        if len(self.groups.members(tensor)) > 1:
            return values, False
        cut = values.cut(useful_range(self.graph, tensor, dtype.bits))
        return cut, cut != values

    def _fixed_low(self, tensor: Tensor, values: Range) -> int | None:
        """Return the lower end that an op fixes for a tensor's group, or None."""
        lows = [low for member in self.groups.members(tensor) if (low := self._lows[member]) is not None]
        return min(lows) if lows and values.within(Range(float(min(lows)), 1.0)) else None

    def _method_used(self, tensor: Tensor) -> str:
        if not self._method.needs_network:
            return self._method.name
        return "min-max and headroom" if self._bits(tensor) == 16 else str(self._choice)

    def _mask_notes(self, decision: Decision) -> list[str]:
        """Return a note on the attention masks that were bounded, or nothing."""
        seen = {
            mask: held.seen for mask, held in self._stats.items() if not self.placement.is_written_fixed(mask)
        }
        for op, index in decision.statics:
            mask = op.inputs[index]
            if mask is not None and mask in self._hiding:
                seen[mask] = range_of(mask.numpy())
        bounds = {}
        for mask, values in seen.items():
            limit = self.masks.limits.get(mask, EVERYTHING)
            if mask in self._hiding and not values.within(limit):
                bounds[mask] = limit.low if values.low < limit.low else limit.high
        if not bounds:
            return []
        names, bound = [repr(mask.name) for mask in bounds], next(iter(bounds.values()))
        return [
            f"attention mask {listed(names, 1)}: xdlc limits the mask to {bound:.4g}, because a Softmax "
            "computes zero beyond; scores keep all steps of their encoding"
        ]

    def _source(self, tensor: Tensor) -> str:
        """Return in words where the encoding of an activation came from."""
        members = self.groups.members(tensor)
        if self.groups.given(tensor) is not None:
            return "stated by the model" if any(m.dtype.is_fixed for m in members) else GIVEN
        values, cut = self._useful(tensor, activation_type(self._bits(tensor)))
        fixes = next((member for member in members if self._lows[member] is not None), None)
        if fixes is not None and fixes.producer is not None and self._fixed_low(tensor, values) is not None:
            return f"fixed by the range of {single_name(fixes.producer)}"
        own = [member for member in members if member not in self.groups.derived and not member.is_static]
        if tensor not in own and own:
            return f"shared with {own[0].name}"
        count = self._stats.get(tensor, Statistics()).count
        text = f"{self._method_used(tensor)} of {count} sample{'' if count == 1 else 's'}"
        if len(own) > 1:
            text += f", shared with {next(member.name for member in own if member is not tensor)}"
        cut = cut or self.masks.limits.get(tensor, EVERYTHING) != EVERYTHING
        return f"{text}, cut to the values that readers use" if cut else text
