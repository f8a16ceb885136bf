"""``xconv-caffe2-to-dlc``: a Caffe2 predict net and its init net as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.caffe2 import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND)
