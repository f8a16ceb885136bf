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
            "Use these kernels for UDOs: registration libraries, Python files, folders kernel_meta.",
            metavar="FILE,FILE..",
        ),
    ]
    udo_timeout: Annotated[
        float | None,
        Option("Stop one execution of a UDO after this many seconds.", default_text="60", metavar="SECONDS"),
    ]


class RunOptions(KernelOptions, total=False):
    """Options of ``Session`` and ``run``; help of both describes them."""

    outputs: Annotated[
        Sequence[str], Option("Return these tensors in addition to the graph's outputs.", default=())
    ]
    graph: Annotated[
        str | None,
        Option(
            "Run this graph of a model with several graphs (cpu, htp).",
            default_text="the graph whose inputs have the shapes of the arrays, else the first",
            metavar="NAME",
        ),
    ]
    soc: Annotated[
        str | None,
        Option(
            "Emulate this SoC (htp).",
            default_text=f"the SoC of the first usable cache, else {DEFAULT_SOC}",
            metavar="SOC",
        ),
    ]
    mode: Annotated[
        Mode,
        Option(
            "Accept caches that run on the SoC, only caches that use the SoC fully, or no caches (htp).",
            default=CACHE_MODES[0],
            choices=CACHE_MODES,
            flags=("--cache-compatibility-mode",),
        ),
    ]
    validate: Annotated[
        bool,
        Option(
            "Fail instead of compiling if no cache is usable, with the reason for each cache (htp).",
            default=False,
            flags=("--validate-cache",),
        ),
    ]
    cpu_fallback: Annotated[
        bool,
        Option(
            "Run ops that the SoC's HTP does not support on the CPU, instead of failing (htp).",
            default=False,
            flags=("--enable-cpu-fallback",),
        ),
    ]
    quantized: Annotated[
        bool,
        Option("Round to encodings (cpu). Otherwise tensors with encodings run as floats.", default=True),
    ]
    plain: Annotated[
        bool,
        Option(
            "Round to encodings and compute in float between them, without HTP's steps (cpu).", default=False
        ),
    ]
    use_aip: Annotated[
        bool,
        Option(
            "Run the AIP record: HTA sections as xdlc compiled them, other sections on the CPU.",
            default=False,
        ),
    ]
    threads: Annotated[
        int | None,
        Option("Use this many threads for one op (cpu, aip).", limits=(1, None), default_text="one per core"),
    ]
    loop_timeout: Annotated[
        float | None,
        Option(
            "Stop a loop after this many seconds, at most 15.", default_text="2; 15 on HTP", metavar="SECONDS"
        ),
    ]
    kernels: Annotated[
        Any,
        Option("Use these open kernels instead of {udo_package_path}; the caller closes them."),
    ]
    notify: Annotated[
        Notify | None, Option("Call this function with each notice, a line of text (htp, aip).")
    ]
