"""Options of building bundles of language models."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from xdlc.options import Names, Option, PathLike
from xdlc.options.quantizing import WEIGHT_BITS

ALGORITHMS = ("adaround", "seqmse")
"""Algorithms of the quantizer that gain decoders something."""
WEIGHTS = ("fp16", "w8", "w4", "w4b32")
"""Forms of weights."""
ENGINES = ("auto", "genie", "htp", "host", "float")
"""Engines: auto, the vendor's runtime, the emulation of a SoC, the host, the host without rounding."""


class BuildOptions(TypedDict, total=False):
    """Options of ``xdlc.llm.build``; docs/guides/llm.md describes them."""

    targets: Annotated[
        Names,
        Option(
            "SoC to compile for.",
            default=("sm8650",),
            default_text="sm8650",
            metavar="NAME,NAME..",
            flags=("--soc", "--target"),
        ),
    ]
    context: Annotated[
        int | Sequence[int],
        Option(
            "Most tokens of a conversation. With several, a run uses the shortest that holds the tokens.",
            default=4096,
            limits=(2, 1 << 20),
            metavar="N,N..",
        ),
    ]
    prompt_tokens: Annotated[
        int,
        Option("Tokens of a prompt that are processed at a time.", default=128, limits=(1, 1 << 16)),
    ]
    weights: Annotated[
        str,
        Option(
            "Weights: w4b32, 4 bits with a scale for 32 values, and float activations; w4 and w8, 4 and 8 "
            "bits, and activations of 16 bits, which {text} calibrates; fp16, floats.",
            default="w4b32",
            choices=WEIGHTS,
        ),
    ]
    kv: Annotated[
        int | None,
        Option(
            "Bits of cached keys and values.",
            default_text="8 with activations of 16 bits, else 16",
            choices=(8, 16),
        ),
    ]
    splits: Annotated[
        int | str,
        Option("Number of context binaries, or auto: by their size.", default="auto", metavar="N|auto"),
    ]
    text: Annotated[PathLike | None, Option("Text in UTF-8 to calibrate with.", metavar="FILE")]
    tokenizer: Annotated[
        Any,  # in Python also a tokenizer of transformers
        Option("The tokenizer.json, or its folder.", default_text="that of the source", metavar="PATH"),
    ]
    algorithms: Annotated[
        Names,
        Option(
            "Accuracy algorithms, with activations of 16 bits.",
            default=(),
            choices=ALGORITHMS,
            metavar="A,B",
        ),
    ]
    weights_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Bits of the weights of linear maps: layer_0.down, *.down for all layers, head.  The head has 8 "
            "by default, or more.",
            choices=WEIGHT_BITS,
            metavar="NAME BITS",
        ),
    ]
    verify: Annotated[bool, Option("Compare context binaries with the host.", default=True)]
