"""Options of converting, of inputs and outputs, and of preparing for HTP."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypedDict

from xdlc.options import MAX_DIM, Names, Option, PathLike, Paths

UNROLL_LOOPS = 16
OVERRIDE_MISSING = ("error", "warn")
EXPORTED_ENCODINGS = ("qdq", "aimet", "none")
DRAFTED_PACKAGE = "MyOps"
Outputs: TypeAlias = Mapping[str, Sequence[str]] | Names
Words: TypeAlias = str | Sequence[str]
Numbers: TypeAlias = str | float | Sequence[float]
OverrideMissing: TypeAlias = Annotated[
    str,
    Option(
        "Treat names of {quantization_overrides} that match nothing as errors, or warn of them.",
        default=OVERRIDE_MISSING[0],
        choices=OVERRIDE_MISSING,
    ),
]
"""The option of this name, of converting and of quantizing."""
Weights: TypeAlias = Annotated[
    PathLike | None,
    Option(
        "File with the weights of the network, if the model's file has none: the .caffemodel (Caffe), or "
        "the network that fills them in (Caffe2).",
        flags=("--weights", "--caffe-bin", "--exec-net"),
    ),
]
"""The option of this name, of converting and of drafting."""

_LAYOUT = "like NCHW, NHWC, NCF or NTF"


class BoundaryOptions(TypedDict, total=False):
    """Options for inputs and outputs by name: docs/guides/boundary.md."""

    input_layout: Annotated[
        Mapping[str, str],
        Option(
            f"Axes of an input of the model, {_LAYOUT}.",
            metavar="NAME LAYOUT",
            flags=("-l", "--input-layout"),
        ),
    ]
    desired_input_layout: Annotated[
        Mapping[str, str], Option(f"Axes of an input that callers feed, {_LAYOUT}.", metavar="NAME LAYOUT")
    ]
    output_layout: Annotated[
        Mapping[str, str], Option("Axes of an output of the model.", metavar="NAME LAYOUT")
    ]
    desired_output_layout: Annotated[
        Mapping[str, str], Option("Axes of an output that callers fetch.", metavar="NAME LAYOUT")
    ]
    input_dtype: Annotated[
        Mapping[str, Any],  # numpy's types have names, too
        Option("Data type that callers feed, like uint8, float16 or int32.", metavar="NAME TYPE"),
    ]
    output_dtype: Annotated[Mapping[str, Any], Option("Data type that callers fetch.", metavar="NAME TYPE")]
    input_type: Annotated[
        Mapping[str, str],
        Option(
            "Kind of an input: image, default, or opaque, which is passed on unchanged.",
            metavar="NAME KIND",
            flags=("-t", "--input-type"),
        ),
    ]
    input_encoding: Annotated[
        Mapping[str, Words],
        Option(
            "Colour encodings of the caller and of the network: bgr, rgb, rgba, argb32, nv21, nv12, "
            "time_series or other.",
            metavar="NAME IN [OUT]",
            flags=("-e", "--input-encoding"),
        ),
    ]
    input_mean: Annotated[
        Mapping[str, Numbers],
        Option(
            "Mean that is subtracted from an input: one number, or one for each channel.",
            metavar="NAME M,M,M",
        ),
    ]
    input_scale: Annotated[
        Mapping[str, Numbers],
        Option("Scale, applied after the mean is subtracted: (x - mean) * scale.", metavar="NAME S,S,S"),
    ]
    input_resize: Annotated[
        Mapping[str, str | Sequence[Any]],
        Option(
            "Height and width of the images that callers feed, which are resized for the network: bilinear "
            "or nearest.",
            metavar="NAME H,W [MODE]",
        ),
    ]
    input_crop: Annotated[
        Mapping[str, str | Sequence[int]],
        Option(
            "Height and width of the caller's images, whose centre is used; or T,L,H,W: the part from row T "
            "and column L on.",
            metavar="NAME H,W",
        ),
    ]
    preserve_io: Annotated[
        bool | str | Sequence[str],
        Option(
            "Keep layout, datatype or both of the named inputs and outputs, or of all, even if other "
            "options change them.",
            metavar="[layout|datatype [NAME..]]",
        ),
    ]
    custom_io: Annotated[PathLike, Option("Custom I/O file; it overrides {preserve_io}.")]
    config: Annotated[PathLike, Option("Configuration of inputs and outputs (qairt-converter).")]


def words(options: BoundaryOptions) -> dict[str, str]:
    """Return options as texts for a model's history, files without folders."""
    texts: dict[str, str] = {}
    for name, setting in options.items():
        if isinstance(setting, Mapping):
            texts |= {f"{name} {port}": _text(value) for port, value in setting.items()}
        else:
            is_file = name in ("custom_io", "config")
            texts[name] = os.path.basename(str(setting)) if is_file else _text(setting)
    return texts


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class SymbolOptions(TypedDict, total=False):
    """Options of importers whose models name dynamic dimensions."""

    define_symbol: Annotated[
        Mapping[str, int] | None,
        Option(
            "Value of a symbolic dimension (ONNX, PyTorch).",
            limits=(1, MAX_DIM),
            metavar="SYMBOL N",
            flags=("--define-symbol", "-s"),
        ),
    ]


