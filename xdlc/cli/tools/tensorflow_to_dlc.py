"""``xconv-tensorflow-to-dlc``: a TensorFlow or Keras model as a DLC."""

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.keras import FRONTEND as KERAS
from xdlc.converter.tensorflow import FRONTEND

main = converter_tool(FRONTEND.tool, FRONTEND, KERAS)
