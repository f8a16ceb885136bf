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
        "Stop at names of {quantization_overrides} that match nothing, or warn of them.",
        default=OVERRIDE_MISSING[0],
        choices=OVERRIDE_MISSING,
    ),
]
"""The option of this name, of converting and of quantizing."""
Weights: TypeAlias = Annotated[
    PathLike | None,
    Option(
        "Read the weights from this file if the model's file has none: the .caffemodel (Caffe), or the "
        "network that fills them in (Caffe2).",
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
            f"State the axes of an input of the model, {_LAYOUT}.",
            metavar="NAME LAYOUT",
            flags=("-l", "--input-layout"),
        ),
    ]
    desired_input_layout: Annotated[
        Mapping[str, str],
        Option(f"Set the axes of an input as callers feed it, {_LAYOUT}.", metavar="NAME LAYOUT"),
    ]
    output_layout: Annotated[
        Mapping[str, str], Option("State the axes of an output of the model.", metavar="NAME LAYOUT")
    ]
    desired_output_layout: Annotated[
        Mapping[str, str], Option("Set the axes of an output as callers fetch it.", metavar="NAME LAYOUT")
    ]
    input_dtype: Annotated[
        Mapping[str, Any],  # numpy's types have names, too
        Option("Set the data type that callers feed, like uint8, float16 or int32.", metavar="NAME TYPE"),
    ]
    output_dtype: Annotated[
        Mapping[str, Any], Option("Set the data type that callers fetch.", metavar="NAME TYPE")
    ]
    input_type: Annotated[
        Mapping[str, str],
        Option(
            "Set the kind of an input: image, default, or opaque. xdlc passes an opaque input on unchanged.",
            metavar="NAME KIND",
            flags=("-t", "--input-type"),
        ),
    ]
    input_encoding: Annotated[
        Mapping[str, Words],
        Option(
            "Set the colour encodings of the caller and of the network: bgr, rgb, rgba, argb32, nv21, nv12, "
            "time_series or other.",
            metavar="NAME IN [OUT]",
            flags=("-e", "--input-encoding"),
        ),
    ]
    input_mean: Annotated[
        Mapping[str, Numbers],
        Option(
            "Subtract this mean from an input: one number, or a number per channel.", metavar="NAME M,M,M"
        ),
    ]
    input_scale: Annotated[
        Mapping[str, Numbers],
        Option("Multiply an input by this scale after the mean: (x - mean) * scale.", metavar="NAME S,S,S"),
    ]
    input_resize: Annotated[
        Mapping[str, str | Sequence[Any]],
        Option(
            "Set height and width of the caller's images. The DLC resizes them: bilinear or nearest.",
            metavar="NAME H,W [MODE]",
        ),
    ]
    input_crop: Annotated[
        Mapping[str, str | Sequence[int]],
        Option(
            "Set height and width of the caller's images and use their centre. T,L,H,W: from row T, column "
            "L.",
            metavar="NAME H,W",
        ),
    ]
    preserve_io: Annotated[
        bool | str | Sequence[str],
        Option(
            "Keep layout, data type or both of these inputs and outputs, or all, despite other options.",
            metavar="[layout|datatype [NAME..]]",
        ),
    ]
    custom_io: Annotated[PathLike, Option("Read the custom I/O from this file; it overrides {preserve_io}.")]
    config: Annotated[
        PathLike,
        Option("Read inputs and outputs from this file, in the form of qairt-converter."),
    ]


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
            "Set the value of a symbolic dimension (ONNX, PyTorch).",
            limits=(1, MAX_DIM),
            metavar="SYMBOL N",
            flags=("--define-symbol", "-s"),
        ),
    ]


