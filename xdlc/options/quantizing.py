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
        Option("Bits of weights; 16 only with 16-bit activations.", default=8, choices=WEIGHT_BITS),
    ]
    act_bitwidth: Annotated[int, Option("Bits of activations.", default=8, choices=ACTIVATION_BITS)]
    bias_bitwidth: Annotated[int, Option("Bits of biases.", default=32, choices=(8, 32))]
    float_bitwidth: Annotated[
        int | str,
        Option(
            "Data type of ops that stay float: 32 or 16 bits, or bf16.", default=32, choices=(32, 16, "bf16")
        ),
    ]
    float_ops: Annotated[
        Names,
        Option(
            "Ops that stay float, by name of the op, of a source node or of a tensor that it writes.",
            default=(),
            metavar="A,B",
        ),
    ]
    act_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Bits of the activations that one op reads and writes, by the names of {float_ops}; or of an "
            "input, and of what is tied to it.",
            choices=ACTIVATION_BITS,
            metavar="NAME BITS",
        ),
    ]
    weights_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Bits of one op's weights, by the names of {float_ops}.", choices=WEIGHT_BITS, metavar="NAME BITS"
        ),
    ]
    tie: Annotated[
        Sequence[Sequence[str]] | None,
        Option(
            "Tensors that share one encoding, so that stored values of one are those of another.",
            default_text="states and their next values, caches",
            metavar="NAME NAME [NAME..]",
        ),
    ]
    use_per_channel_quantization: Annotated[
        bool | None,
        Option(
            "Use one scale per output channel of convolution weights.",
            default_text="yes",
            flags=("--use-per-channel-quantization/--no-per-channel-quantization",),
        ),
    ]
    use_per_row_quantization: Annotated[
        bool,
        Option(
            "Use one scale per output of FullyConnected and MatMul weights.",
            default=True,
        ),
    ]
    act_quantizer_calibration: Annotated[
        str, Option("Range method for activations.", default="auto", choices=RANGE_METHODS, is_open=True)
    ]
    param_quantizer_calibration: Annotated[
        str, Option("Range method for weights.", default="auto", choices=RANGE_METHODS, is_open=True)
    ]
    act_quantizer_schema: Annotated[
        str,
        Option("Quantization schema of activations.", default="asymmetric", choices=SCHEMAS, metavar="NAME"),
    ]
    param_quantizer_schema: Annotated[
        str,
        Option(
            "Quantization schema of 8-bit weights with one scale; all other weights are symmetric.",
            default="asymmetric",
            choices=SCHEMAS,
            metavar="NAME",
        ),
    ]
    percentile_calibration_value: Annotated[
        float,
        Option(
            "Percentage of the values that the range method percentile covers.",
            default=99.99,
            limits=(90, 100),
            metavar="PERCENT",
        ),
    ]
    restrict_quantization_steps: Annotated[
        tuple[int, int] | None,
        Option(
            "Smallest and largest quantized value of symmetric weights, like -0x80,0x7F.", metavar="LOW,HIGH"
        ),
    ]
    weights_block_size: Annotated[
        int | None,
        Option(
            "Number of weights along the input axis that share a scale.",
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
            "Store the scales of blocks as integers times a float scale per channel, as HTP needs them; "
            "blocks of 16 or 32 keep 4 bits there.",
            default=False,
        ),
    ]
    adjust_bias_encoding: Annotated[
        bool, Option("Widen scales of weights whose bias would overflow 32 bits.", default=True)
    ]
    bias_correction: Annotated[
        bool,
        Option(
            "Correct biases for the shift of channel means by rounded weights, if that improves the outputs "
            "of held-out samples.",
            default=True,
        ),
    ]
    bound_attention_masks: Annotated[
        bool,
        Option(
            "Bound masks before a Softmax, so that scores keep the steps of their encoding.", default=True
        ),
    ]
    drop_nan_checks: Annotated[
        bool, Option("Remove NaN checks of fixed-point values, which are never NaN.", default=True)
    ]
    one_act_bitwidth: Annotated[
        bool,
        Option("Widen no activations to 16 bits where 8 bits lose values, as HTA needs it.", default=False),
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
        Names, Option("Accuracy algorithms.", default=(), choices=ALGORITHMS, metavar="A,B")
    ]
    min_sqnr: Annotated[
        float | None,
        Option("Raise as few activations to 16 bits as each output needs for this SQNR.", metavar="DB"),
    ]
    max_sqnr_drop: Annotated[
        float | None,
        Option(
            "Raise as few activations to 16 bits as each output needs to lose at most this much SQNR "
            "against all of them at 16 bits.",
            metavar="DB",
        ),
    ]
    accuracy: Annotated[
        str,
        Option(
            "Raise widths as far as the outputs need: fast does not, balanced up to 16-bit activations, best "
            "up to 16-bit weights, and floats if the target supports them.",
            default="fast",
            choices=("fast", "balanced", "best"),
        ),
    ]
    target: Annotated[
        str | None,
        Option(
            "SoC, like sm8650, whose supported widths are used; other widths are refused.",
            metavar="SOC",
            flags=("--soc", "--target"),
        ),
    ]
    fail_below: Annotated[
        float | None,
        Option(
            "Fail if an output has a lower SQNR on held-out samples, or keeps less than 90 % of the float "
            "task; a tool then writes no file and exits with 5.",
            metavar="DB",
        ),
    ]
    output_kind: Annotated[
        Mapping[str, str] | None,
        Option(
            "Meaning of an output, which decides how it is judged.",
            choices=tuple(OutputKind),
            metavar="NAME KIND",
            default_text="inferred",
        ),
    ]
    evaluate: Annotated[
        Callable[[Callable[[Mapping[str, Any]], dict[str, Any]]], float] | str | None,
        Option(
            "Measure accuracy by a function instead of SQNR: FUNCTION(run) returns a number, the higher the "
            "better; run(inputs) returns the outputs, both by name. FILE.py is executed.",
            metavar="FILE.py:FUNCTION",
        ),
    ]
    min_score: Annotated[
        float | None, Option("Least number that {evaluate} has to return.", metavar="NUMBER")
    ]
    quantization_overrides: Annotated[
        PathLike | Mapping[str, Any] | None,
        Option(
            "JSON file of encodings to use instead of calibrated ones: the vendor's form, or AIMET's 0.4 to "
            "2.0.",
            metavar="FILE",
        ),
    ]
    override_missing: OverrideMissing
    ignore_quantization_overrides: Annotated[
        bool,
        Option(
            "Drop the encodings of float tensors in the model; for a quantized DLC use {requantize}.",
            default=False,
        ),
    ]
    requantize: Annotated[
        bool,
        Option(
            "Read a quantized DLC as a float model: weights with their stored precision, no encodings.",
            default=False,
        ),
    ]
    jobs: Annotated[
        int,
        Option(
            "Number of calibration processes; the result does not depend on it.", default=1, limits=(1, 256)
        ),
    ]
    loop_timeout: Annotated[
        float | None,
        Option(
            "Time limit of each loop whenever the model runs, at most 15.",
            default_text="3",
            metavar="SECONDS",
        ),
    ]
