"""Description of a model as lines, for ``xdlc-info``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

from xdlc.cli import text
from xdlc.cli.ports import ops_of, port_lines
from xdlc.cli.problems import node_table
from xdlc.container.metadata import NO_CLOCK
from xdlc.ir import Model


def package_lines(packages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of UDO packages: tables of types, inputs and outputs."""
    for package in packages:
        yield ""
        facts = [f"{key} {text.clean(package[key])}" for key in ("domain", "version") if package.get(key)]
        words = f"  ({', '.join(facts)})" if facts else ""
        yield f"user-defined operations of package {text.clean(package['name'])}{words}"
        if "problem" in package:
            yield f"  definitions cannot be read: {text.clean(package['problem'])}"
        elif not package["definition"]:
            yield "  the DLC has no definitions of this package; these lines describe its ops in the model"
        yield from text.table(("type", "ops", "cores"), list(map(_row, package["types"])), (28, 5))
        for held in package["types"]:
            yield from _type(held)


def _row(held: Mapping[str, Any]) -> tuple[str, ...]:
    cores = ", ".join(map(text.clean, held.get("cores", ())))
    if held.get("dsp_archs"):
        cores += f"\n{', '.join(held['dsp_archs'])}"
    return text.clean(held["type"]), str(held["count"]), cores or "?"


def _type(record: Mapping[str, Any]) -> Iterator[str]:
    if "inputs" not in record:
        return
    replaces = "  (replaces the operation of QNN)" if record.get("replaces_native") else ""
    yield f"  {text.clean(record['type'])}{replaces}"
    rows = [
        (title, text.clean(place["name"]), _types(place), _traits(place))
        for title, side in (("input", "inputs"), ("output", "outputs"), ("param", "params"))
        for place in record.get(side, ())
    ]
    yield from text.columns(rows)


def _types(place: Mapping[str, Any]) -> str:
    from xdlc.content.udo_packages import ANY

    parts = [
        ("" if core == ANY else f"{text.clean(core)} ") + "|".join(names)
        for core, names in place["dtypes"].items()
    ]
    return "; ".join(parts) or "?"


def _traits(place: Mapping[str, Any]) -> str:
    from xdlc.content.udo_packages import ANY

    words = ["any rank" if place["rank"] is None else f"rank {place['rank']}" if place["rank"] else "scalar"]
    words += [
        layout if core == ANY else f"{text.clean(core)} {layout}" for core, layout in place["layouts"].items()
    ]
    words += [name for name in ("static", "repeated") if place.get(name)]
    words += [] if place["mandatory"] else ["optional"]
    if place.get("enumeration"):
        words.append("one of " + "|".join(map(text.clean, place["enumeration"])))
    if place.get("default") is not None:
        words.append(f"default {text.short(text.clean(place['default']))}")
    return ", ".join(words)