class ConvertOptions(BoundaryOptions, SymbolOptions, total=False):
    """Options of ``convert`` and ``check``."""

    batch: Annotated[
        int | None,
        Option("First dimension of every input.", limits=(1, MAX_DIM), metavar="N", flags=("-b", "--batch")),
    ]
    set_inputs: Annotated[
        Mapping[str, Any] | None,
        Option(
            "Fix an input to a value, a number, a list like [1,2,3] or an .npy file, and fold constants: "
            "it is not an input of the DLC. A single number fills an input of known shape.",
            metavar="NAME VALUE",
            flags=("--set-input",),
        ),
    ]
    out_name: Annotated[
        Sequence[str] | None,
        Option("Tensor at which the graph ends instead of the model's outputs.", metavar="NAME"),
    ]
    unroll_loops: Annotated[
        int,
        Option(
            "Unroll loops of known length up to this number of iterations; 0: none. HTP runs no loops.",
            default=UNROLL_LOOPS,
            limits=(0, None),
            metavar="N",
        ),
    ]
    random: Annotated[
        str | None,
        Option(
            "Turn the model's random numbers into inputs of the DLC; a notice lists them.",
            choices=("as-input",),
            default_text="the host draws them, or the model is refused",
        ),
    ]
    udo_config_paths: Annotated[
        Paths,
        Option(
            "Configurations of user-defined operations, JSON or OpDef XML.",
            flags=("-udo", "--udo-config-paths"),
        ),
    ]
    op_package_config: Annotated[
        Paths,
        Option(
            "Configurations of user-defined operations: the name of {udo_config_paths} in QNN's converters.",
            flags=("-opc", "--op-package-config"),
        ),
    ]
    package_name: Annotated[
        str | None,
        Option(
            "Op package of all native ops; not with {op_package_config}.",
            metavar="NAME",
            flags=("-p", "--package-name"),
        ),
    ]
    converter_op_package_lib: Annotated[
        Paths,
        Option(
            "Registration libraries (.so), or Python files (.py), with functions that infer the output "
            "shapes of user-defined operations.",
            flags=("-cpl", "--converter-op-package-lib"),
        ),
    ]
    plugin: Annotated[
        Sequence[str | type[Any]],
        Option(
            "Plugin that defines an operation: module:Class, file.py:Class or file.py.",
            default=(),
            metavar="MODULE:CLASS",
        ),
    ]
    no_plugins: Annotated[bool, Option("Ignore the plugins of installed packages.", default=False)]
    disable_batchnorm_folding: Annotated[
        bool, Option("Do not fold Batchnorm into convolutions.", default=False)
    ]
    weights: Weights
    framework: Annotated[
        str | None,
        Option("Name of the file's framework, like onnx.", default_text="recognized by its content"),
    ]
    importer_options: Annotated[
        Mapping[str, Any] | None, Option("Options of a single framework's importer, by name.")
    ]
    dynamic_shapes: Annotated[
        Any, Option("Dimensions of a module that stay dynamic, in the form of torch.export.export.")
    ]


