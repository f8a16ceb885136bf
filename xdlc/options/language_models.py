"""Options of building bundles of language models."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from xdlc.options import DEFAULT_SOC, Names, Option, PathLike
from xdlc.options.quantizing import WEIGHT_BITS
from xdlc.options.running import WorkerOptions

ALGORITHMS = ("adaround", "seqmse")
"""Algorithms of the quantizer that gain decoders something."""
WEIGHTS = ("fp16", "w8", "w4", "w4b32")
"""Forms of weights."""
ENGINES = ("auto", "genie", "htp", "host", "float")
"""Engines: auto, the vendor's runtime, the emulation of a SoC, the host, the host without rounding."""


class BuildOptions(WorkerOptions, total=False):
    """Options of ``xdlc.llm.build``; docs/guides/llm.md describes them."""

    targets: Annotated[
        Names,
        Option(
            "Compile for this SoC.",
            default=(DEFAULT_SOC,),
            default_text=DEFAULT_SOC,
            metavar="SOC,SOC..",
            flags=("--soc", "--target"),
        ),
    ]
    context: Annotated[
        int | Sequence[int],
        Option(
            "Limit a conversation to this many tokens. With several limits, xdlc uses the smallest limit "
            "that the conversation fits.",
            default=4096,
            limits=(2, 1 << 20),
            metavar="N,N..",
        ),
    ]
    prompt_tokens: Annotated[
        int,
        Option("Process this many tokens of a prompt at a time.", default=128, limits=(1, 1 << 16)),
    ]
    weights: Annotated[
        str,
        Option(
            "Choose the type of weights. w4b32: 4 bits, with one scale for each 32 weights, and float "
            "activations. fp16: 16-bit floats. w4, w8: 4 or 8 bits, and 16-bit activations that xdlc "
            "calibrates with {text}.",
            default="w4b32",
            choices=WEIGHTS,
        ),
    ]
    kv: Annotated[
        int | None,
        Option(
            "Use this many bits for cached keys and values.",
            default_text="8 with 16-bit activations, else 16",
            choices=(8, 16),
        ),
    ]
    splits: Annotated[
        int | str,
        Option(
            "Split the model into this many context binaries. auto: xdlc chooses the number from the size "
            "of the weights.",
            default="auto",
            metavar="N|auto",
        ),
    ]
    text: Annotated[
        PathLike | None, Option("Calibrate activations with this text file in UTF-8.", metavar="FILE")
    ]
    tokenizer: Annotated[
        Any,  # in Python also a tokenizer of transformers
        Option(
            "Use this tokenizer.json, or the tokenizer.json in this folder.",
            default_text="the tokenizer of the source model",
            metavar="PATH",
        ),
    ]
    algorithms: Annotated[
        Names,
        Option(
            "Apply these accuracy algorithms, which need 16-bit activations.",
            default=(),
            choices=ALGORITHMS,
            metavar="A,B",
        ),
    ]
    weights_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Set the bits of some weights, like layer_0.down, *.down (all layers) or head (at least 8 bits).",
            choices=WEIGHT_BITS,
            metavar="NAME BITS",
        ),
    ]
    verify: Annotated[
        bool, Option("Compare the results of the context binaries with results of the CPU.", default=True)
    ]
