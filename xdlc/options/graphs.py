"""Options of converting, of inputs and outputs, and of preparing for HTP."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypedDict

from xdlc.options import MAX_DIM, Names, Option, PathLike, Paths
from xdlc.options.running import WorkerOptions

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
        "If a name in {quantization_overrides} matches no tensor, stop (error) or print a warning (warn).",
        default=OVERRIDE_MISSING[0],
        choices=OVERRIDE_MISSING,
    ),
]
"""The option of this name, of converting and of quantizing."""
Weights: TypeAlias = Annotated[
    PathLike | None,
    Option(
        "Read the weights from this file if the model's file has no weights: a .caffemodel (Caffe), or an "
        "init net (Caffe2).",
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
            f"State the layout that an input has in the source model, {_LAYOUT}.",
            metavar="NAME LAYOUT",
            flags=("-l", "--input-layout"),
        ),
    ]
    desired_input_layout: Annotated[
        Mapping[str, str],
        Option(f"Set the layout that an input has in the DLC, {_LAYOUT}.", metavar="NAME LAYOUT"),
    ]
    output_layout: Annotated[
        Mapping[str, str],
        Option(f"State the layout that an output has in the source model, {_LAYOUT}.", metavar="NAME LAYOUT"),
    ]
    desired_output_layout: Annotated[
        Mapping[str, str],
        Option(f"Set the layout that an output has in the DLC, {_LAYOUT}.", metavar="NAME LAYOUT"),
    ]
    input_dtype: Annotated[
        Mapping[str, Any],  # numpy's types have names, too
        Option(
            "Set the data type that an input has in the DLC, like uint8, float16 or int32.",
            metavar="NAME TYPE",
        ),
    ]
    output_dtype: Annotated[
        Mapping[str, Any],
        Option("Set the data type that an output has in the DLC, like float16.", metavar="NAME TYPE"),
    ]
    input_type: Annotated[
        Mapping[str, str],
        Option(
            "Set the kind of an input: image, default, or opaque. xdlc never changes an opaque input.",
            metavar="NAME KIND",
            flags=("-t", "--input-type"),
        ),
    ]
    input_encoding: Annotated[
        Mapping[str, Words],
        Option(
            "Set the colour encoding of the images that you feed, and the encoding that the network needs. "
            "Encodings are bgr, rgb, rgba, argb32, nv21, nv12, time_series and other.",
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
            "Set the height and width of the images that you feed. The DLC resizes the images to the "
            "network's size, in the mode bilinear or nearest.",
            metavar="NAME H,W [MODE]",
        ),
    ]
    input_crop: Annotated[
        Mapping[str, str | Sequence[int]],
        Option(
            "Set the height and width of the images that you feed. H,W: the DLC crops the centre of each "
            "image. T,L,H,W: the DLC crops the part that begins at row T and column L.",
            metavar="NAME H,W",
        ),
    ]
    preserve_io: Annotated[
        bool | str | Sequence[str],
        Option(
            "Keep the source model's layout, data type or both for these inputs and outputs, despite other "
            "options. Without names, keep all inputs and outputs.",
            metavar="[layout|datatype [NAME..]]",
        ),
    ]
    custom_io: Annotated[
        PathLike,
        Option(
            "Read the layouts and data types of inputs and outputs from this YAML file. The file overrides "
            "{preserve_io}."
        ),
    ]
    config: Annotated[
        PathLike,
        Option("Read the settings of inputs and outputs from this YAML file, in qairt-converter's format."),
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
            "Set the batch size: the first dimension of all inputs.",
            limits=(1, MAX_DIM),
            metavar="N",
            flags=("-b", "--batch"),
        ),
    ]
    set_inputs: Annotated[
        Mapping[str, Any] | None,
        Option(
            "Replace an input with a constant: a number, a list like [1,2,3] or an .npy file. The DLC then "
            "lacks this input. A number fills the whole input, whose shape must be known.",
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
            "Unroll loops that run a constant number of times, at most this many; 0 unrolls no loop. HTP "
            "cannot run loops.",
            default=UNROLL_LOOPS,
            limits=(0, None),
            metavar="N",
        ),
    ]
    random: Annotated[
        str | None,
        Option(
            "Turn the model's random numbers into inputs of the DLC. A notice lists these inputs.",
            choices=("as-input",),
            default_text="the CPU draws the numbers, or xdlc stops with an error",
        ),
    ]
    udo_config_paths: Annotated[
        Paths,
        Option(
            "Read the definitions of user-defined operations (UDOs) from these JSON or OpDef XML files.",
            flags=("-udo", "--udo-config-paths"),
        ),
    ]
    op_package_config: Annotated[
        Paths,
        Option(
            "Read UDO definitions, as {udo_config_paths} does. QNN's converters use this name.",
            flags=("-opc", "--op-package-config"),
        ),
    ]
    package_name: Annotated[
        str | None,
        Option(
            "Set the op package of all native ops. Do not combine this option with {op_package_config}.",
            metavar="NAME",
            flags=("-p", "--package-name"),
        ),
    ]
    converter_op_package_lib: Annotated[
        Paths,
        Option(
            "Infer the shapes of user-defined operations with these registration libraries or Python files.",
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
        bool, Option("Keep Batchnorm ops instead of merging them into convolutions.", default=False)
    ]
    weights: Weights
    framework: Annotated[
        str | None,
        Option("Set the framework of the file, like onnx.", default_text="recognized by the file's content"),
    ]
    importer_options: Annotated[
        Mapping[str, Any] | None, Option("Set options of one framework's importer, by name.")
    ]
    dynamic_shapes: Annotated[
        Any,
        Option("Keep these dimensions of a PyTorch module dynamic, as torch.export.export does."),
    ]


class AnnotateOptions(TypedDict, total=False):
    """Options of ``annotate``."""

    quantization_overrides: Annotated[
        PathLike | Mapping[str, Any] | None,
        Option(
            "Store the encodings of this JSON file, in the vendor's format or AIMET's versions 0.4 to 2.0.",
            metavar="FILE",
        ),
    ]
    override_missing: OverrideMissing
    strip_encodings: Annotated[
        bool,
        Option("Turn a quantized model into a float model without encodings.", default=False),
    ]
    remove_unused_inputs: Annotated[bool, Option("Remove inputs that no op reads.", default=False)]
    float_bitwidth: Annotated[
        int,
        Option(
            "Use this many bits for floats inside the graph; inputs and outputs keep their types.",
            default=32,
            choices=(32, 16),
        ),
    ]
    model_version: Annotated[
        str | None, Option("Store this text of up to 64 bytes as the version of the network.", metavar="TEXT")
    ]
    copyright_file: Annotated[
        PathLike | None,
        Option("Store the text of this file, up to 64 KiB, as the copyright of the network.", metavar="FILE"),
    ]
    preserve_io_datatype: Annotated[
        Sequence[str] | None,
        Option(
            "Keep these inputs and outputs in float32; the DLC converts their values. Without names, keep "
            "all inputs and outputs.",
            metavar="[NAME..]",
        ),
    ]


class CompileOptions(WorkerOptions, total=False):
    """Options of the compiler for HTP."""

    htp_archs: Annotated[
        Sequence[str | int],
        Option(
            "Compile one cache for all SoCs of an architecture, like v68 or v73, instead of one cache for "
            "each SoC.",
            default=(),
            metavar="ARCH,ARCH..",
        ),
    ]
    vtcm_override: Annotated[
        int | None,
        Option(
            "Plan for this many MB of vector memory (VTCM); 0 uses the whole VTCM. With a smaller number, "
            "the cache also runs on SoCs with less VTCM.",
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
        Option(
            "Use this many threads of the vector unit (HVX).", default_text="all", limits=(1, 64), metavar="N"
        ),
    ]
    htp_dlbc: Annotated[
        bool,
        Option("Compress feature maps in memory, to save bandwidth.", default=False, metavar="[true|false]"),
    ]
    share_weights: Annotated[
        bool,
        Option(
            "Store equal weights once for the caches of several SoCs. The emulation cannot run these caches.",
            default=False,
        ),
    ]
    share_graph_weights: Annotated[
        bool,
        Option(
            "Store equal weights once for several graphs. The emulation cannot run these caches.",
            default=False,
        ),
    ]
    overwrite_cache_records: Annotated[
        bool,
        Option("Compile again for a SoC that already has a cache in the DLC.", default=False),
    ]
    partition: Annotated[
        bool,
        Option(
            "If HTP does not support all ops, compile the largest parts that HTP supports. The CPU runs the "
            "remaining ops, and tensors between parts become outputs. Branches and loop bodies need no "
            "option.",
            default=False,
        ),
    ]
    verify: Annotated[
        bool | PathLike | Sequence[Any],
        Option(
            "Run each cache on the emulation of its SoC, and compare the outputs with the CPU's outputs. The "
            "input is the first sample of this input list, .npz or .npy file, or random numbers. A wrong op "
            "is an error.",
            default=True,
            metavar="[LIST]",
            flags=("--verify",),
        ),
    ]
    verify_budget: Annotated[
        float,
        Option(
            "Verify each whole cache for at most this many seconds. If a cache needs more time, verify only "
            "its riskiest ops.",
            default=30,
            limits=(1, 86_400),
            metavar="SECONDS",
        ),
    ]
    timeout: Annotated[float, Option("Stop compiling for a SoC after this many seconds.", default=1800)]


class EditOptions(TypedDict, total=False):
    """Options that change a model before compilation."""

    set_output_tensors: Annotated[
        Outputs,
        Option(
            "Replace the graph's outputs with these tensors. 'GRAPH T1,T2' changes a graph other than the "
            "main graph. xdlc removes ops that no output needs.",
            default=(),
            metavar="T1,T2",
        ),
    ]
    set_output_layers: Annotated[
        Outputs,
        Option("Replace the graph's outputs with the outputs of these ops.", default=(), metavar="OP1,OP2"),
    ]
    input_list: Annotated[
        PathLike | None,
        Option(
            "Read the names of {set_output_layers} from the # line of this input list, and the names of "
            "{set_output_tensors} from the % line."
        ),
    ]
    use_float_io: Annotated[
        bool,
        Option(
            "Use float32 for quantized inputs and outputs; the graph converts their values.", default=False
        ),
    ]
    buffer_data_type: Annotated[
        Mapping[str, str] | Names,
        Option(
            "Set the data type of an input or output: float32, fixedPoint8 or fixedPoint16.",
            default=(),
            metavar="NAME=TYPE,..",
        ),
    ]
    input_dimensions: Annotated[
        Mapping[str, Sequence[int]] | None,
        Option("Change the shapes of these inputs. The keys are input names."),
    ]


class PrepareOptions(CompileOptions, EditOptions, BoundaryOptions, total=False):
    """Options of ``prepare``."""


class ExportOptions(TypedDict, total=False):
    """Options of ``to_onnx``."""

    graph: Annotated[str | None, Option("Write this graph.", default_text="the first graph", metavar="NAME")]
    encodings: Annotated[
        str,
        Option(
            "Choose how to write encodings. qdq: as QuantizeLinear and DequantizeLinear nodes. aimet: as a "
            "JSON file in AIMET's version 1.0.0, next to a float model. none: write no encodings.",
            default=EXPORTED_ENCODINGS[0],
            choices=EXPORTED_ENCODINGS,
        ),
    ]
    external_data: Annotated[
        bool,
        Option(
            "Write the weights to a second file. Weights of 2 GiB or more always need a second file.",
            default=False,
        ),
    ]


class FormOptions(TypedDict, total=False):
    """Options of tools that write configurations of user-defined operations."""

    form: Annotated[
        str | None,
        Option(
            "Write the definitions in this format.",
            choices=("xml", "json"),
            default_text="the format of the output's suffix",
        ),
    ]


class DraftOptions(FormOptions, total=False):
    """Options of ``draft_udo_config``."""

    weights: Weights
    package_name: Annotated[
        str,
        Option(
            "Set the name of the op package.",
            default=DRAFTED_PACKAGE,
            metavar="NAME",
            flags=("-p", "--package-name"),
        ),
    ]
    udo_config_paths: Annotated[
        Paths,
        Option(
            "Do not draft operators that these JSON or OpDef XML files define.",
            flags=("-udo", "--udo-config-paths"),
        ),
    ]
    same_shapes: Annotated[
        bool,
        Option("If an output has no complete shape, use the shape of the first input.", default=False),
    ]
    datatypes: Annotated[
        Sequence[str],
        Option(
            "Allow these data types for float inputs and outputs. FLOAT_32 alone keeps inputs and outputs "
            "in float.",
            default=(),
            default_text="FLOAT_32; for a DSP also FIXED_8 and FIXED_16",
            metavar="TYPE,..",
        ),
    ]
    operators: Annotated[
        Sequence[str],
        Option(
            "Draft these operators although xdlc can map them to QNN ops. Use this option if the QNN op "
            "lacks an attribute or a data type.",
            default=(),
            metavar="TYPE,..",
        ),
    ]
    backends: Annotated[
        Sequence[str],
        Option(
            "Define the operators for these backends, like CPU, GPU, HTP or DSP_V66.",
            default=(),
            default_text="CPU",
            metavar="NAME,..",
        ),
    ]
