"""From the layers of SNPE 1 (containers of format 3) to QNN operations, and back.

A translation of the graph, not lowerings of its own: what comes out runs, quantizes, prepares and
exports like any other model, and can be written as a container of format 4; or, the other way, of format 3.
"""

from xdlc.converter.snpe.to_layers import foreign, to_layers
from xdlc.converter.snpe.translate import has_layers, translate

__all__ = ["foreign", "has_layers", "to_layers", "translate"]
