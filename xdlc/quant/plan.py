"""Plan of a quantization: the decisions so far. Steps return another plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from xdlc.ir import DType, Graph, Model, Op, Tensor
from xdlc.ir.data import Array
from xdlc.quant.activation_encodings import ActivationEncodings, unit_low, watch_list
from xdlc.quant.attention_masks import Masks, find_masks
from xdlc.quant.bias import averaged_inputs
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.encoding_groups import EncodingGroups
from xdlc.quant.mixed.search import WidthSearch
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement, place
from xdlc.quant.precision import Precision
from xdlc.quant.range_methods import Choice
from xdlc.quant.ranges import Decision, QuantType, Use
from xdlc.quant.ties import Tie, find_ties

Change = Callable[[Precision], Precision]
"""Returns other bit widths than those of its argument, which it may change."""


@dataclass(frozen=True, eq=False)
class GraphPlan:
    """Plan of one graph.

    Attributes:
        graph: The graph; float until it is stored.
        masks: The attention masks to bound.
        borders: Ops at inputs and outputs of a branch or loop body, which keep both float.
        decision: The stored form of tensors; None: undecided, or no sample has reached some tensors.
        unseen: Tensors that no sample has reached.
        basis: Statistics and range method that the decision was made from.
        adopted: Stored forms of static data that another graph has decided.
    """

    graph: Graph
    precision: Precision
    placement: Placement
    masks: Masks
    ties: tuple[Tie, ...] = ()
    borders: tuple[Op, ...] = ()
    decision: Decision | None = None
    unseen: tuple[Tensor, ...] = ()
    basis: tuple[Calibration, Choice | None] | None = None
    adopted: Mapping[Use, QuantType] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        graph: Graph,
        precision: Precision,
        *,
        ties: tuple[Tie, ...] = (),
        bounds_masks: bool = True,
        borders: Iterable[Op] = (),
    ) -> GraphPlan:
        """Return the plan of a float graph, without decisions.

        Args:
            bounds_masks: Whether to bound attention masks.
            borders: Ops that keep inputs and outputs float.
        """
        placement = place(graph, precision, ties)
        masks = find_masks(graph) if bounds_masks else Masks()
        return cls(graph, precision, placement, masks, ties, tuple(borders))

    def with_precision(self, precision: Precision) -> GraphPlan:
        """Return the plan with other bit widths, without decisions."""
        placement = place(self.graph, precision, self.ties)
        return replace(self, precision=precision, placement=placement, decision=None, unseen=(), basis=None)

    @cached_property
    def groups(self) -> EncodingGroups:
        """The tensors that share an encoding, before ranges are known."""
        return EncodingGroups(self.graph, self.placement)

    @cached_property
    def activations(self) -> dict[Tensor, Sequence[DType]]:
        """Activations of quantized ops, with the other types in which ops read them."""
        return {
            tensor: tuple(self.placement.converted(self.graph, tensor))
            for tensor in self.graph.tensors.values()
            if self.placement.is_read_fixed(self.graph, tensor)
        }

    @cached_property
    def types(self) -> dict[Tensor, DType | None]:
        """Fixed-point type of each tensor; None: it is only float."""
        return {tensor: self.placement.type_of(self.graph, tensor) for tensor in self.graph.tensors.values()}

    @cached_property
    def lows(self) -> dict[Tensor, int | None]:
        """Lower end of the range of each tensor; None: its op does not fix it."""
        return {tensor: unit_low(tensor) for tensor in self.graph.tensors.values()}

    @cached_property
    def watched(self) -> list[Tensor]:
        """The activations whose ranges calibration measures."""
        return watch_list(self.activations, self.groups)

    @property
    def averaged(self) -> list[Tensor]:
        """The activations whose means calibration measures."""
        return averaged_inputs(self.graph, self.placement)

    def ranges(self, calibration: Calibration, options: QuantOptions, choice: Choice | None) -> Decision:
        """Return the stored form of activations, without static data."""
        return ActivationEncodings(self, calibration, options, choice).activations()

    def decided(self, calibration: Calibration, options: QuantOptions, choice: Choice | None) -> GraphPlan:
        """Return the plan with the stored form of every tensor that quantized ops touch."""
        basis = calibration, choice
        if self.basis == basis:
            return self
        unseen: tuple[Tensor, ...] = ()
        if self.borders:
            statistics = calibration.statistics
            unseen = tuple(tensor for tensor in self.watched if tensor.size and not statistics[tensor].count)
        decision = None if unseen else ActivationEncodings(self, calibration, options, choice).decide()
        return replace(self, decision=decision, unseen=unseen, basis=basis)

    def twin(self, graph: Graph, *, statics: bool) -> GraphPlan:
        """Return the plan of a copy of the graph.

        Args:
            statics: Whether the copy stores static data as decided; False: they stay float.
        """
        ops = dict(zip(self.graph.ops, graph.ops, strict=True))
        plan = GraphPlan.of(
            graph,
            self.precision,
            ties=self.ties,
            bounds_masks=False,
            borders=[ops[op] for op in self.borders],
        )
        if self.decision is None:
            return plan
        return replace(plan, decision=self.decision.moved(ops, graph.tensors, statics=statics))

    def means_of(self, means: Mapping[Tensor, Array], twin: Graph) -> dict[Tensor, Array]:
        """Return means by tensor of a copy of the graph, from means by own tensor."""
        return {
            twin.tensors[tensor.name]: mean
            for tensor, mean in means.items()
            if self.graph.tensors.get(tensor.name) is tensor
        }


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Plan of the quantization of a model.

    Attributes:
        model: The model, a copy of the user's; float until it is stored.
        inner: Those of branches and loop bodies.
        choice: The range method of ``auto`` for activations of 8 bits; None: not chosen.
        corrects_biases: Whether biases make up for what rounding the weights adds to means.
        reference: The float model before an algorithm changed static data; None: none has.
        search: What mixed precision tried, and what it raised.
        notes: What was done beyond ranges, and why; one line each, for people.
    """

    model: Model
    options: QuantOptions
    main: GraphPlan
    inner: tuple[GraphPlan, ...] = ()
    choice: Choice | None = None
    corrects_biases: bool = False
    reference: Model | None = None
    search: WidthSearch = field(default_factory=WidthSearch)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Model, options: QuantOptions, precision: Precision | None = None) -> Plan:
        """Return the plan of a float model, without decisions.

        Args:
            model: The model; the plan's to change.
            precision: Bit widths of the main graph; default: those of the options for all ops.
        """
        widths = precision or Precision(options.act_bitwidth, options.weights_bitwidth)
        main = GraphPlan.of(
            model.main,
            widths,
            ties=find_ties(model, options),
            bounds_masks=options.bound_attention_masks,
        )
        return cls(model, options, main)

    @property
    def graph(self) -> Graph:
        return self.main.graph

    @property
    def precision(self) -> Precision:
        """Bit widths of the main graph."""
        return self.main.precision

    @property
    def placement(self) -> Placement:
        """Which ops of the main graph are quantized."""
        return self.main.placement

    @property
    def decision(self) -> Decision:
        """The stored form of the main graph's tensors.

        Raises:
            ValueError: If it is not decided.
        """
        if self.main.decision is None:
            raise ValueError(f"graph {self.graph.name!r} is not decided")
        return self.main.decision

    @property
    def parts(self) -> tuple[GraphPlan, ...]:
        """The plans of all graphs, the main one first."""
        return (self.main, *self.inner)

    @property
    def float_model(self) -> Model:
        """The float model whose results are right."""
        return self.reference or self.model

    def noted(self, *lines: str) -> Plan:
        """Return the plan with more notes."""
        return replace(self, notes=(*self.notes, *lines))

    def with_precision(self, precision: Precision) -> Plan:
        """Return the plan with other bit widths of the main graph."""
        return replace(self, main=self.main.with_precision(precision))

    def with_statics(self, statics: Mapping[Use, QuantType]) -> Plan:
        """Return the decided plan with other stored forms of static data."""
        decision = replace(self.decision, statics=dict(statics))
        return replace(self, main=replace(self.main, decision=decision))

    def under(self, change: Change, inner_change: Change | None = None) -> Plan:
        """Return the plan with other bit widths of all graphs.

        Args:
            change: Changes the widths of the main graph.
            inner_change: The same of branches and loop bodies; None: ``change``.
        """
        inner = inner_change or change
        return replace(
            self,
            main=self.main.with_precision(change(self.precision.copy())),
            inner=tuple(part.with_precision(inner(part.precision.copy())) for part in self.inner),
        )

    def decided(self, calibration: Calibration) -> Plan:
        """Return the plan with the stored form of every tensor that quantized ops touch."""
        main, *inner = (part.decided(calibration, self.options, self.choice) for part in self.parts)
        return replace(self, main=main, inner=tuple(inner))

    def without_held_out(self, calibration: Calibration) -> Plan:
        """Return the plan with ranges from the samples that are not held out."""
        apart = calibration.without_held_out
        if apart is calibration:
            return self
        found = self.main.ranges(apart, self.options, self.choice)
        decision = replace(
            self.decision, activations=found.activations, converted=found.converted, useful=found.useful
        )
        inner = tuple(part.decided(apart, self.options, self.choice) for part in self.inner)
        return replace(self, main=replace(self.main, decision=decision, basis=None), inner=inner)
