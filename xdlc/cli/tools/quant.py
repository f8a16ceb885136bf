"""``xdlc-quant``: a float DLC quantized with calibration data."""

from xdlc.cli.tools.quantize import quantizing_tool

main = quantizing_tool(
    "xdlc-quant",
    """Quantize a DLC.

    Runs it on calibration samples, chooses encodings, and stores weights as integers.
    """,
    keeps_quantized=False,
)
