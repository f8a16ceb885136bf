"""Options of running a model, and of the kernels of user-defined operations."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

from xdlc.options import Notify, Option, Paths

Mode: TypeAlias = Literal["permissive", "strict", "always_generate_new"]
CACHE_MODES: tuple[Mode, ...] = get_args(Mode)


class KernelOptions(TypedDict, total=False):
    """Options of the kernels that run the UDOs of a model."""

    udo_package_path: Annotated[
        Paths,
        Option(
            "Kernels of the UDOs in the model: registration libraries, Python files, folders kernel_meta.",
            metavar="FILE,FILE..",
        ),
    ]
    udo_timeout: Annotated[
        float | None,
        Option("Time limit of one execution of a UDO.", default_text="60", metavar="SECONDS"),
    ]


class RunOptions(KernelOptions, total=False):
    """Options of ``Session`` and ``run``; help of both describes them."""

    outputs: Annotated[
        Sequence[str], Option("Names of tensors to return in addition to the graph's outputs.", default=())
    ]
    graph: Annotated[
        str | None,
        Option(
            "Graph to run, of a model with several (cpu, htp).",
            default_text="the one whose inputs have the shapes of the arrays, or else the first",
            metavar="NAME",
        ),
    ]
    soc: Annotated[
        str | None,
        Option(
            "SoC to emulate (htp).",
            default_text="that of the first usable cache, or else sm8650",
            metavar="NAME",
        ),
    ]
    mode: Annotated[
        Mode,
        Option(
            "Caches to accept (htp): those that run on the SoC, only those that use it fully, or none.",
            default=CACHE_MODES[0],
            choices=CACHE_MODES,
            flags=("--cache-compatibility-mode",),
        ),
    ]
    validate: Annotated[
        bool,
        Option(
            "Fail instead of compiling the model if no cache is usable, with the reason for each (htp).",
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
        Option("Round to encodings (cpu); otherwise tensors with encodings run as floats.", default=True),
    ]
    plain: Annotated[
        bool,
        Option(
            "Round tensors with encodings and compute in float between them, without HTP's own arithmetic "
            "(cpu).",
            default=False,
        ),
    ]
    use_aip: Annotated[
        bool,
        Option(
            "Run the sections of the AIP record: HTA sections as compiled by xdlc, others on the CPU.",
            default=False,
        ),
    ]
    threads: Annotated[
        int | None, Option("Threads of one op (cpu, aip).", limits=(1, None), default_text="one per core")
    ]
    loop_timeout: Annotated[
        float | None,
        Option("Time limit of each loop, at most 15.", default_text="2; 15 on HTP", metavar="SECONDS"),
    ]
    kernels: Annotated[
        Any,
        Option("Open kernels, which the caller closes, instead of {udo_package_path} and {udo_timeout}."),
    ]
    notify: Annotated[Notify | None, Option("Called with each notice, a line of text (htp, aip).")]
