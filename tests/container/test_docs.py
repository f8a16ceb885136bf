"""The page on the container names the keys of the records that xdlc writes."""

from pathlib import Path

from xdlc.container import metadata
from xdlc.ir import Graph, Model, Tensor
from xdlc.ir.dtype import UFIXED8
from xdlc.ir.encoding import ScaleOffset

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "container-format.md"


def test_the_page_names_the_keys_of_the_records():
    graph = Graph("net")
    graph.add_input(Tensor("x", (1, 3), UFIXED8, encoding=ScaleOffset(0.5, -3, 8), dynamic_axes=(0,)))
    model = Model()
    model.add_graph(graph)
    (record,) = metadata.io_contract(model)["graphs"]
    keys = {*record, *record["inputs"][0], *metadata.TRACED, *metadata._NOTES}
    text = PAGE.read_text()
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
