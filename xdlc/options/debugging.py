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
            "Trust this engine: a source model (FRAMEWORK:FILE or FILE), a DLC, a folder of raw results, "
            "cpu, float or htp:SOC. float runs the DLC on this machine without rounding.",
            default_text="float for a quantized DLC, cpu with {soc}",
            metavar="ENGINE",
        ),
    ]
    candidate: Annotated[
        PathLike | None,
        Option(
            "Judge this engine, in the forms of {reference}.",
            default_text="htp with {soc}, else cpu",
            metavar="ENGINE",
        ),
    ]
    graph: Annotated[
        str | None,
        Option("Compare this graph of a model with several.", default_text="the first", metavar="NAME"),
    ]
    soc: Annotated[str | None, Option("Emulate this SoC.", metavar="SOC")]
    weights: Annotated[
        PathLike | None,
        Option("Read the weights of a source model from this file (.caffemodel).", metavar="FILE"),
    ]
    least: Annotated[
        float | None,
        Option(
            "Call an op wrong if its own SQNR in dB is lower.",
            default_text="60 for float32, 40 on HTP; for fixed point the SQNR of one step, at most 24",
            limits=(-200, 200),
            metavar="DB",
            flags=("--min-op-sqnr",),
        ),
    ]
    metric: Annotated[
        Callable[[Any, Any], float] | str | None,
        Option(
            "Add a number for each tensor: FUNCTION(reference, candidate) of arrays. xdlc executes FILE.py.",
            metavar="FILE.py:FUNCTION",
        ),
    ]
    samples_most: Annotated[
        int,
        Option("Compare this many samples.", default=SAMPLES, limits=(1, 10_000), flags=("--samples",)),
    ]
    memory: Annotated[
        int,
        Option("Use this much memory for values.", default=MEMORY, limits=(1, 1 << 20), metavar="MIB"),
    ]
    reproducer: Annotated[
        PathLike | None,
        Option(
            "Write the smallest part that is still wrong, or still crashes the compiler: DLC, ONNX model, "
            "inputs and shell line.",
            metavar="FOLDER",
        ),
    ]
    noise: Annotated[bool, Option("Replace the weights of the {reproducer} by seeded noise.", default=False)]
    notify: Annotated[Notify | None, Option("Call this function with each notice, a line of text.")]
