"""``xconv-pytorch-to-dlc``: a PyTorch program as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.pytorch import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND)
