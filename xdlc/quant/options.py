"""Options of the quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.quant.output_kinds import OutputKind
from xdlc.runtime import timeout
from xdlc.targets import Soc, find_soc

SCHEMAS = ("asymmetric", "symmetric", "unsignedsymmetric")
"""Place of a range about zero: anywhere; as far below as above; that, stored unsigned."""

_CHOICES: dict[str, tuple[Any, ...]] = {
    "weights_bitwidth": (2, 4, 8, 16),
    "act_bitwidth": (8, 16),
    "bias_bitwidth": (8, 32),
    "float_bitwidth": (16, 32, "bf16"),
    "act_quantizer_schema": SCHEMAS,
    "param_quantizer_schema": SCHEMAS,
    "override_missing": ("error", "warn"),
    "accuracy": ("fast", "balanced", "best"),
}

_LISTS = ("algorithms", "float_ops")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantOptions:
    """Under the names of the vendor's flags where they have one.

    Attributes:
        weights_bitwidth: 2, 4, 8 or 16 (16 only with 16-bit activations, as HTP has it).
        act_bitwidth: 8 or 16.
        bias_bitwidth: 32 (scale is that of input times weight) or 8 (own range; beside per-channel
            weights the bias keeps 32 bits, for HTP has no other kernel).
        float_bitwidth: 32, 16 or ``"bf16"``: type of what stays float.
        float_ops: Ops that stay float, by name of the op, of a source node or of a tensor that it writes.
        act_bitwidth_of: Bits of what single ops read and write, by the same names; of an op that only hands
            values on, those of the op that writes them.
        weights_bitwidth_of: Bits of the weights of single ops, by the same names.
        use_per_channel_quantization: One scale per output channel of convolution weights, else one
            per tensor.
        use_per_row_quantization: One scale per output of FullyConnected and MatMul weights.
        act_quantizer_calibration: Range method of activations, by name.
        param_quantizer_calibration: Range method of weights, by name; ``auto``: the one that measures best
            for their width.
        act_quantizer_schema: ``asymmetric``, ``symmetric`` or ``unsignedsymmetric``.
        param_quantizer_schema: The same of 8-bit weights with one scale; all others are symmetric.
        percentile_calibration_value: What the method ``percentile`` keeps, 90 to 100 percent.
        restrict_quantization_steps: Smallest and largest quantized value of symmetric weights, like
            (-0x80, 0x7F); their scales then hold all data, whatever the range method.
        weights_block_size: Input channels of Conv2d of 1x1 and FullyConnected that share a scale; None: all
            of them.
        use_lpbq: Blocks have small integer scales over one real scale a channel.
        adjust_bias_encoding: Widen the scales of weights whose bias would overflow 32 bits, else clip it.
        bias_correction: Correct biases by what rounding the weights adds to means, where outputs gain by it.
        bound_attention_masks: Bound masks before a Softmax, so that scores keep the steps of their encoding.
        drop_nan_checks: Remove tests for NaN of values in fixed point, which hold none.
        one_act_bitwidth: Widen no activations where 8 bits lose values: HTA converts between no widths.
        enable_float_fallback: No calibration: what has no encoding stays float.
        algorithms: Names of accuracy algorithms.
        min_sqnr: Least SQNR of the outputs in dB, reached by mixed precision; None: no such goal.
        max_sqnr_drop: Most dB that outputs may lose against all activations at 16 bits; None: no such goal.
        accuracy: How far widths are raised where an output does not keep its task: ``fast``: not;
            ``balanced``: to 16-bit activations; ``best``: to all that the target has.
        target: SoC that is quantized for: what an op reads has a width that it takes there; None: any SoC.
        jobs: Processes that calibrate.
        loop_timeout: Seconds that each loop may take whenever the model runs; None: the most, 15.
        output_kind: What outputs are judged as, by name: ``classes``, ``map``, ... ; others are inferred.
        override_missing: What a name in overrides that matches nothing is: ``error`` or ``warn``.

    Raises:
        UsageError: For a value that does not exist, or a combination that no backend runs.
    """

    weights_bitwidth: int = 8
    act_bitwidth: int = 8
    bias_bitwidth: int = 32
    float_bitwidth: int | str = 32
    float_ops: tuple[str, ...] = ()
    act_bitwidth_of: Mapping[str, int] = field(default_factory=dict)
    weights_bitwidth_of: Mapping[str, int] = field(default_factory=dict)
    use_per_channel_quantization: bool = True
    use_per_row_quantization: bool = True
    act_quantizer_calibration: str = "auto"
    param_quantizer_calibration: str = "auto"
    act_quantizer_schema: str = "asymmetric"
    param_quantizer_schema: str = "asymmetric"
    percentile_calibration_value: float = 99.99
    restrict_quantization_steps: tuple[int, int] | None = None
    weights_block_size: int | None = None
    use_lpbq: bool = False
    adjust_bias_encoding: bool = True
    bias_correction: bool = True
    bound_attention_masks: bool = True
    drop_nan_checks: bool = True
    one_act_bitwidth: bool = False
    enable_float_fallback: bool = False
    algorithms: tuple[str, ...] = ()
    min_sqnr: float | None = None
    max_sqnr_drop: float | None = None
    accuracy: str = "fast"
    target: str | None = None
    jobs: int = 1
    loop_timeout: float | None = None
    output_kind: Mapping[str, str] = field(default_factory=dict)
    override_missing: str = "error"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"expected one of {', '.join(map(str, choices))}, found {getattr(self, name)!r}",
                    where=name,
                    fix=f"pass one of {', '.join(map(str, choices))}",
                )
        for name, kind in self.output_kind.items():
            if kind not in list(OutputKind):
                raise UsageError(
                    f"there is no kind {kind!r} of outputs",
                    where=f"output_kind of {name!r}",
                    fix=f"pass one of {', '.join(OutputKind)}",
                )
        if not isinstance(self.jobs, int) or self.jobs < 1:
            raise UsageError(
                f"expected a number of processes, found {self.jobs!r}",
                where="jobs",
                fix="pass a whole number from 1 on",
            )
        if self.loop_timeout is not None:
            object.__setattr__(self, "loop_timeout", timeout.checked(self.loop_timeout))  # one warning
        if self.weights_bitwidth == 16 and self.act_bitwidth == 8:
            raise UsageError(
                "16-bit weights with 8-bit activations: HTP has no such kernel",
                where="weights_bitwidth",
                fix="pass act_bitwidth=16 too, or weights_bitwidth=8",
            )

        steps = self.restrict_quantization_steps
        if steps is not None and not (len(steps) == 2 and steps[0] < 0 < steps[1]):
            raise UsageError(
                f"expected an integer below zero and one above, found {steps!r}",
                where="restrict_quantization_steps",
                fix="pass the smallest and the largest step, like -0x80 and 0x7F",
            )
        size = self.weights_block_size
        if size is not None and size < 1:
            raise UsageError(
                f"expected a number from 1 on, found {size}",
                where="weights_block_size",
                fix="pass the input channels of a block, like 32",
            )
        if self.use_lpbq and size is None:
            raise UsageError(
                "LPBQ has scales per block, and no size of a block is given",
                where="use_lpbq",
                fix="pass weights_block_size too, like 64",
            )

    @classmethod
    def of(cls, given: dict[str, Any]) -> QuantOptions:
        """Return the options of keyword arguments.

        Raises:
            UsageError: If one is not known, or a value does not exist.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                hint = nearest_names(name, known) or f"options: {', '.join(known)}"
                raise UsageError(f"quantize has no option {name!r}", fix=hint)
        lists = {name: given[name] for name in _LISTS if name in given}
        names = {name: (value,) if isinstance(value, str) else tuple(value) for name, value in lists.items()}
        return cls(**{**given, **names})

    @property
    def has_goal(self) -> bool:
        """Whether an SQNR is the goal of mixed precision."""
        return self.min_sqnr is not None or self.max_sqnr_drop is not None

    @property
    def soc(self) -> Soc | None:
        """The SoC that is quantized for; None: any.

        Raises:
            UsageError: If it is not known, with the names that come closest.
        """
        return None if self.target is None else find_soc(self.target)

    def stated(self) -> dict[str, str]:
        """Return the options that differ from their defaults, and the bit widths, as text."""
        always = ("weights_bitwidth", "act_bitwidth", "bias_bitwidth", "use_per_channel_quantization")
        return {
            field.name: ",".join(value) if field.name in _LISTS else str(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) not in (field.default, {}) or field.name in always
            if field.name not in ("jobs", "loop_timeout")  # the result does not depend on them
        }
