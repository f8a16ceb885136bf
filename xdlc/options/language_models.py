"""Options of building bundles of language models."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from xdlc.options import DEFAULT_SOC, Names, Option, PathLike
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
            "Limit a conversation to this many tokens. A run uses the shortest limit that fits.",
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
            "Store weights in this form. w4b32: 4 bits with a scale for 32 values, and float activations; "
            "fp16: floats. w4 and w8: 4 and 8 bits, with 16-bit activations that {text} calibrates.",
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
        Option("Write this many context binaries; auto: by their size.", default="auto", metavar="N|auto"),
    ]
    text: Annotated[PathLike | None, Option("Calibrate with this text in UTF-8.", metavar="FILE")]
    tokenizer: Annotated[
        Any,  # in Python also a tokenizer of transformers
        Option("Use this tokenizer.json, or its folder.", default_text="the source's", metavar="PATH"),
    ]
    algorithms: Annotated[
        Names,
        Option(
            "Apply these algorithms, with 16-bit activations.", default=(), choices=ALGORITHMS, metavar="A,B"
        ),
    ]
    weights_bitwidth_of: Annotated[
        Mapping[str, int] | None,
        Option(
            "Set the bits of weights: layer_0.down, *.down for all layers, head. The head has 8 or more.",
            choices=WEIGHT_BITS,
            metavar="NAME BITS",
        ),
    ]
    verify: Annotated[bool, Option("Compare context binaries with the host.", default=True)]
