"""``xconv-onnx-to-dlc``: an ONNX model as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.onnx import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND)
