"""``xconv-caffe-to-dlc``: a Caffe net and its weights as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.caffe import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND)
