"""Options of running and debugging models, and of kernels of UDOs."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

from xdlc.options import DEFAULT_SOC, Notify, Option, PathLike, Paths

SHELL_LINE = "xdlc-debug -i part.dlc --input-list list.txt --reference {} --candidate {}"
"""Shell line of a reproducer, for the names of two engines."""
SAMPLES, MEMORY = 4, 384
"""Most samples, and MiB of values that are held at a time."""


class DebugOptions(TypedDict, total=False):
    """Options of ``debug``; its help describes them."""

    reference: Annotated[
        PathLike | None,
        Option(
            "Use this engine as the reference: a source model (FILE or FRAMEWORK:FILE), a DLC, a folder of "
            "raw results, cpu, float or htp:SOC. float runs the DLC on this machine without rounding.",
            default_text="float for a quantized DLC, cpu with {soc}",
            metavar="ENGINE",
        ),
    ]
    candidate: Annotated[
        PathLike | None,
        Option(
            "Compare this engine with the reference. Name the engine as in {reference}.",
            default_text="htp with {soc}, else cpu",
            metavar="ENGINE",
        ),
    ]
    graph: Annotated[
        str | None,
        Option(
            "Compare this graph of a model with several graphs.",
            default_text="the first graph",
            metavar="NAME",
        ),
    ]
    soc: Annotated[str | None, Option("Emulate the HTP of this SoC.", metavar="SOC")]
    weights: Annotated[
        PathLike | None,
        Option("Read the weights of a source model from this file (.caffemodel).", metavar="FILE"),
    ]
    least: Annotated[
        float | None,
        Option(
            "Report an op as wrong if the op's own SQNR is below this number of dB.",
            default_text="60 dB (error 0.1 %) for float32, 40 dB (1 %) on HTP; for fixed point the SQNR of "
            "one rounding step, at most 24 dB (6 %)",
            limits=(-200, 200),
            metavar="DB",
            flags=("--min-op-sqnr",),
        ),
    ]
    metric: Annotated[
        Callable[[Any, Any], float] | str | None,
        Option(
            "Also compute your own figure of each tensor: FUNCTION(reference, candidate) reads two arrays "
            "and returns a number. xdlc executes FILE.py.",
            metavar="FILE.py:FUNCTION",
        ),
    ]
    samples_most: Annotated[
        int,
        Option(
            "Compare at most this many samples.", default=SAMPLES, limits=(1, 10_000), flags=("--samples",)
        ),
    ]
    memory: Annotated[
        int,
        Option(
            "Use at most this many MiB of memory for tensors.",
            default=MEMORY,
            limits=(1, 1 << 20),
            metavar="MIB",
        ),
    ]
    reproducer: Annotated[
        PathLike | None,
        Option(
            "Write the smallest part of the model that shows the error to this folder: a DLC, an ONNX "
            "model, inputs and a command line.",
            metavar="FOLDER",
        ),
    ]
    noise: Annotated[
        bool,
        Option(
            "Replace the weights in the files of {reproducer} with random numbers that show the error.",
            default=False,
        ),
    ]
    notify: Annotated[Notify | None, Option("Call this function with each notice, a line of text.")]


class WorkerOptions(TypedDict, total=False):
    """Options of work that other processes may do; the result does not depend on them."""

    jobs: Annotated[
        int | None,
        Option(
            "Work in this many processes at the same time. The number does not change the result.",
            default_text="1; one for each processor where the vendor's compiler works",
            limits=(1, 1024),
        ),
    ]
    scheduler: Annotated[
        str | None,
        Option(
            "Work on the machines of the Dask cluster whose scheduler has this address, instead of {jobs}. "
            "Dask is in the extra dask.",
            metavar="ADDRESS",
        ),
    ]
    executor: Annotated[
        Any,
        Option(
            "Work in this ``concurrent.futures.Executor``, instead of {jobs}; the caller closes the executor."
        ),
    ]


Mode: TypeAlias = Literal["permissive", "strict", "always_generate_new"]
CACHE_MODES: tuple[Mode, ...] = get_args(Mode)


class KernelOptions(TypedDict, total=False):
    """Options of the kernels that run the UDOs of a model."""

    udo_package_path: Annotated[
        Paths,
        Option(
            "Run user-defined operations (UDOs) with these kernels: registration libraries, Python files, "
            "or folders named kernel_meta.",
            metavar="FILE,FILE..",
        ),
    ]
    udo_timeout: Annotated[
        float | None,
        Option("Stop one execution of a UDO after this many seconds.", default_text="60", metavar="SECONDS"),
    ]


_USABLE_SOC = f"the SoC of the first usable cache, else {DEFAULT_SOC}"
"""Not in the class: Python 3.14 cannot format texts where names of types are not defined."""


class RunOptions(KernelOptions, total=False):
    """Options of ``Session`` and ``run``; ``help(xdlc.run)`` describes each option."""

    outputs: Annotated[
        Sequence[str], Option("Return these tensors in addition to the graph's outputs.", default=())
    ]
    graph: Annotated[
        str | None,
        Option(
            "Run this graph of a model with several graphs (runtimes cpu and htp).",
            default_text="the graph whose inputs have the shapes of the arrays, else the first graph",
            metavar="NAME",
        ),
    ]
    soc: Annotated[
        str | None,
        Option(
            "Emulate this SoC (runtime htp).",
            default_text=_USABLE_SOC,
            metavar="SOC",
        ),
    ]
    mode: Annotated[
        Mode,
        Option(
            "Choose the caches to use (runtime htp). permissive: caches that run on the SoC; strict: caches "
            "that use the SoC fully; always_generate_new: no cache.",
            default=CACHE_MODES[0],
            choices=CACHE_MODES,
            flags=("--cache-compatibility-mode",),
        ),
    ]
    validate: Annotated[
        bool,
        Option(
            "If no cache is usable, fail instead of compiling, and list the reason for each cache (runtime "
            "htp).",
            default=False,
            flags=("--validate-cache",),
        ),
    ]
    cpu_fallback: Annotated[
        bool,
        Option(
            "If the SoC's HTP does not support an op, run the op on the CPU instead of failing (runtime "
            "htp).",
            default=False,
            flags=("--enable-cpu-fallback",),
        ),
    ]
    quantized: Annotated[
        bool,
        Option(
            "Round tensors to their encodings (runtime cpu). If false, compute in float without rounding.",
            default=True,
        ),
    ]
    plain: Annotated[
        bool,
        Option(
            "Round tensors to their encodings, and compute in float without HTP's own rounding inside ops "
            "(runtime cpu).",
            default=False,
        ),
    ]
    use_aip: Annotated[
        bool,
        Option(
            "Run the AIP record: its compiled HTA sections, and its other sections on the CPU.",
            default=False,
        ),
    ]
    threads: Annotated[
        int | None,
        Option(
            "Use this many threads for one op (runtimes cpu and aip).",
            limits=(1, None),
            default_text="one for each core",
        ),
    ]
    loop_timeout: Annotated[
        float | None,
        Option(
            "Stop a loop of the model after this many seconds, at most 15.",
            default_text="2; 15 with the runtime htp",
            metavar="SECONDS",
        ),
    ]
    kernels: Annotated[
        Any,
        Option("Use these open kernels instead of {udo_package_path}; the caller closes them."),
    ]
    notify: Annotated[
        Notify | None, Option("Call this function with each notice, a line of text (runtimes htp and aip).")
    ]
