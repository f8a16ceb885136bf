"""``xdlc-convert``: a model of any framework as a DLC, recognized by its content."""

from xdlc.cli.convert_options import converter_tool

main = converter_tool("xdlc-convert")
