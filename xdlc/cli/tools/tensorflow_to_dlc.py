"""``xconv-tensorflow-to-dlc``: a TensorFlow model as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.tensorflow.frontend import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND)
