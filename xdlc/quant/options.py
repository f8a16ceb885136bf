"""What a user can ask of the quantizer."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.errors import UsageError

_CHOICES = {"weights_bitwidth": (4, 8, 16), "act_bitwidth": (8, 16), "bias_bitwidth": (8, 32)}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantOptions:
    """Bit widths and granularity, under the names of the vendor's flags.

    Attributes:
        weights_bitwidth: 4, 8 or 16 (16 only with 16-bit activations, as HTP has it).
        act_bitwidth: 8 or 16.
        bias_bitwidth: 32 (scale is that of input times weight) or 8 (own range; beside per-channel
            weights the bias keeps 32 bits, for HTP has no other kernel).
        use_per_channel_quantization: One scale per output channel of convolution and fully connected
            weights, else one per tensor.

    Raises:
        UsageError: For a width that does not exist, or a combination that no backend runs.
    """

    weights_bitwidth: int = 8
    act_bitwidth: int = 8
    bias_bitwidth: int = 32
    use_per_channel_quantization: bool = True

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"expected one of {', '.join(map(str, choices))}, found {getattr(self, name)!r}",
                    where=name,
                    fix=f"pass one of {', '.join(map(str, choices))}",
                )
        if self.weights_bitwidth == 16 and self.act_bitwidth == 8:
            raise UsageError(
                "16-bit weights with 8-bit activations: HTP has no such kernel",
                where="weights_bitwidth",
                fix="pass act_bitwidth=16 too, or weights_bitwidth=8",
            )