class AnnotateOptions(TypedDict, total=False):
    """Options of ``annotate``."""

    quantization_overrides: Annotated[
        PathLike | Mapping[str, Any] | None,
        Option(
            "JSON file of encodings to store for the quantizer: the vendor's form, or AIMET's 0.4 to 2.0.",
            metavar="FILE",
        ),
    ]
    override_missing: OverrideMissing
    strip_encodings: Annotated[
        bool,
        Option(
            "Turn a quantized model into a float model: weights with their values, no encodings.",
            default=False,
        ),
    ]
    remove_unused_inputs: Annotated[bool, Option("Remove inputs that no op reads.", default=False)]
    float_bitwidth: Annotated[
        int, Option("Bits of floats between inputs and outputs.", default=32, choices=(32, 16))
    ]
    model_version: Annotated[
        str | None, Option("Version of the network to store, up to 64 bytes.", metavar="TEXT")
    ]
    copyright_file: Annotated[
        PathLike | None, Option("Text of a copyright to store, up to 64 KiB.", metavar="FILE")
    ]
    preserve_io_datatype: Annotated[
        Sequence[str] | None,
        Option(
            "Keep the named inputs and outputs float32, or all, with Quantize and Dequantize inside.",
            metavar="[NAME..]",
        ),
    ]


class CompileOptions(TypedDict, total=False):
    """Options of the compiler for HTP."""

    htp_archs: Annotated[
        Sequence[str | int],
        Option(
            "Architectures instead of SoCs, like v68,v73; one cache each, for all SoCs of the architecture.",
            default=(),
            metavar="ARCH,ARCH..",
        ),
    ]
    vtcm_override: Annotated[
        int | None,
        Option(
            "Vector memory to plan for: with less than the SoC has, the cache also runs on smaller SoCs; 0: "
            "all that the SoC has.",
            default_text="0",
            limits=(0, 64),
            metavar="MB",
        ),
    ]
    optimization_level: Annotated[
        int,
        Option(
            "Effort of the compiler: 3 compiles slowest, and its graph runs fastest.",
            default=2,
            limits=(1, 3),
        ),
    ]
    num_hvx_threads: Annotated[
        int | None,
        Option("Number of vector threads.", default_text="all", limits=(1, 64), metavar="N"),
    ]
    htp_dlbc: Annotated[
        bool, Option("Compress feature maps in memory.", default=False, metavar="[true|false]")
    ]
    share_weights: Annotated[
        bool,
        Option(
            "Keep weights in records that caches for several SoCs share. Such caches run on devices, "
            "but not on the emulation.",
            default=False,
        ),
    ]
    share_graph_weights: Annotated[
        bool,
        Option(
            "Keep weights that several graphs have once in each cache. Such caches run on devices, "
            "but not on the emulation: they are verified in the context that compiles them.",
            default=False,
        ),
    ]
    overwrite_cache_records: Annotated[
        bool,
        Option("Compile again where there is a cache already, whoever made it.", default=False),
    ]
    partition: Annotated[
        bool,
        Option(
            "If HTP does not support all ops, compile the largest supported partitions; the CPU "
            "runs the rest. Tensors that leave a partition become outputs. Branches and loop bodies are "
            "always divided this way.",
            default=False,
        ),
    ]
    verify: Annotated[
        bool | PathLike | Sequence[Any],
        Option(
            "Run each cache on the emulation of its SoC and compare it with the host: on the first sample of "
            "an input list, .npz or .npy file, or on seeded inputs. A wrong op is an error.",
            default=True,
            metavar="[LIST]",
            flags=("--verify",),
        ),
    ]
    verify_budget: Annotated[
        float,
        Option(
            "Seconds to verify a cache; beyond them the riskiest ops are verified alone.",
            default=30,
            limits=(1, 86_400),
            metavar="SECONDS",
        ),
    ]
    jobs: Annotated[
        int | None,
        Option("SoCs to compile at a time.", default_text="one per processor", limits=(1, 1024)),
    ]
    timeout: Annotated[float, Option("Time limit in seconds per SoC.", default=1800)]