class ConvertOptions(BoundaryOptions, SymbolOptions, total=False):
    """Options of ``convert`` and ``check``."""

    batch: Annotated[
        int | None,
        Option(
            "Set the first dimension of all inputs.",
            limits=(1, MAX_DIM),
            metavar="N",
            flags=("-b", "--batch"),
        ),
    ]
    set_inputs: Annotated[
        Mapping[str, Any] | None,
        Option(
            "Fix an input to a number, a list like [1,2,3] or an .npy file, and fold constants. The DLC "
            "then lacks this input. A single number fills an input of known shape.",
            metavar="NAME VALUE",
            flags=("--set-input",),
        ),
    ]
    out_name: Annotated[
        Sequence[str] | None,
        Option("End the graph at this tensor instead of at the model's outputs.", metavar="NAME"),
    ]
    unroll_loops: Annotated[
        int,
        Option(
            "Unroll loops of known length up to this many iterations; 0 unrolls none. HTP runs no loops.",
            default=UNROLL_LOOPS,
            limits=(0, None),
            metavar="N",
        ),
    ]
    random: Annotated[
        str | None,
        Option(
            "Turn the model's random numbers into inputs of the DLC. A notice lists them.",
            choices=("as-input",),
            default_text="the host draws them, or xdlc refuses the model",
        ),
    ]
    udo_config_paths: Annotated[
        Paths,
        Option(
            "Read these configurations of user-defined operations, JSON or OpDef XML.",
            flags=("-udo", "--udo-config-paths"),
        ),
    ]
    op_package_config: Annotated[
        Paths,
        Option(
            "Read these configurations, like {udo_config_paths}. QNN's converters use this name.",
            flags=("-opc", "--op-package-config"),
        ),
    ]
    package_name: Annotated[
        str | None,
        Option(
            "Set the op package of all native ops. You cannot use it with {op_package_config}.",
            metavar="NAME",
            flags=("-p", "--package-name"),
        ),
    ]
    converter_op_package_lib: Annotated[
        Paths,
        Option(
            "Infer shapes of user-defined operations with these registration libraries or Python files.",
            flags=("-cpl", "--converter-op-package-lib"),
        ),
    ]
    plugin: Annotated[
        Sequence[str | type[Any]],
        Option(
            "Load a plugin that defines an operation: module:Class, file.py:Class or file.py.",
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
        Option("Set the framework of the file, like onnx.", default_text="recognized by its content"),
    ]
    importer_options: Annotated[
        Mapping[str, Any] | None, Option("Set options of one framework's importer, by name.")
    ]
    dynamic_shapes: Annotated[
        Any, Option("Keep these dimensions of a module dynamic, in the form of torch.export.export.")
    ]


class AnnotateOptions(TypedDict, total=False):
    """Options of ``annotate``."""

    quantization_overrides: Annotated[
        PathLike | Mapping[str, Any] | None,
        Option(
            "Store the encodings of this JSON file: the vendor's form, or AIMET's 0.4 to 2.0.", metavar="FILE"
        ),
    ]
    override_missing: OverrideMissing
    strip_encodings: Annotated[
        bool,
        Option("Turn a quantized model into a float model without encodings.", default=False),
    ]
    remove_unused_inputs: Annotated[bool, Option("Remove inputs that no op reads.", default=False)]
    float_bitwidth: Annotated[
        int, Option("Use this many bits for floats between inputs and outputs.", default=32, choices=(32, 16))
    ]
    model_version: Annotated[
        str | None, Option("Store this version of the network, up to 64 bytes.", metavar="TEXT")
    ]
    copyright_file: Annotated[
        PathLike | None, Option("Store the copyright of this text file, up to 64 KiB.", metavar="FILE")
    ]
    preserve_io_datatype: Annotated[
        Sequence[str] | None,
        Option(
            "Keep these inputs and outputs float32, or all; the DLC converts them inside.", metavar="[NAME..]"
        ),
    ]


class CompileOptions(TypedDict, total=False):
    """Options of the compiler for HTP."""

    htp_archs: Annotated[
        Sequence[str | int],
        Option(
            "Compile for architectures instead of SoCs, like v68,v73: one cache for all SoCs of each.",
            default=(),
            metavar="ARCH,ARCH..",
        ),
    ]
    vtcm_override: Annotated[
        int | None,
        Option(
            "Plan for this much vector memory; 0: all. With less, the cache also runs on smaller SoCs.",
            default_text="0",
            limits=(0, 64),
            metavar="MB",
        ),
    ]
    optimization_level: Annotated[
        int,
        Option(
            "Set the effort of the compiler. Level 3 compiles slowest, and its graph runs fastest.",
            default=2,
            limits=(1, 3),
        ),
    ]
    num_hvx_threads: Annotated[
        int | None,
        Option("Use this many vector threads.", default_text="all", limits=(1, 64), metavar="N"),
    ]
    htp_dlbc: Annotated[
        bool, Option("Compress feature maps in memory.", default=False, metavar="[true|false]")
    ]
    share_weights: Annotated[
        bool,
        Option(
            "Share weights between caches of several SoCs. The emulation cannot run these caches.",
            default=False,
        ),
    ]
    share_graph_weights: Annotated[
        bool,
        Option(
            "Keep weights of several graphs once. The emulation cannot run these caches.",
            default=False,
        ),
    ]
    overwrite_cache_records: Annotated[
        bool,
        Option("Compile again where the DLC has a cache already.", default=False),
    ]
    partition: Annotated[
        bool,
        Option(
            "Compile the largest parts that HTP supports if it does not support all ops. The CPU runs the "
            "rest, and tensors between parts become outputs. xdlc always divides branches and loop bodies.",
            default=False,
        ),
    ]
    verify: Annotated[
        bool | PathLike | Sequence[Any],
        Option(
            "Run each cache on the emulation of its SoC and compare it with the host. xdlc uses the first "
            "sample of an input list, .npz or .npy file, or seeded inputs. A wrong op is an error.",
            default=True,
            metavar="[LIST]",
            flags=("--verify",),
        ),
    ]
    verify_budget: Annotated[
        float,
        Option(
            "Verify a cache for this long at most. After that, xdlc verifies the riskiest ops alone.",
            default=30,
            limits=(1, 86_400),
            metavar="SECONDS",
        ),
    ]
    jobs: Annotated[
        int | None,
        Option("Compile for this many SoCs at a time.", default_text="one per processor", limits=(1, 1024)),
    ]
    timeout: Annotated[float, Option("Stop the compiler of a SoC after this many seconds.", default=1800)]


class EditOptions(TypedDict, total=False):
    """Options that change a model before compilation."""

    set_output_tensors: Annotated[
        Outputs,
        Option(
            "Replace the graph's outputs by these tensors; 'GRAPH T1,T2' names a graph other than the main "
            "graph. xdlc removes ops that no output needs.",
            default=(),
            metavar="T1,T2",
        ),
    ]
    set_output_layers: Annotated[
        Outputs,
        Option("Replace the graph's outputs by the outputs of these ops.", default=(), metavar="OP1,OP2"),
    ]
    input_list: Annotated[
        PathLike | None,
        Option("Read {set_output_layers} and {set_output_tensors} from # and % lines of this input list."),
    ]
    use_float_io: Annotated[
        bool,
        Option("Use float32 for quantized inputs and outputs; the graph converts them.", default=False),
    ]
    buffer_data_type: Annotated[
        Mapping[str, str] | Names,
        Option(
            "Set the data type of an input or output: float32, fixedPoint8 or fixedPoint16.",
            default=(),
            metavar="NAME=TYPE,..",
        ),
    ]
    input_dimensions: Annotated[Mapping[str, Sequence[int]] | None, Option("Set new shapes by input name.")]


class PrepareOptions(CompileOptions, EditOptions, BoundaryOptions, total=False):
    """Options of ``prepare``."""


class ExportOptions(TypedDict, total=False):
    """Options of ``to_onnx``."""

    graph: Annotated[str | None, Option("Write this graph.", default_text="the first", metavar="NAME")]
    encodings: Annotated[
        str,
        Option(
            "Choose the form of encodings. qdq: QuantizeLinear and DequantizeLinear nodes; aimet: a float "
            "model, with a file of AIMET's format 1.0.0 next to it. none: a float model.",
            default=EXPORTED_ENCODINGS[0],
            choices=EXPORTED_ENCODINGS,
        ),
    ]
    external_data: Annotated[
        bool, Option("Write weights to a file of their own. From 2 GiB on, xdlc always does.", default=False)
    ]


class FormOptions(TypedDict, total=False):
    """Options of tools that write configurations of user-defined operations."""

    form: Annotated[
        str | None,
        Option("Write this form.", choices=("xml", "json"), default_text="from the output's suffix"),
    ]


class DraftOptions(FormOptions, total=False):
    """Options of ``draft_udo_config``."""

    weights: Weights
    package_name: Annotated[
        str,
        Option(
            "Set the name of the package.",
            default=DRAFTED_PACKAGE,
            metavar="NAME",
            flags=("-p", "--package-name"),
        ),
    ]
    udo_config_paths: Annotated[
        Paths,
        Option("Do not draft the operators of these configurations.", flags=("-udo", "--udo-config-paths")),
    ]
    same_shapes: Annotated[
        bool,
        Option("Assume the shape of the first input for outputs without a complete shape.", default=False),
    ]
    datatypes: Annotated[
        Sequence[str],
        Option(
            "Add these data types to float inputs and outputs. FLOAT_32 alone keeps them float.",
            default=(),
            default_text="FLOAT_32; for a DSP also FIXED_8 and FIXED_16",
            metavar="TYPE,..",
        ),
    ]
    operators: Annotated[
        Sequence[str],
        Option(
            "Draft these operators although xdlc maps them, for attributes or types that QNN lacks.",
            default=(),
            metavar="TYPE,..",
        ),
    ]
    backends: Annotated[
        Sequence[str],
        Option(
            "Make the package for these backends: CPU, GPU, HTP, DSP_V66...",
            default=(),
            default_text="CPU",
            metavar="NAME,..",
        ),
    ]
