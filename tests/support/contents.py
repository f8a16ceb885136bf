"""Contents of the viewer's page, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Content = dict[str, Any]
INSERTED, HOST, REFUSED, WRONG = 1, 2, 4, 8


def graph(
    ops: Sequence[Mapping[str, Any]], *, name: str = "main", scopes: Iterable[Sequence[Any]] = ()
) -> Content:
    """Return a graph of ops; each makes one tensor, and reads what ``reads`` has.

    Args:
        ops: ``reads`` (indices of ops, -1: the input), and what differs from an op without anything.
        name: Its name.
        scopes: Name and parent of each scope.
    """
    types = list(dict.fromkeys(op.get("type", "Conv2d") for op in ops))
    tensors: list[list[Any]] = [
        [f"{op['name']}:0", "float32", [1, None, number], "native", op.get("encoding", 0), op.get("stats", 0)]
        for number, op in enumerate(ops)
    ]
    tensors.append(["input", "float32", [1, 8], "input", 0, 0])
    rows = [
        [
            op["name"],
            types.index(op.get("type", "Conv2d")),
            op.get("scope", -1),
            [len(ops) if source < 0 else source for source in op["reads"]],
            [number],
            op.get("params", {}),
            op.get("nodes", []),
            op.get("reason", 0),
            op.get("bodies", 0),
            op.get("package", 0),
            op.get("flags", 0),
        ]
        for number, op in enumerate(ops)
    ]
    stats = {"low": -1, "high": 2, "mean": 0.5, "std": 1, "zeros": 0.25, "n": 9, "bars": [-1, 1, [1, 0, 8]]}
    return {
        "name": name,
        "tensors": tensors,
        "stats": [{**stats, "of": "activations"}],
        "inputs": [len(ops)],
        "outputs": [len(ops) - 1],
        "scopes": [list(scope) for scope in scopes],
        "types": types,
        "ops": rows,
    }


def overlay(key: str, values: Sequence[Sequence[Any]], **settings: Any) -> Content:
    """Return an overlay; of numbers, unless it has colors."""
    record: Content = {
        "key": key,
        "title": key.upper(),
        "unit": "",
        "help": "What it is.",
        "kind": "class" if "colors" in settings else "number",
        "low_is_bad": False,
        "marks": None,
        "colors": {},
        "graphs": [list(column) for column in values],
        "notes": None,
        "from": "",
    }
    return record | settings


def side(*graphs: Content, file: str = "net.dlc", **settings: Any) -> Content:
    """Return one file with graphs."""
    record: Content = {
        "file": file,
        "kind": "DLC 4.1",
        "bytes": 4096,
        "facts": [["Version", "4.1"]],
        "records": [],
        "problems": [],
        "graphs": list(graphs),
        "overlays": [],
    }
    return record | settings


def content(*sides: Content, diff: Content | None = None, link: Any = None) -> Content:
    """Return the content of a page."""
    return {"schema": 1, "tool": "xdlc 0", "sides": list(sides), "diff": diff, "link": link}


def blocks(count: int, *, size: int = 10) -> Content:
    """Return ops in scopes of ``size``, which are in scopes of ten.

    An edge leads past the ops of each scope.
    """
    scopes: list[list[Any]] = []
    ops: list[dict[str, Any]] = []
    for number in range(count):
        if number % (10 * size) == 0:
            outer = len(scopes)
            scopes.append([f"stage{number // (10 * size)}", -1])
        if number % size == 0:
            scopes.append([f"block{number // size}", outer])
        reads = [number - 1] + ([number - size] if number % size == size - 1 else [])
        ops.append(
            {
                "name": f"stage{number // (10 * size)}/block{number // size}/op{number}",
                "scope": len(scopes) - 1,
                "type": ("Conv2d", "ElementWiseNeuron", "Softmax")[number % 3],
                "reads": reads,
                "nodes": [f"/source/node{number}"],
            }
        )
    return graph(ops, scopes=scopes)
