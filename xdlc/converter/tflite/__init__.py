"""Importer of TFLite models."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads
from xdlc.options import Option


class TfliteOptions(TypedDict, total=False):
    """Options of TFLite models."""

    signature_name: Annotated[
        str | None,
        Option(
            "Convert this signature of a TFLite model, by its key.",
            metavar="KEY",
            flags=("--signature-name", "-sn"),
        ),
    ]
    partial_graph_input_name: Annotated[
        Sequence[str],
        Option("Cut the graph before this tensor, which becomes an input.", default=(), metavar="NAME"),
    ]
    float: Annotated[
        bool,
        Option(
            "Dequantize a quantized TFLite model: weights and activations become float32, without encodings.",
            default=False,
        ),
    ]


FRONTEND = Frontend(
    framework="tflite",
    model="a TFLite model",
    tool="xconv-tflite-to-dlc",
    recognizes=reads(formats.TFLITE),
    read=reader("tflite"),
    options=TfliteOptions,
)
