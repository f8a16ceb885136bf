"""Options of the quantizer, checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Unpack

from xdlc.errors import UsageError, nearest_names
from xdlc.options import check_values, options_of
from xdlc.options.quantizing import QuantizeOptions
from xdlc.runtime import timeout
from xdlc.targets import Soc, find_soc

_LISTS = ("algorithms", "float_ops")
_COMPUTED = {
    "use_per_channel_quantization": True,
    "act_bitwidth_of": {},
    "weights_bitwidth_of": {},
    "output_kind": {},
}
"""Values of omitted options without a default."""


@dataclass(frozen=True, slots=True, init=False)
class QuantOptions:
    """Values of the options of ``xdlc.options.quantizing`` that decide how a model is quantized.

    Raises:
        UsageError: For a value that does not exist, or a combination that no backend runs.
    """

    weights_bitwidth: int
    act_bitwidth: int
    bias_bitwidth: int
    float_bitwidth: int | str
    float_ops: tuple[str, ...]
    act_bitwidth_of: Mapping[str, int]
    weights_bitwidth_of: Mapping[str, int]
    use_per_channel_quantization: bool
    use_per_row_quantization: bool
    act_quantizer_calibration: str
    param_quantizer_calibration: str
    act_quantizer_schema: str
    param_quantizer_schema: str
    percentile_calibration_value: float
    restrict_quantization_steps: tuple[int, int] | None
    weights_block_size: int | None
    use_lpbq: bool
    adjust_bias_encoding: bool
    bias_correction: bool
    bound_attention_masks: bool
    drop_nan_checks: bool
    one_act_bitwidth: bool
    enable_float_fallback: bool
    algorithms: tuple[str, ...]
    min_sqnr: float | None
    max_sqnr_drop: float | None
    accuracy: str
    target: str | None
    jobs: int
    loop_timeout: float | None
    output_kind: Mapping[str, str]
    override_missing: str

    def __init__(self, **options: Unpack[QuantizeOptions]) -> None:
        known = options_of(QuantizeOptions)
        check_values(QuantizeOptions, options)
        for field in fields(self):
            value = options.get(field.name)
            default = _COMPUTED.get(field.name, known[field.name].default)
            object.__setattr__(self, field.name, default if value is None else value)
        if self.loop_timeout is not None:
            object.__setattr__(self, "loop_timeout", timeout.checked(self.loop_timeout))  # one warning
        self._check()

    def _check(self) -> None:
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
        if self.use_lpbq and self.weights_block_size is None:
            raise UsageError(
                "LPBQ has scales per block, and no size of a block is given",
                where="use_lpbq",
                fix="pass weights_block_size too, like 64",
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> QuantOptions:
        """Return the options of keyword arguments.

        Raises:
            UsageError: If one is not known, or a value does not exist.
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                hint = nearest_names(name, known) or f"options: {', '.join(known)}"
                raise UsageError(f"quantize has no option {name!r}", fix=hint)
        lists = {name: options[name] for name in _LISTS if name in options}
        names = {name: (value,) if isinstance(value, str) else tuple(value) for name, value in lists.items()}
        return cls(**{**options, **names})

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
        defaults = QuantOptions()
        return {
            field.name: ",".join(value) if field.name in _LISTS else str(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) != getattr(defaults, field.name) or field.name in always
            if field.name not in ("jobs", "loop_timeout")  # the result does not depend on them
        }
