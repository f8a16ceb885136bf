"""The readable form of what ``inspection.inspect`` found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdlc.cli import text
from xdlc.cli.aip_records import aip_lines
from xdlc.cli.cache_records import NO_CLOCK, cache_lines
from xdlc.cli.contract import port_lines, raw_lines
from xdlc.cli.text import WIDTH
from xdlc.cli.udo_packages import package_lines

NATIVE, HOST = "qti.aisw", "xdlc"
_SHOWN_AS_HISTORY = ("-command", "converter-version")


def report(found: dict[str, Any], *, ops: bool, encodings: bool, trace: bool) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        found: What ``inspect`` returned.
        ops: Show the ops one by one.
        encodings: Show the encoding of every tensor, not just of inputs and outputs.
        trace: Show the source nodes of each op.
    """
    yield from _head(found)
    for graph in found["graphs"]:
        yield ""
        yield from _graph(graph, ops=ops, encodings=encodings, trace=trace)
    if trace and found["source_nodes"]:
        yield ""
        yield from _source_nodes(found["source_nodes"])
    if not found["graphs"]:
        yield ""
        yield "no graph: the container holds records only"
    yield from package_lines(found["packages"])
    yield from cache_lines(found["caches"])
    yield from aip_lines(found["aip"])
    if found["records"]:
        yield ""
        yield "other records"
        yield from text.columns([(text.clean(r["name"]), text.size(r["bytes"])) for r in found["records"]])


def _head(found: dict[str, Any]) -> Iterator[str]:
    rows = [
        ("file", text.clean(found["file"])),
        ("size", f"{text.size(found['bytes'])} ({found['bytes']} bytes)"),
        ("container", f"DLC {text.clean(found['version'] or 'without a version entry')}"),
    ]
    rows += [
        (text.clean(key), text.clean(value))
        for key, value in found["properties"].items()
        if value != "N/A" and not key.endswith(_SHOWN_AS_HISTORY)
    ]
    for step in found["history"]:
        args = step.get("args")
        pairs = args.items() if isinstance(args, dict) else ()
        when = str(step.get("timestamp") or "")
        words = [step.get("tool", "?"), step.get("converterVersion", "")]
        words += [] if when.startswith(NO_CLOCK) else [when]
        made = " ".join(text.clean(word) for word in words if word)
        rows.append(("made by", made))
        rows += [("", f"{text.clean(key)}: {text.clean(value)}") for key, value in pairs]
    yield from text.columns(rows, indent="")


def _graph(graph: dict[str, Any], *, ops: bool, encodings: bool, trace: bool) -> Iterator[str]:
    totals = graph["totals"]
    yield f"graph {text.clean(graph['name'])}"
    for title in ("inputs", "outputs"):
        yield f"  {title}"
        yield from port_lines(graph[title])
    yield from raw_lines(graph["inputs"], graph["outputs"])
    if ops:
        yield "  ops"
        for op in graph["ops"]:
            yield from _op(op, encodings=encodings, trace=trace)
    yield "  totals"
    types = ", ".join(f"{text.clean(name)} {number}" for name, number in totals["types"].items())
    yield from text.columns(
        [
            ("ops", f"{totals['ops']}: {types}" if types else "none"),
            ("parameters", f"{text.count(totals['parameters'])}, {text.size(totals['parameter_bytes'])}"),
            ("MACs", f"{text.count(totals['macs'])} per inference"),
        ]
    )


def _source_nodes(nodes: list[dict[str, Any]]) -> Iterator[str]:
    yield f"source nodes: {len(nodes)}"
    rows = [
        (
            text.clean(node["name"]),
            text.clean(node["type"]),
            "\n".join(map(text.clean, node["ops"])) or f"({text.clean(node.get('reason', 'no op'))})",
        )
        for node in nodes
    ]
    yield from text.table(("node", "operator", "ops"), rows, (40, 20))


def _op(op: dict[str, Any], *, encodings: bool, trace: bool) -> Iterator[str]:
    package = "" if op["package"] == NATIVE else f"{text.clean(op['package'])}::"
    work = [
        f"{text.count(op[key])} {unit}"
        for key, unit in (("parameters", "params"), ("macs", "MACs"))
        if op[key]
    ]
    head = f"  {op['id']:>4}  {package}{text.clean(op['type']):<20}  {text.clean(op['name'])}"
    notes = f"  ({', '.join(work)})" if work else ""
    if len(head) + len(notes) <= WIDTH:
        yield head + notes
    else:
        yield from (head, " " * 6 + notes)
    rows = []
    for title in ("inputs", "outputs"):
        for tensor in op[title]:
            rows.append((title[:-1] if title == "outputs" else "input", *_tensor(tensor, encodings)))
    if op["params"]:
        named = op.get("enumerators", {})
        values = [
            f"{text.clean(name)}={text.param(value)}" + (f" ({named[name]})" if name in named else "")
            for name, value in op["params"].items()
        ]
        rows.append(("params", "  ".join(values)))
    if trace and op.get("source"):
        rows.append(("source", ", ".join(text.clean(node) for node in op["source"])))
    if op.get("reason"):
        rows.append(("on host" if op["package"] == HOST else "inserted", text.clean(op["reason"])))
    indent = " " * 8
    for row in rows:
        yield from text.columns([(f"{row[0]:<8}", *row[1:])], indent)


def _tensor(tensor: dict[str, Any] | None, encodings: bool) -> tuple[str, ...]:
    if tensor is None:
        return ("(left out)",)
    words = [f"{tensor['dtype']:<8}", text.dims(tensor["shape"])]
    if tensor["role"] != "NATIVE":
        words.append(tensor["role"].lower().replace("_", "/"))
    if encodings and "encoding" in tensor:
        words.append(text.encoding(tensor["encoding"]))
    return (f"{text.clean(tensor['name']):<44}", " ".join(words))
