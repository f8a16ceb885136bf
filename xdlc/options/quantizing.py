"""Options of the quantizer."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from xdlc.options import MAX_DIM, Names, Option, PathLike
from xdlc.options.graphs import OverrideMissing
from xdlc.options.running import KernelOptions, WorkerOptions
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


class QuantizeOptions(KernelOptions, WorkerOptions, total=False):
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
        Option(
            "Keep these ops in float. Pass the name of an op, of a source node or of a tensor.",
            default=(),
            metavar="A,B",
        ),
    ]
    act_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Set the bits of the tensors that one op reads and writes, or of an input. Name the op as in "
            "{float_ops}.",
            choices=ACTIVATION_BITS,
            metavar="NAME BITS",
        ),
    ]
    weights_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Set the bits of one op's weights. Name the op as in {float_ops}.",
            choices=WEIGHT_BITS,
            metavar="NAME BITS",
        ),
    ]
    tie: Annotated[
        Sequence[Sequence[str]] | None,
        Option(
            "Use one encoding for all these tensors, so that equal stored integers mean equal values.",
            default_text="the input and the output of each state and cache",
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
        Option("Use one weight scale for each output of FullyConnected and MatMul.", default=True),
    ]
    act_quantizer_calibration: Annotated[
        str,
        Option("Choose activation ranges this way.", default="auto", choices=RANGE_METHODS, is_open=True),
    ]
    param_quantizer_calibration: Annotated[
        str,
        Option("Choose weight ranges this way.", default="auto", choices=RANGE_METHODS, is_open=True),
    ]
    act_quantizer_schema: Annotated[
        str,
        Option("Use this schema for activations.", default="asymmetric", choices=SCHEMAS, metavar="NAME"),
    ]
    param_quantizer_schema: Annotated[
        str,
        Option(
            "Use this schema for 8-bit weights with a single scale. All other weights are symmetric.",
            default="asymmetric",
            choices=SCHEMAS,
            metavar="NAME",
        ),
    ]
    percentile_calibration_value: Annotated[
        float,
        Option(
            "If the range method is percentile, include this percentage of the values in the range.",
            default=99.99,
            limits=(90, 100),
            metavar="PERCENT",
        ),
    ]
    restrict_quantization_steps: Annotated[
        tuple[int, int] | None,
        Option(
            "Limit the stored integers of symmetric weights to this range, like -0x80,0x7F.",
            metavar="LOW,HIGH",
        ),
    ]
    weights_block_size: Annotated[
        int | None,
        Option(
            "Use one scale for each block of this many weights along the input axis.",
            limits=(1, MAX_DIM),
            metavar="N",
            default_text="all",
        ),
    ]
    weights_only: Annotated[
        bool,
        Option(
            "Quantize only weights, without calibration. Activations stay floats of {float_bitwidth} bits.",
            default=False,
        ),
    ]
    use_lpbq: Annotated[
        bool,
        Option(
            "Store the scale of each block as an integer times one float scale of the channel. HTP needs "
            "this option for integer activations, and keeps 4 bits only in blocks of 16 or 32 weights.",
            default=False,
        ),
    ]
    adjust_bias_encoding: Annotated[
        bool, Option("Increase the scale of weights if their bias would overflow 32 bits.", default=True)
    ]
    bias_correction: Annotated[
        bool,
        Option(
            "Correct biases for the mean error of rounded weights, if this improves the result on held-out "
            "samples.",
            default=True,
        ),
    ]
    bound_attention_masks: Annotated[
        bool,
        Option(
            "Limit the values of attention masks before a Softmax, so that attention scores keep a fine "
            "scale.",
            default=True,
        ),
    ]
    drop_nan_checks: Annotated[
        bool, Option("Remove NaN checks of quantized tensors, which cannot hold NaN.", default=True)
    ]
    one_act_bitwidth: Annotated[
        bool,
        Option(
            "Use one width for all activations: xdlc widens no activation to 16 bits. HTA needs this option.",
            default=False,
        ),
    ]
    enable_float_fallback: Annotated[
        bool,
        Option(
            "Do not calibrate, and keep tensors without an encoding in float.",
            default=False,
            flags=("-f", "--enable-float-fallback"),
        ),
    ]
    algorithms: Annotated[
        Names, Option("Apply these accuracy algorithms.", default=(), choices=ALGORITHMS, metavar="A,B")
    ]
    min_sqnr: Annotated[
        float | None,
        Option(
            "Use more bits in as few ops as possible until each output has an SQNR like 30 dB (error 3 %).",
            metavar="DB",
        ),
    ]
    max_sqnr_drop: Annotated[
        float | None,
        Option(
            "Use more bits in as few ops as possible, until each output loses at most this many dB of SQNR "
            "compared with 16-bit activations. 6 dB doubles the error.",
            metavar="DB",
        ),
    ]
    accuracy: Annotated[
        str,
        Option(
            "Use more bits where outputs lose accuracy. fast adds no bits. balanced uses up to 16 bits for "
            "activations. best also uses 16 bits for weights, or floats if the SoC supports floats.",
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
            "Fail if an output has a lower SQNR on held-out samples, like 20 dB (error 10 %). Also fail if "
            "less than 90 % of an output's results match the float model.",
            metavar="DB",
        ),
    ]
    output_kind: Annotated[
        Mapping[str, str] | None,
        Option(
            "State what the values of an output mean. The kind decides which accuracy figures xdlc computes.",
            choices=tuple(OutputKind),
            metavar="NAME KIND",
            default_text="inferred",
        ),
    ]
    evaluate: Annotated[
        Callable[[Callable[[Mapping[str, Any]], dict[str, Any]]], float] | str | None,
        Option(
            "Measure accuracy with your function instead of SQNR: FUNCTION(run) returns a number; higher is "
            "better. run(inputs) runs the model with inputs by name, and returns outputs by name.",
            metavar="FILE.py:FUNCTION",
        ),
    ]
    min_score: Annotated[
        float | None,
        Option(
            "Use more bits in as few ops as possible, until {evaluate} returns at least this number.",
            metavar="NUMBER",
        ),
    ]
    quantization_overrides: Annotated[
        PathLike | Mapping[str, Any] | None,
        Option(
            "Use the encodings of this JSON file, in the vendor's format or AIMET's versions 0.4 to 2.0.",
            metavar="FILE",
        ),
    ]
    override_missing: OverrideMissing
    ignore_quantization_overrides: Annotated[
        bool,
        Option(
            "Ignore encodings that the DLC stores for float tensors. For a quantized DLC, use {requantize}.",
            default=False,
        ),
    ]
    requantize: Annotated[
        bool,
        Option(
            "Quantize a quantized DLC again. xdlc first converts the DLC to a float model.", default=False
        ),
    ]
    loop_timeout: Annotated[
        float | None,
        Option(
            "Stop a loop of the model after this many seconds, at most 15.",
            default_text="3",
            metavar="SECONDS",
        ),
    ]
