"""Importer of TensorFlow: frozen graphs, SavedModels, checkpoints with a graph."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption, reader, reads

FRONTEND = Frontend(
    framework="tensorflow",
    model="a TensorFlow model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=reads(formats.GRAPH_DEF, formats.META_GRAPH, formats.SAVED_MODEL),
    read=reader("tensorflow"),
    options=(
        FrontendOption(
            "out_node",
            "names",
            "Node at which the graph ends instead of the model's outputs; NODE:K is output K of one. "
            "Repeatable.",
            metavar="NODE",
        ),
        FrontendOption(
            "saved_model_tag",
            "text",
            "Tags of the SavedModel's graph, separated by commas.  [default: serve]",
            metavar="TAG",
        ),
        FrontendOption(
            "saved_model_signature_key",
            "text",
            "Signature whose inputs and outputs the DLC gets.  [default: serving_default]",
            metavar="KEY",
        ),
        FrontendOption(
            "show_unconsumed_nodes", "switch", "List the nodes of the graph that no output needs."
        ),
    ),
)
