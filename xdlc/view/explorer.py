"""Content of the page in the forms of Google's Model Explorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.page import printable
from xdlc.page.pictures import short
from xdlc.view.graphs import FIRST_WRONG, HOST, INSERTED, REFUSED, UDO

LONGEST = 300
"""Characters of a name; the rest is cut out of its middle."""
COLORS = {
    "good": "#c8e6c9",
    "warn": "#ffe0b2",
    "alarm": "#ffcdd2",
    "c1": "#bbdefb",
    "c2": "#d1c4e9",
    "c3": "#b2dfdb",
    "c4": "#f8bbd0",
    "c5": "#e6ee9c",
    "c6": "#cfd8dc",
}
FLAGS = {
    INSERTED: "inserted by xdlc",
    HOST: "runs on the host",
    REFUSED: "refused",
    FIRST_WRONG: "first wrong op",
    UDO: "UDO",
}
Record = Mapping[str, Any]


def explorer_graphs(side: Record) -> list[dict[str, Any]]:
    """Return the graphs of a side of the page for Model Explorer.

    A node has the index of its op as identifier; inputs and outputs of a graph are further nodes.

    Args:
        side: A side of ``xdlc.view.content.side``.
    """
    ids = graph_ids(side)
    graphs = [_graph(graph, ids, id) for graph, id in zip(side["graphs"], ids, strict=True)]
    if graphs:
        facts: dict[str, list[str]] = {}
        for label, value in side["facts"]:
            facts.setdefault(_name(label), []).append(_name(value))
        graphs[0]["groupNodeAttributes"] = {"": {label: "; ".join(texts) for label, texts in facts.items()}}
    return graphs


def node_data(side: Record) -> dict[str, dict[str, Any]]:
    """Return the overlays of a side of the page as node data, by key.

    Args:
        side: A side of ``xdlc.view.content.side``.
    """
    ids = graph_ids(side)
    return {
        overlay["key"]: {
            id: {**_scale(overlay), "results": _results(overlay, values), "name": _title(overlay)}
            for id, values in zip(ids, overlay["graphs"], strict=True)
        }
        for overlay in side["overlays"]
    }


def graph_ids(side: Record) -> list[str]:
    """Return the names of graphs, numbered if one is empty or two look alike."""
    names = [_name(graph["name"]) for graph in side["graphs"]]
    if all(names) and len(set(names)) == len(names):
        return names
    return [f"{name} #{place}".strip() for place, name in enumerate(names)]


def _name(words: Any) -> str:
    return short(printable(str(words)), LONGEST)


def _title(overlay: Record) -> str:
    return f"{overlay['title']} ({overlay['unit']})" if overlay["unit"] else str(overlay["title"])


def _attrs(values: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": _name(key), "value": _name(value)} for key, value in values.items() if value]


def _graph(graph: Record, ids: Sequence[str], id: str) -> dict[str, Any]:
    sources = {place: (f"input {place}", 0) for place in graph["inputs"]}
    sources |= {
        place: (str(number), port)
        for number, op in enumerate(graph["ops"])
        for port, place in enumerate(op[4])
    }
    paths: list[str] = []
    for name, parent in graph["scopes"]:
        paths.append((f"{paths[parent]}/" if parent >= 0 else "") + _name(name))
    tensors = graph["tensors"]
    nodes = [_port(tensors[place], f"input {place}", "Inputs") for place in graph["inputs"]]
    nodes += [
        _op_node(graph, number, paths[op[2]] if op[2] >= 0 else "", sources, ids)
        for number, op in enumerate(graph["ops"])
    ]
    for place in graph["outputs"]:
        node = _port(tensors[place], f"output {place}", "Outputs")
        node["incomingEdges"] = _edges([place], sources)
        nodes.append(node)
    return {"id": id, "nodes": nodes}


def _port(tensor: Sequence[Any], id: str, group: str) -> dict[str, Any]:
    return {
        "id": id,
        "label": _name(tensor[0]),
        "namespace": group,
        "outputsMetadata": [{"id": "0", "attrs": _tensor_attrs(tensor)}],
    }


def _op_node(
    graph: Record, number: int, path: str, sources: Mapping[int, tuple[str, int]], ids: Sequence[str]
) -> dict[str, Any]:
    name, type, _, inputs, outputs, params, nodes, reason, bodies, package, flags = graph["ops"][number]
    tensors = graph["tensors"]
    facts = {
        "name": name,
        "package": package,
        "source nodes": ", ".join(nodes),
        "reason": reason,
        "notes": ", ".join(text for bit, text in FLAGS.items() if flags & bit),
    }
    fixed = {
        f"input {port}": f"{tensors[place][0]}: {_words(tensors[place])}"
        for port, place in enumerate(inputs)
        if place >= 0 and place not in sources
    }
    texts = {key: str(value) for key, value in params.items()}
    return {
        "id": str(number),
        "label": _name(graph["types"][type]),
        "namespace": path,
        "attrs": _attrs(facts) + _attrs(texts) + _attrs(fixed),
        "incomingEdges": _edges(inputs, sources),
        "outputsMetadata": [
            {"id": str(port), "attrs": _tensor_attrs(tensors[place])} for port, place in enumerate(outputs)
        ],
        "inputsMetadata": [
            {"id": str(port), "attrs": _attrs({"__tensor_tag": tensors[place][0]})}
            for port, place in enumerate(inputs)
            if place >= 0
        ],
        "subgraphIds": [ids[body] for body in bodies or ()],
    }


def _edges(places: Sequence[int], sources: Mapping[int, tuple[str, int]]) -> list[dict[str, str]]:
    return [
        {
            "sourceNodeId": sources[place][0],
            "sourceNodeOutputId": str(sources[place][1]),
            "targetNodeInputId": str(port),
        }
        for port, place in enumerate(places)
        if place in sources
    ]


def _tensor_attrs(tensor: Sequence[Any]) -> list[dict[str, str]]:
    return _attrs({"tensor_name": tensor[0], "tensor_shape": _shape(tensor), "encoding": tensor[4]})


def _shape(tensor: Sequence[Any]) -> str:
    return f"{tensor[1]}[{','.join('?' if size is None else str(size) for size in tensor[2])}]"


def _words(tensor: Sequence[Any]) -> str:
    return f"{_shape(tensor)}, {tensor[4]}" if tensor[4] else _shape(tensor)


def _results(overlay: Record, values: Sequence[Any]) -> dict[str, dict[str, Any]]:
    colors = {name: COLORS[color] for name, color in overlay["colors"].items()}
    return {
        str(place): {"value": _name(value) if isinstance(value, str) else value}
        | ({"bgColor": colors[value]} if value in colors else {})
        for place, value in enumerate(values)
        if value is not None
    }


def _scale(overlay: Record) -> dict[str, Any]:
    """Return how Model Explorer colors the figures of an overlay."""
    if overlay["kind"] == "class":
        return {}
    bad, good = COLORS["alarm"], COLORS["good"]
    low, high = (bad, good) if overlay["low_is_bad"] else (good, bad)
    if overlay["marks"] is None:
        return {"gradient": [{"stop": 0, "bgColor": low}, {"stop": 1, "bgColor": high}]}
    first, last = sorted(overlay["marks"])
    colors = (low, COLORS["warn"], high)
    ends = (first, last, 1e308)
    return {"thresholds": [{"value": end, "bgColor": c} for end, c in zip(ends, colors, strict=True)]}
