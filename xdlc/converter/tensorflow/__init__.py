"""Importer of TensorFlow: frozen graphs, SavedModels, checkpoints with a graph."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads
from xdlc.options import Option


class TensorflowOptions(TypedDict, total=False):
    """Options of TensorFlow models."""

    out_node: Annotated[
        Sequence[str],
        Option(
            "End the graph at this node instead of at the model's outputs; NODE:K is output K of a node.",
            default=(),
            metavar="NODE",
        ),
    ]
    saved_model_tag: Annotated[
        str | None,
        Option(
            "Use the graph with these tags of the SavedModel, separated by commas.",
            default_text="serve",
            metavar="TAG",
        ),
    ]
    saved_model_signature_key: Annotated[
        str | None,
        Option(
            "Use the inputs and outputs of this signature of the SavedModel.",
            default_text="serving_default",
            metavar="KEY",
        ),
    ]
    show_unconsumed_nodes: Annotated[
        bool, Option("List the nodes of the graph that no output needs.", default=False)
    ]


FRONTEND = Frontend(
    framework="tensorflow",
    model="a TensorFlow model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=reads(formats.GRAPH_DEF, formats.META_GRAPH, formats.SAVED_MODEL),
    read=reader("tensorflow"),
    options=TensorflowOptions,
)
