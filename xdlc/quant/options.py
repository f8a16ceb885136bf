"""Options of the quantizer, checked together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Unpack

from xdlc.errors import UsageError, nearest_names
from xdlc.options import check_values, options_of, spell
from xdlc.options.quantizing import QuantizeOptions
from xdlc.options.running import KernelOptions, WorkerOptions
from xdlc.runtime import timeout
from xdlc.targets import Soc, find_soc

_LISTS = ("algorithms", "float_ops")
_OF_THE_CALL = (
    *options_of(KernelOptions),
    "fail_below",
    "evaluate",
    "min_score",
    "quantization_overrides",
    "ignore_quantization_overrides",
    "requantize",
)
"""Options of ``xdlc.quant.quantize`` that no step reads later."""
_COMPUTED = {
    "use_per_channel_quantization": True,
    "act_bitwidth_of": {},
    "weights_bitwidth_of": {},
    "output_kind": {},
    "tie": (),
}
"""Values of omitted options without a default."""


class QuantOptions(SimpleNamespace):
    """Values of the options that decide how a model is quantized.

    Each is an attribute of its name.

    Raises:
        UsageError: For an unknown option, a value that does not exist, or a combination that no backend runs.
    """

    def __init__(self, **options: Unpack[QuantizeOptions]) -> None:
        stated = options_of(QuantizeOptions).items()
        values = {name: option.default for name, option in stated if name not in _OF_THE_CALL} | _COMPUTED
        for name in options:
            if name not in values:
                hint = nearest_names(name, values) or f"use one of {', '.join(values)}"
                raise UsageError(f"quantize has no option {name!r}", fix=hint)
        check_values(QuantizeOptions, options)
        values |= {name: value for name, value in options.items() if value is not None}
        for name in _LISTS:
            values[name] = (values[name],) if isinstance(values[name], str) else tuple(values[name])
        values["enable_float_fallback"] |= values["weights_only"]
        if values["loop_timeout"] is not None:
            values["loop_timeout"] = timeout.checked(values["loop_timeout"])  # one warning
        super().__init__(**values)
        self._check()

    def _check(self) -> None:
        if self.weights_bitwidth == 16 and self.act_bitwidth == 8:
            raise UsageError(
                "HTP has no kernel for 16-bit weights with 8-bit activations",
                where=spell("weights_bitwidth"),
                fix=f"pass {spell('act_bitwidth', 16)} too, or {spell('weights_bitwidth', 8)}",
                code="XD214",
            )

        steps = self.restrict_quantization_steps
        if steps is not None and not (len(steps) == 2 and steps[0] < 0 < steps[1]):
            raise UsageError(
                f"the steps are {steps!r}, not an integer below zero and an integer above zero",
                where=spell("restrict_quantization_steps"),
                fix="pass the smallest and the largest step, like -0x80 and 0x7F",
            )
        if self.use_lpbq and self.weights_only:
            raise UsageError(
                f"{spell('weights_only')} keeps float activations, but LPBQ needs integer activations",
                where=spell("use_lpbq"),
                fix=f"omit it, or {spell('weights_only', True)}",
            )
        if self.tie and self.weights_only:
            raise UsageError(
                "tied activations share an encoding, but float activations have no encoding",
                where=spell("tie"),
                fix=f"omit it, or {spell('weights_only', True)}",
            )
        if self.use_lpbq and self.weights_block_size is None:
            raise UsageError(
                "LPBQ needs a block size, because each block has a scale",
                where=spell("use_lpbq"),
                fix=f"add {spell('weights_block_size', 32)}",
            )

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
        defaults = vars(QuantOptions())
        return {
            name: ",".join(value) if name in _LISTS else str(value)
            for name, value in vars(self).items()
            if value != defaults[name] or name in always
            if name not in (*options_of(WorkerOptions), "loop_timeout")  # the result does not depend on them
        }
