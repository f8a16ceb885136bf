"""Importer of TFLite models."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption, reader, reads

FRONTEND = Frontend(
    framework="tflite",
    model="a TFLite model",
    tool="xconv-tflite-to-dlc",
    recognizes=reads(formats.TFLITE),
    read=reader("tflite"),
    options=(
        FrontendOption(
            "signature_name",
            "text",
            "Signature of a TFLite model to convert, by its key.",
            spellings=("-sn",),
            metavar="KEY",
        ),
        FrontendOption(
            "partial_graph_input_name",
            "names",
            "Tensor that becomes an input: the graph is cut before it. Repeatable.",
            metavar="NAME",
        ),
        FrontendOption(
            "float",
            "switch",
            "Dequantize a quantized TFLite model: weights and activations become float32, without encodings.",
        ),
    ),
)
