"""Plan of the quantization of one graph: placement, shared encodings, masks, and what they result in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from xdlc.ir import Graph, Tensor
from xdlc.ir.data import Array
from xdlc.passes.multiply_slopes import multiply_slopes
from xdlc.quant.apply import apply, convert_moves
from xdlc.quant.attention_masks import Masks, find_masks
from xdlc.quant.auto_range import Choice
from xdlc.quant.bias import averaged_inputs, correct_biases
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.decide import Decider, watch_list
from xdlc.quant.decision import Decision
from xdlc.quant.existing_encodings import forget_given
from xdlc.quant.float_types import store_floats
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import NO_STATES, Placement, place
from xdlc.quant.precision import Precision
from xdlc.quant.sharing import Sharing


class GraphPlan:
    """A graph under quantization.

    Attributes:
        graph: The graph; float until it is stored.
        precision: Bit widths of its ops; ``place`` again after a change.
        states: The output with the next value of each input that holds a variable.
        bounds_masks: Whether attention masks are bounded.
    """

    graph: Graph
    precision: Precision
    states: Mapping[str, str] = NO_STATES
    bounds_masks: bool = True

    @cached_property
    def placement(self) -> Placement:
        """Which ops are quantized; resolved when it is first read."""
        return place(self.graph, self.precision, self.states)

    @cached_property
    def sharing(self) -> Sharing:
        """Which tensors have one encoding; resolved when it is first read."""
        return Sharing(self.graph, self.placement)

    @cached_property
    def masks(self) -> Masks:
        """The masks to bound in the graph; found when they are first read after calibration began."""
        return find_masks(self.graph) if self.bounds_masks else Masks()

    def place(self) -> None:
        """Resolve placement and sharing anew, after graph or precision have changed."""
        for name in ("placement", "sharing"):
            self.__dict__.pop(name, None)

    @property
    def watched(self) -> list[Tensor]:
        """The activations whose ranges calibration measures."""
        return watch_list(self.graph, self.placement, self.sharing)

    @property
    def averaged(self) -> list[Tensor]:
        """The activations whose means calibration measures."""
        return averaged_inputs(self.graph, self.placement)

    def decider(
        self,
        calibration: Calibration,
        options: QuantOptions,
        choice: Choice | None,
        sharing: Sharing | None = None,
    ) -> Decider:
        """Return what decides encodings; ``sharing`` is that of the plan by default."""
        return Decider(
            self.graph,
            self.placement,
            sharing or self.sharing,
            calibration,
            self.masks,
            options,
            self.precision,
            choice,
        )

    def store(self, decision: Decision, means: Mapping[Tensor, Array]) -> None:
        """Correct the biases of layers whose inputs have means here, and store tensors as decided."""
        correct_biases(self.graph, self.placement, decision, means)
        apply(self.graph, self.placement, decision)
        convert_moves(self.graph, self.placement)
        if multiplied := multiply_slopes(self.graph):
            decision.notes.append(
                f"{len(multiplied)} Prelu: depthwise convolution(s) by 1 stand before them, as "
                f"{multiplied[0].name!r}: HTP has slopes of 16 bits in products alone"
            )

    def store_floats(self, options: QuantOptions) -> list[str]:
        """Drop the encodings of what stays float, store it in the type of the options; return notes."""
        forget_given(self.graph)
        return store_floats(self.graph, options.float_bitwidth)

    def means_of(self, means: Mapping[Tensor, Array], twin: Graph) -> dict[Tensor, Array]:
        """Return those of some means that are of this graph's tensors, by the tensors of a copy of it."""
        return {
            twin.tensors[tensor.name]: mean
            for tensor, mean in means.items()
            if self.graph.tensors.get(tensor.name) is tensor
        }
