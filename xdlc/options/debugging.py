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
            "Engine that counts as right: a source model (FRAMEWORK:FILE or FILE), a DLC, a folder of raw "
            "results, cpu, float (the DLC on this machine without rounding), or htp:SOC.",
            default_text="float for a quantized DLC, cpu with {soc}",
            metavar="ENGINE",
        ),
    ]
    candidate: Annotated[
        PathLike | None,
        Option(
            "Engine that is judged, in the forms of {reference}.",
            default_text="htp with {soc}, else cpu",
            metavar="ENGINE",
        ),
    ]
    graph: Annotated[
        str | None,
        Option("Graph to compare, of a model with several.", default_text="the first", metavar="NAME"),
    ]
    soc: Annotated[str | None, Option("SoC to emulate.", metavar="NAME")]
    weights: Annotated[
        PathLike | None,
        Option("File with the weights of a source model whose file has none (.caffemodel).", metavar="FILE"),
    ]
    least: Annotated[
        float | None,
        Option(
            "SQNR below which an op alone is wrong.",
            default_text="60 for float32, 40 on HTP; of fixed point what one step off makes, at most 24 "
            "after floats",
            limits=(-200, 200),
            metavar="DB",
            flags=("--min-op-sqnr",),
        ),
    ]
    metric: Annotated[
        Callable[[Any, Any], float] | str | None,
        Option(
            "Add a number for each tensor: FUNCTION(reference, candidate) of arrays. FILE.py is executed.",
            metavar="FILE.py:FUNCTION",
        ),
    ]
    samples_most: Annotated[
        int,
        Option(
            "Number of samples that are compared.", default=SAMPLES, limits=(1, 10_000), flags=("--samples",)
        ),
    ]
    memory: Annotated[
        int,
        Option(
            "Memory for the values that are compared.", default=MEMORY, limits=(1, 1 << 20), metavar="MIB"
        ),
    ]
    reproducer: Annotated[
        PathLike | None,
        Option(
            "Write the smallest part that still is wrong, or still ends the compiler, as DLC, ONNX model, "
            "inputs and shell line.",
            metavar="FOLDER",
        ),
    ]
    noise: Annotated[bool, Option("Replace the weights of the {reproducer} by seeded noise.", default=False)]
    notify: Annotated[Notify | None, Option("Called with each notice, a line of text.")]