def aip_lines(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines that show AIP records in full."""
    if not records:
        return
    yield ""
    yield "AIP (HTA) records"
    for record in records:
        yield f"  {text.clean(record['record'])}: {text.size(record['bytes'])}"
        facts = [(key, str(record[key])) for key in ("version", "compiler")]
        flavour = f"{record['flavour']} ({'xdlc' if record['flavour_of'] == 'xdlc' else 'the vendor'}'s)"
        yield from text.columns([*facts, ("flavour", flavour)])
        for section in record["sections"]:
            yield from _section_lines(section)


def _section_lines(section: Mapping[str, Any]) -> Iterator[str]:
    layers = f"    {section['engine']}  layers {section['first_layer']}-{section['last_layer']}"
    code = {None: "", "xdlc": ", prepared by xdlc", "vendor": ", compiled by the vendor"}
    size = f", {text.size(section['binary_bytes'])}" if section["binary_bytes"] else ""
    yield f"{layers}{size}{code[section['compiled_by']]}"
    if "subgraph" in section:
        yield from text.columns([("sub-graph", _subgraph_text(section["subgraph"]))], " " * 6)
    yield from text.columns([_buffer_row(held) for held in section["buffers"]], " " * 6)


def _subgraph_text(held: Mapping[str, Any]) -> str:
    if "problem" in held:
        return text.clean(held["problem"])
    types = held["operations"]
    counts = ", ".join(f"{text.clean(type)} {count}" for type, count in types.items())
    return f"{sum(types.values())} operations ({counts}), constants {text.size(held['constant_bytes'])}"


def _buffer_row(buffer: Mapping[str, Any]) -> tuple[str, ...]:
    memory = ", ".join(f"{dimension['axis']} {dimension['extent']}" for dimension in buffer["dimensions"])
    padded = [str(dimension["padded"]) for dimension in buffer["dimensions"]]
    shown = padded[0] if len(set(padded)) == 1 else ", ".join(padded)
    return (
        buffer["direction"],
        f"layer {buffer['layer']}",
        f"id {buffer['id']:#x}",
        text.clean(buffer["name"]),
        f"[{memory}] padded {shown}" if memory else "",
    )


NATIVE, HOST = "qti.aisw", "xdlc"
_SHOWN_AS_HISTORY = ("-command", "converter-version")


def report(
    content: dict[str, Any],
    *,
    ops: bool,
    encodings: bool,
    trace: bool,
    tables: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        encodings: Show the encoding of every tensor, not just of inputs and outputs.
        trace: Show the source nodes of each op.
        tables: Lines in the place of the ops, by the graph's name.
    """
    yield from _head(content)
    for graph in content["graphs"]:
        yield ""
        table = tables.get(graph["name"])
        yield from _graph(graph, ops=ops and table is None, encodings=encodings, trace=trace)
        yield from (table or ()) if ops else ()
    if trace and (nodes := [*content["source_nodes"]]):
        yield ""
        rows = [(node["name"], node["type"], node["ops"], node.get("reason", "no op")) for node in nodes]
        yield from node_table("source nodes", rows)
    if not content["graphs"]:
        yield ""
        yield "the container has no graph, only records"
    yield from package_lines(content["packages"])
    if content["caches"]:
        from xdlc.cli.cache_records import cache_lines

        yield from cache_lines(content["caches"])
    yield from aip_lines(content["aip"])
    if content["records"]:
        yield ""
        yield "other records"
        yield from text.columns([(text.clean(r["name"]), text.size(r["bytes"])) for r in content["records"]])


def _container(content: dict[str, Any]) -> str:
    if content["format"] != "DLC":
        return str(content["format"])
    return f"DLC {text.clean(content['version'] or 'without a version entry')}"


def _head(content: dict[str, Any]) -> Iterator[str]:
    rows = [
        ("file", text.clean(content["file"])),
        ("size", f"{text.size(content['bytes'])} ({content['bytes']} bytes)"),
        ("container", _container(content)),
    ]
    rows += [
        (text.clean(key), text.clean(value))
        for key, value in content["properties"].items()
        if value != "N/A" and not key.endswith(_SHOWN_AS_HISTORY)
    ]
    for step in content["history"]:
        args = step.get("args")
        pairs = args.items() if isinstance(args, dict) else ()
        when = str(step.get("timestamp") or "")
        words = [step.get("tool", "?"), step.get("converterVersion", "")]
        words += [] if when.startswith(NO_CLOCK) else [when]
        command = " ".join(text.clean(word) for word in words if word)
        rows.append(("made by", command))
        rows += [("", f"{text.clean(key)}: {text.clean(value)}") for key, value in pairs]
    yield from text.columns(rows, indent="")


def _graph(graph: dict[str, Any], *, ops: bool, encodings: bool, trace: bool) -> Iterator[str]:
    totals = graph["totals"]
    yield f"graph {text.clean(graph['name'])}"
    yield from port_lines(graph["inputs"], graph["outputs"], recipes=True)
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


def _op(op: dict[str, Any], *, encodings: bool, trace: bool) -> Iterator[str]:
    package = "" if op["package"] == NATIVE else f"{text.clean(op['package'])}::"
    work = [
        f"{text.count(op[key])} {unit}"
        for key, unit in (("parameters", "params"), ("macs", "MACs"))
        if op[key]
    ]
    id = "-" if op["id"] is None else op["id"]
    head = f"  {id:>4}  {package}{text.clean(op['type']):<20}  {text.clean(op['name'])}"
    notes = f"  ({', '.join(work)})" if work else ""
    if len(head) + len(notes) <= text.width():
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
        return ("(omitted)",)
    words = [f"{tensor['dtype']:<8}", text.dims(tensor["shape"])]
    if tensor["role"] != "NATIVE":
        words.append(tensor["role"].lower().replace("_", "/"))
    if encodings and "encoding" in tensor:
        words.append(text.encoding(tensor["encoding"]))
    return (f"{text.clean(tensor['name']):<44}", " ".join(words))


def in_short(model: Model, source: Path) -> Iterator[str]:
    """Yield where the ops run, and the next step."""
    from xdlc.container.caches import caches
    from xdlc.content.inspection import runtimes
    from xdlc.converter.snpe.translate import has_layers
    from xdlc.runtime.dynamic_dims import open_problem
    from xdlc.runtime.htp.unsupported_op import is_quantized

    ops, path = list(ops_of(model)), quote(str(source))
    if not ops or has_layers(model):
        return
    is_ready = any(map(is_quantized, model.graphs.values()))
    step = f"prepare {path} --soc SOC" if is_ready else f"quantize {path} -l samples.txt --prepare SOC"
    if records := caches(model):
        soc = (*records[0].name.split(".")[2:3], "SOC")[0]
        step = f"run {path} -l samples.txt --runtime htp --soc {quote(text.clean(soc))}"
    count = sum("D" in runtimes(op).split() for op in ops)
    yield f"{count} of {len(ops)} ops on HTP, by xdlc's tables; {'quantized' if is_ready else 'float'}"
    unbound = open_problem(model)
    yield f"next: {unbound.fix}" if unbound is not None else f"next: xdlc {step}"
