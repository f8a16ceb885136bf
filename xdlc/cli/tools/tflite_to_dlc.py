"""``xconv-tflite-to-dlc``: a TFLite model as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.tflite import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND)
