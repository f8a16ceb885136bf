"""Options of the quantizer."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from xdlc.options import MAX_DIM, Names, Option, PathLike
from xdlc.options.graphs import OverrideMissing
from xdlc.options.running import KernelOptions
from xdlc.registry import module_names

SCHEMAS = ("asymmetric", "symmetric", "unsignedsymmetric")
"""Place of a range about zero: anywhere; as far below as above; that, stored unsigned."""
WEIGHT_BITS = (2, 4, 8, 16)
ACTIVATION_BITS = (8, 16)
RANGE_METHODS = tuple(name.replace("_", "-") for name in module_names("xdlc.quant.range_methods"))
ALGORITHMS = module_names("xdlc.quant.algorithms")


class OutputKind(StrEnum):
    """What an application reads from an output."""

    CLASSES = "classes"
    """Logits or probabilities of classes along the last axis: the largest one counts."""
    LABELS = "labels"
    """Integers: equality counts."""
    MAP = "map"
    """A mask: which pixels are above the threshold counts."""
    SCORES = "scores"
    """Scores of candidates: which are above the threshold counts."""
    BOXES = "boxes"
    """Coordinates of many candidates."""
    LANDMARKS = "landmarks"
    """Coordinates of one object."""
    EMBEDDING = "embedding"
    """A vector whose direction counts."""
    SIGNAL = "signal"
    """Audio, pictures and other values that count as they are."""


class QuantizeOptions(KernelOptions, total=False):
    """Options of ``quantize``."""

    weights_bitwidth: Annotated[
        int,
        Option("Use this many bits for weights; 16 needs {act_bitwidth} 16.", default=8, choices=WEIGHT_BITS),
    ]
    act_bitwidth: Annotated[
        int, Option("Use this many bits for activations.", default=8, choices=ACTIVATION_BITS)
    ]
    bias_bitwidth: Annotated[int, Option("Use this many bits for biases.", default=32, choices=(8, 32))]
    float_bitwidth: Annotated[
        int | str,
        Option(
            "Use this type for ops that stay float: 32 or 16 bits, or bf16.",
            default=32,
            choices=(32, 16, "bf16"),
        ),
    ]
    float_ops: Annotated[
        Names,
        Option("Keep ops float, by name of op, source node or tensor.", default=(), metavar="A,B"),
    ]
    act_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Set the bits of what one op reads and writes, by the names of {float_ops}, or of an input.",
            choices=ACTIVATION_BITS,
            metavar="NAME BITS",
        ),
    ]
    weights_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Set the bits of one op's weights, by the names of {float_ops}.",
            choices=WEIGHT_BITS,
            metavar="NAME BITS",
        ),
    ]
    tie: Annotated[
        Sequence[Sequence[str]] | None,
        Option(
            "Give these tensors one encoding, so that they share stored values.",
            default_text="states and their next values, caches",
            metavar="NAME NAME [NAME..]",
        ),
    ]
    use_per_channel_quantization: Annotated[
        bool | None,
        Option(
            "Use one scale for each output channel of convolution weights.",
            default_text="yes",
            flags=("--use-per-channel-quantization/--no-per-channel-quantization",),
        ),
    ]
    use_per_row_quantization: Annotated[
        bool,
        Option("Use one scale for each output of FullyConnected and MatMul.", default=True),
    ]
    act_quantizer_calibration: Annotated[
        str,
        Option("Use this range method for activations.", default="auto", choices=RANGE_METHODS, is_open=True),
    ]
    param_quantizer_calibration: Annotated[
        str, Option("Use this range method for weights.", default="auto", choices=RANGE_METHODS, is_open=True)
    ]
    act_quantizer_schema: Annotated[
        str,
        Option("Use this schema for activations.", default="asymmetric", choices=SCHEMAS, metavar="NAME"),
    ]
    param_quantizer_schema: Annotated[
        str,
        Option(
            "Use this schema for 8-bit weights with one scale. All other weights are symmetric.",
            default="asymmetric",
            choices=SCHEMAS,
            metavar="NAME",
        ),
    ]
    percentile_calibration_value: Annotated[
        float,
        Option(
            "Cover this percentage of the values with the range method percentile.",
            default=99.99,
            limits=(90, 100),
            metavar="PERCENT",
        ),
    ]
    restrict_quantization_steps: Annotated[
        tuple[int, int] | None,
        Option("Limit values of symmetric weights to this range, like -0x80,0x7F.", metavar="LOW,HIGH"),
    ]
    weights_block_size: Annotated[
        int | None,
        Option(
            "Use one scale for this many weights along the input axis.",
            limits=(1, MAX_DIM),
            metavar="N",
            default_text="all",
        ),
    ]
    weights_only: Annotated[
        bool,
        Option(
            "Quantize weights alone, without calibration; activations stay floats of {float_bitwidth}. HTP "
            "multiplies by the integers in FullyConnected and Conv2d of 1x1.",
            default=False,
        ),
    ]
    use_lpbq: Annotated[
        bool,
        Option(
            "Store the scales of blocks as integers times a float scale per channel, as HTP needs them. "
            "Blocks of 16 or 32 weights keep 4 bits on HTP.",
            default=False,
        ),
    ]
    adjust_bias_encoding: Annotated[
        bool, Option("Widen scales of weights whose bias would overflow 32 bits.", default=True)
    ]
    bias_correction: Annotated[
        bool,
        Option("Correct biases for the shift by rounded weights, if held-out samples improve.", default=True),
    ]
    bound_attention_masks: Annotated[
        bool,
        Option("Bound masks before a Softmax, so that scores keep their steps.", default=True),
    ]
    drop_nan_checks: Annotated[bool, Option("Remove NaN checks of fixed-point values.", default=True)]
    one_act_bitwidth: Annotated[
        bool,
        Option("Do not widen activations to 16 bits, as HTA needs.", default=False),
    ]
    enable_float_fallback: Annotated[
        bool,
        Option(
            "Keep tensors without an encoding float, without calibration.",
            default=False,
            flags=("-f", "--enable-float-fallback"),
        ),
    ]
    algorithms: Annotated[
        Names, Option("Apply these accuracy algorithms.", default=(), choices=ALGORITHMS, metavar="A,B")
    ]
    min_sqnr: Annotated[
        float | None,
        Option("Raise as few activations to 16 bits as each output needs for this SQNR.", metavar="DB"),
    ]
    max_sqnr_drop: Annotated[
        float | None,
        Option(
            "Raise as few activations as each output needs to lose at most this against 16-bit activations.",
            metavar="DB",
        ),
    ]
    accuracy: Annotated[
        str,
        Option(
            "Raise widths as far as the outputs need. fast raises none, balanced goes up to 16-bit "
            "activations. best goes up to 16-bit weights, and to floats if the SoC supports them.",
            default="fast",
            choices=("fast", "balanced", "best"),
        ),
    ]
    target: Annotated[
        str | None,
        Option(
            "Use only the widths that this SoC supports, like sm8650. xdlc refuses other widths.",
            metavar="SOC",
            flags=("--soc", "--target"),
        ),
    ]
    fail_below: Annotated[
        float | None,
        Option(
            "Fail if an output has a lower SQNR on held-out samples, or keeps less than 90 % of the float "
            "task. A tool then writes no file and exits with 5.",
            metavar="DB",
        ),
    ]
    output_kind: Annotated[
        Mapping[str, str] | None,
        Option(
            "State what an output means, which decides how xdlc judges it.",
            choices=tuple(OutputKind),
            metavar="NAME KIND",
            default_text="inferred",
        ),
    ]
    evaluate: Annotated[
        Callable[[Callable[[Mapping[str, Any]], dict[str, Any]]], float] | str | None,
        Option(
            "Measure accuracy by your function instead of SQNR: FUNCTION(run) returns a number, the higher "
            "the better. run(inputs) returns the outputs, both by name. xdlc executes FILE.py.",
            metavar="FILE.py:FUNCTION",
        ),
    ]
    min_score: Annotated[float | None, Option("Require this number from {evaluate}.", metavar="NUMBER")]
    quantization_overrides: Annotated[
        PathLike | Mapping[str, Any] | None,
        Option(
            "Use the encodings of this JSON file: the vendor's form, or AIMET's 0.4 to 2.0.", metavar="FILE"
        ),
    ]
    override_missing: OverrideMissing
    ignore_quantization_overrides: Annotated[
        bool,
        Option("Drop encodings of float tensors; for a quantized DLC use {requantize}.", default=False),
    ]
    requantize: Annotated[
        bool,
        Option("Read a quantized DLC as a float model.", default=False),
    ]
    jobs: Annotated[
        int,
        Option("Calibrate with this many processes; the result stays the same.", default=1, limits=(1, 256)),
    ]
    loop_timeout: Annotated[
        float | None,
        Option(
            "Stop a loop after this many seconds whenever the model runs, at most 15.",
            default_text="3",
            metavar="SECONDS",
        ),
    ]
