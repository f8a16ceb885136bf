"""Options of running a model, and of the kernels of user-defined operations."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

from xdlc.options import DEFAULT_SOC, Notify, Option, Paths

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
            default_text=f"the SoC of the first usable cache, else {DEFAULT_SOC}",
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
