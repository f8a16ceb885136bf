"""Options of the debugger."""

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from xdlc.options import Notify, Option, PathLike

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
