"""Flags of the quantizing tools, those of the vendor's quantizers among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from xdlc.cli import params
from xdlc.registry import module_names

Decorator = Callable[..., Any]

METHODS = tuple(name.replace("_", "-") for name in module_names("xdlc.quant.range_methods"))
"""Range methods, each a module of that name."""
ALGORITHMS = tuple(module_names("xdlc.quant.algorithms"))
"""Accuracy algorithms, each a module of that name."""
KINDS = ("classes", "labels", "map", "scores", "boxes", "landmarks", "embedding", "signal")
ACCURACY = ("fast", "balanced", "best")
SCHEMAS = ("asymmetric", "symmetric", "unsignedsymmetric")
SAMPLES = (
    "A line of the input list is one calibration sample: `path` for a model with one input, "
    "`name:=path name2:=path2` for several. Files are raw little-endian float32, or .npy. Instead of a list, "
    "one .npz (or .npy for a model with one input) may hold all samples along a first axis. "
    "Flags of snpe-dlc-quant and qairt-quantizer are accepted under their names, discontinued ones too."
)
BESIDE = "<result>_encoding.json"
"""File of encodings where the flag has no value."""
VERSIONS = ("0.4.0", "0.5.0", "0.6.1", "1.0.0", "2.0.0")


def _integer(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else int(value)


def _float_type(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    return int(value) if value is not None and value.isdecimal() else value


def _names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else params.names(_ctx, _param, value)


def _algorithms(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    found = params.names(ctx, param, ",".join(value))
    return tuple("bias_correction" if name == "bc" else name for name in found) or None


def _steps(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    try:
        return None if value is None else tuple(int(word, 0) for word in value.replace(",", " ").split())
    except ValueError:
        fix = "give the smallest and the largest step around zero, like -0x80,0x7F or -128,127"
        raise params.BadValue(f"{value!r} is no range of steps", fix) from None


def _bits_by_name(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, int] | None:
    return {name: int(bits) for name, bits in value} or None


def _kinds_by_name(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, str] | None:
    return dict(value) or None


def _bits(*names: str, choices: tuple[int, ...], text: str) -> Decorator:
    kind = click.Choice([str(bits) for bits in choices])
    return click.option(*names, type=kind, callback=_integer, help=text)


def _choice(*names: str, choices: tuple[str, ...], text: str) -> Decorator:
    return click.option(*names, type=click.Choice(choices), help=text, metavar="NAME")


def _switch(name: str, text: str) -> Decorator:
    return click.option(f"--{name}/--no_{name}", default=None, help=f"{text}  [default: yes]")


_WIDTHS = (
    _bits("--weights_bitwidth", choices=(2, 4, 8, 16), text="Bits of weights.  [default: 8]"),
    _bits("--act_bitwidth", choices=(8, 16), text="Bits of activations.  [default: 8]"),
    _bits("--bias_bitwidth", choices=(8, 32), text="Bits of biases.  [default: 32]"),
    click.option(
        "--float_bitwidth",
        type=click.Choice(["32", "16", "bf16"]),
        callback=_float_type,
        help="Data type of ops that stay float: 32 or 16 bits, or bf16.  [default: 32]",
    ),
    click.option(
        "--use_per_channel_quantization/--no_per_channel_quantization",
        default=None,
        help="Use one scale per output channel of convolution weights.  [default: yes]",
    ),
    click.option(
        "--use_per_row_quantization/--no_per_row_quantization",
        default=None,
        help="Use one scale per output of FullyConnected and MatMul weights.  [default: yes]",
    ),
    click.option(
        "--weights_block_size",
        type=params.DIMENSION,
        metavar="N",
        help="Number of weights along the input axis that share a scale.",
    ),
    click.option(
        "--use_lpbq",
        is_flag=True,
        default=None,
        help="Store the scales of blocks of weights as integers times a scale per channel, as on HTP.",
    ),
)
_RANGES = (
    click.option(
        "--act_quantizer_calibration",
        type=click.Choice(METHODS),
        metavar="NAME",
        help=f"Range method for activations: {', '.join(METHODS)}.  [default: auto]",
    ),
    click.option(
        "--param_quantizer_calibration",
        type=click.Choice(METHODS),
        metavar="NAME",
        help=f"Range method for weights: {', '.join(METHODS)}.  [default: auto]",
    ),
    _choice(
        "--act_quantizer_schema",
        choices=SCHEMAS,
        text=f"Quantization schema of activations: {', '.join(SCHEMAS)}.  [default: asymmetric]",
    ),
    _choice(
        "--param_quantizer_schema",
        choices=SCHEMAS,
        text=f"Quantization schema of 8-bit weights with one scale; others are symmetric: "
        f"{', '.join(SCHEMAS)}.  [default: asymmetric]",
    ),
    click.option(
        "--percentile_calibration_value",
        type=params.NumberRange(90, 100),
        metavar="PERCENT",
        help="Percentage of the values that the range method percentile covers.  [default: 99.99]",
    ),
    click.option(
        "--restrict_quantization_steps",
        callback=_steps,
        metavar="LOW,HIGH",
        help="Smallest and largest quantized value of symmetric weights, like -0x80,0x7F.",
    ),
    _switch("adjust_bias_encoding", "Widen scales of weights whose bias would overflow 32 bits."),
    _switch("bias_correction", "Correct biases by what rounding weights adds, where outputs gain by it."),
    _switch("bound_attention_masks", "Bound masks before a Softmax, so that scores keep their steps."),
    _switch("drop_nan_checks", "Remove tests for NaN of values in fixed point, which hold none."),
)
_ACCURACY = (
    click.option(
        "--accuracy",
        type=click.Choice(ACCURACY),
        help="Raise widths as far as the outputs need: fast not at all, balanced to 16-bit activations, best "
        "to 16-bit weights and floats where the target has them.  [default: fast]",
    ),
    click.option(
        "--algorithms",
        callback=_algorithms,
        multiple=True,
        metavar="A,B",
        help=f"Accuracy algorithms: {', '.join(ALGORITHMS)}. Repeatable.",
    ),
    click.option(
        "--min_sqnr",
        type=float,
        metavar="DB",
        help="Raise as few activations to 16 bits as each output needs for this SQNR.",
    ),
    click.option(
        "--max_sqnr_drop",
        type=float,
        metavar="DB",
        help="Raise as few activations to 16 bits as each output needs to lose at most this much SQNR "
        "against all of them at 16 bits.",
    ),
    click.option(
        "--fail_below",
        type=float,
        metavar="DB",
        help="Write nothing and exit with 5 if an output has a lower SQNR on held-out samples, "
        "or is useless.",
    ),
    click.option(
        "--output_kind",
        callback=_kinds_by_name,
        multiple=True,
        type=(str, click.Choice(KINDS)),
        metavar="NAME KIND",
        help=f"What one output is judged as: {', '.join(KINDS)}. Repeatable.  [default: inferred]",
    ),
    click.option(
        "--evaluate",
        metavar="FILE.py:FUNCTION",
        help="Measure accuracy by a function of yours instead of SQNR: FUNCTION(run) returns a number; the "
        "file's code is run.",
    ),
    click.option(
        "--min_score", type=float, metavar="NUMBER", help="Least number that --evaluate has to return."
    ),
    click.option("--float_ops", callback=_names, metavar="A,B", help="Names of ops that stay float."),
    click.option(
        "--act_bitwidth_of",
        callback=_bits_by_name,
        multiple=True,
        type=(str, click.Choice(["8", "16"])),
        metavar="NAME BITS",
        help="Bits of the activations that one op reads and writes. Repeatable.",
    ),
    click.option(
        "--weights_bitwidth_of",
        callback=_bits_by_name,
        multiple=True,
        type=(str, click.Choice(["2", "4", "8", "16"])),
        metavar="NAME BITS",
        help="Bits of one op's weights. Repeatable.",
    ),
    click.option(
        "--target", metavar="SOC", help="SoC whose supported widths are chosen; others are refused."
    ),
)
_OVERRIDES = (
    click.option(
        "--quantization_overrides",
        type=params.INPUT_FILE,
        metavar="FILE",
        help="JSON file of encodings to use: the vendor's form, or AIMET's 0.4 to 2.0.",
    ),
    click.option(
        "--override_missing",
        type=click.Choice(["error", "warn"]),
        help="Treat names of --quantization_overrides that match nothing as errors, or warn of them.  "
        "[default: error]",
    ),
    click.option(
        "--ignore_quantization_overrides",
        is_flag=True,
        help="Drop the encodings of float tensors in the model; for those of a quantized DLC: --requantize.",
    ),
    click.option(
        "--requantize",
        is_flag=True,
        help="Read a quantized DLC as a float model: weights with their stored precision, no encodings.",
    ),
    click.option(
        "--one_act_bitwidth",
        is_flag=True,
        default=None,
        help="Widen no activations to 16 bits where 8 lose values, which is the default with --enable_hta.",
    ),
    click.option(
        "--enable_float_fallback",
        "-f",
        is_flag=True,
        default=None,
        help="Keep tensors without an encoding float, without calibration.",
    ),
)
_RESULTS = (
    click.option(
        "--report",
        type=params.OUTPUT_FILE,
        metavar="FILE",
        help="Write a report on the accuracy of each tensor: .html, .json or .csv.",
    ),
    click.option(
        "--report_list",
        type=params.INPUT_FILE,
        metavar="FILE",
        help="Samples for the figures and the report that calibration does not see.  [default: every fifth "
        "of those of calibration]",
    ),
    click.option(
        "--export_encodings",
        type=params.OUTPUT_FILE,
        is_flag=False,
        flag_value=BESIDE,
        metavar="FILE",
        help="Write all encodings as JSON.  [default for FILE: the result's name_encoding.json]",
    ),
    click.option(
        "--encoding_version",
        type=click.Choice(VERSIONS),
        default="1.0.0",
        show_default=True,
        help="Version of the JSON of --export_encodings.",
    ),
)


_FILES = (
    click.option("--input_dlc", "-i", "source", type=params.INPUT_FILE, required=True, help="The DLC."),
    click.option("--input_list", "-l", type=params.INPUT_FILE, help="Input list of the calibration samples."),
    click.option(
        "--use_native_input_files",
        "native",
        is_flag=True,
        help="Read raw files in the inputs' own datatypes instead of float32; integers are read so in any "
        "case.",
    ),
    click.option(
        "--output_dlc",
        "-o",
        "target_dlc",
        type=params.OUTPUT_FILE,
        help="The result.  [default: <input>_quantized.dlc]",
    ),
)
_JOBS = click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of calibration processes.",
)
_LOOPS = click.option(
    "--loop_timeout",
    type=float,
    metavar="SECONDS",
    help="Time that each loop may take while the model runs, at most 15.  [default: 3]",
)


def file_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of the DLC that is read, the samples, and the result."""
    return params.with_options(function, *_FILES)


def quantizer_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of quantizing, of UDO kernels, and of the files written beside the DLC.

    Those of quantizing and of kernels that are omitted are None.
    """
    function = params.kernel_flags(params.with_options(function, *_RESULTS, params.DLC_VERSION))
    return params.with_options(function, *_WIDTHS, *_RANGES, *_ACCURACY, *_OVERRIDES, _JOBS, _LOOPS)
