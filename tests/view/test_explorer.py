"""Content of the page in the forms of Model Explorer."""

from tests.support.pages import HOSTILE
from xdlc.view.explorer import explorer_graphs, graph_ids, node_data


def tensor(name, role="native", encoding=0):
    return [name, "float32", [1, None], role, encoding, 0]


def graph(name="main", **changes):
    record = {
        "name": name,
        "tensors": [
            tensor("x", "input"),
            tensor("w", "static", "scale 0.5, offset 0"),
            tensor("t"),
            tensor("y"),
        ],
        "stats": [],
        "inputs": [0],
        "outputs": [3],
        "scopes": [["block", -1], ["0", 0]],
        "types": ["Conv2d", "If"],
        "ops": [
            ["conv", 0, 1, [0, 1, -1], [2], {"stride": "[1, 1]"}, ["node"], 0, 0, 0, 0],
            ["if", 1, -1, [2], [3], {}, [], "bodies", [1], "pack", 1],
        ],
    }
    return record | changes


def overlay(**changes):
    record = {"key": "macs", "title": "MACs", "unit": "", "kind": "number", "low_is_bad": False}
    return record | {"marks": None, "colors": {}, "graphs": [[5, None], []]} | changes


def side(*overlays, **changes):
    body = graph("body", ops=[], outputs=[])
    record = {"facts": [["file", "a"], ["file", "b"]], "graphs": [graph(), body], "overlays": list(overlays)}
    return record | changes


def test_nodes_have_namespaces_edges_and_attributes():
    main, body = explorer_graphs(side())
    nodes = {node["id"]: node for node in main["nodes"]}
    assert list(nodes) == ["input 0", "0", "1", "output 3"]
    assert [nodes[id]["namespace"] for id in nodes] == ["Inputs", "block/0", "", "Outputs"]
    edges = [(edge["sourceNodeId"], edge["targetNodeInputId"]) for edge in nodes["0"]["incomingEdges"]]
    assert edges == [("input 0", "0")]
    assert nodes["output 3"]["incomingEdges"][0]["sourceNodeId"] == "1"
    attrs = {attr["key"]: attr["value"] for attr in nodes["0"]["attrs"]}
    assert attrs == {
        "name": "conv",
        "source nodes": "node",
        "stride": "[1, 1]",
        "input 1": "w: float32[1,?], scale 0.5, offset 0",
    }
    assert nodes["1"]["subgraphIds"] == [body["id"]]
    assert {"key": "reason", "value": "bodies"} in nodes["1"]["attrs"]
    assert main["groupNodeAttributes"] == {"": {"file": "a; b"}}


def test_graphs_of_one_name_stay_apart():
    assert graph_ids({"graphs": [{"name": "g"}, {"name": "h"}]}) == ["g", "h"]
    for names in (["g", "g", "g #0"], ["", "#0"], ["n" * 1000, "n" * 1001]):
        assert len(set(graph_ids({"graphs": [{"name": name} for name in names]}))) == len(names)


def test_overlays_become_node_data():
    sqnr = overlay(key="sqnr", unit="dB", low_is_bad=True, marks=[10, 20])
    types = overlay(key="type", kind="class", colors={"int8": "c3"}, graphs=[["int8", "odd"], []])
    data = node_data(side(overlay(), sqnr, types))
    assert data["macs"]["main"]["results"] == {"0": {"value": 5}}
    assert [stop["stop"] for stop in data["macs"]["main"]["gradient"]] == [0, 1]
    assert [mark["value"] for mark in data["sqnr"]["main"]["thresholds"]][:2] == [10, 20]
    assert data["sqnr"]["main"]["name"] == "MACs (dB)"
    assert data["sqnr"]["main"]["thresholds"][0]["bgColor"] == data["macs"]["main"]["gradient"][1]["bgColor"]
    results = data["type"]["main"]["results"]
    assert set(results["0"]) == {"value", "bgColor"}
    assert results["1"] == {"value": "odd"}
    assert data["macs"]["body"]["results"] == {}


def test_names_of_strangers_are_cut_and_printable():
    tensors = [tensor(HOSTILE, "input"), tensor("w", "static"), tensor(HOSTILE + "t"), tensor("y")]
    main, _ = explorer_graphs(side(graphs=[graph(HOSTILE, tensors=tensors), graph("body")]))
    texts = [main["id"], *(node["label"] for node in main["nodes"])]
    texts += [
        attr["value"] for node in main["nodes"] for item in node["outputsMetadata"] for attr in item["attrs"]
    ]
    classes = overlay(kind="class", colors={HOSTILE: "c1"}, graphs=[[HOSTILE], []])
    (result,) = node_data(side(classes))["macs"]["main"]["results"].values()
    assert "bgColor" in result
    assert all(text.isprintable() and len(text) <= 300 for text in [*texts, result["value"]])