class EditOptions(TypedDict, total=False):
    """Options that change a model before compilation."""

    set_output_tensors: Annotated[
        Outputs,
        Option(
            "Tensors that replace the graph's outputs; 'GRAPH T1,T2' for a graph other than the main graph. "
            "Ops that no output needs are removed.",
            default=(),
            metavar="T1,T2",
        ),
    ]
    set_output_layers: Annotated[
        Outputs,
        Option("Ops whose outputs replace those of the graph.", default=(), metavar="OP1,OP2"),
    ]
    input_list: Annotated[
        PathLike | None,
        Option(
            "Input list whose lines with names of ops (#) and tensors (%) are read as {set_output_layers} "
            "and {set_output_tensors}."
        ),
    ]
    use_float_io: Annotated[
        bool,
        Option(
            "Use float32 for quantized inputs and outputs; the graph converts them inside.", default=False
        ),
    ]
    buffer_data_type: Annotated[
        Mapping[str, str] | Names,
        Option(
            "Data type of one input or output: float32, fixedPoint8 or fixedPoint16.",
            default=(),
            metavar="NAME=TYPE,..",
        ),
    ]
    input_dimensions: Annotated[Mapping[str, Sequence[int]] | None, Option("New shapes by input name.")]


class PrepareOptions(CompileOptions, EditOptions, BoundaryOptions, total=False):
    """Options of ``prepare``."""


class ExportOptions(TypedDict, total=False):
    """Options of ``to_onnx``."""

    graph: Annotated[
        str | None, Option("Name of the graph to write.", default_text="the first", metavar="NAME")
    ]
    encodings: Annotated[
        str,
        Option(
            "Form of encodings. qdq: QuantizeLinear and DequantizeLinear nodes; aimet: a float model and a "
            "file of encodings beside it, in AIMET's format 1.0.0; none: a float model.",
            default=EXPORTED_ENCODINGS[0],
            choices=EXPORTED_ENCODINGS,
        ),
    ]
    external_data: Annotated[
        bool, Option("Write weights to a file of their own; always so from 2 GiB on.", default=False)
    ]


class FormOptions(TypedDict, total=False):
    """Options of tools that write configurations of user-defined operations."""

    form: Annotated[
        str | None,
        Option("Form to write.", choices=("xml", "json"), default_text="that of the output's suffix"),
    ]


class DraftOptions(FormOptions, total=False):
    """Options of ``draft_udo_config``."""

    weights: Weights
    package_name: Annotated[
        str,
        Option(
            "Name of the package.",
            default=DRAFTED_PACKAGE,
            metavar="NAME",
            flags=("-p", "--package-name"),
        ),
    ]
    udo_config_paths: Annotated[
        Paths,
        Option(
            "Existing configurations, whose operators are not drafted.",
            flags=("-udo", "--udo-config-paths"),
        ),
    ]
    same_shapes: Annotated[
        bool,
        Option(
            "Assume the shape of the first input for outputs without a complete shape in the model.",
            default=False,
        ),
    ]
    datatypes: Annotated[
        Sequence[str],
        Option(
            "Additional data types of float inputs and outputs. FLOAT_32 alone keeps them "
            "float in quantized models.",
            default=(),
            default_text="FLOAT_32, and for a DSP FIXED_8 and FIXED_16 too",
            metavar="TYPE,..",
        ),
    ]
    operators: Annotated[
        Sequence[str],
        Option(
            "Operators to draft although xdlc maps them, for attributes or types that QNN lacks.",
            default=(),
            metavar="TYPE,..",
        ),
    ]
    backends: Annotated[
        Sequence[str],
        Option(
            "Backends that the package is for: CPU, GPU, HTP, DSP_V66...",
            default=(),
            default_text="CPU",
            metavar="NAME,..",
        ),
    ]
