"""The readable form of compiled caches and of the verdicts on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xdlc.cli import text

_SHOWN_OPS = 6
_DEVICE_WIDTHS = (28, 12, 34)


def cache_lines(caches: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines that tell all that ``cache_inspection.cache_records`` found."""
    if not caches:
        return
    yield ""
    yield "HTP caches"
    for cache in caches:
        yield f"  {text.clean(cache['record'])}"
        yield from text.columns(list(_facts(cache)))
        for graph in cache.get("graphs", ()):
            yield from _graph(graph)


def _facts(cache: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    held = "missing from the file" if cache["bytes"] is None else text.size(cache["bytes"])
    if cache["described"]:
        vtcm = "/".join(map(str, cache["vtcm_mb"])) or "?"
        yield "SoC", f"{text.clean(cache['soc'])} (id {_told(cache['soc_id'])})"
        yield "arch", f"{_told(cache['arch'])}, VTCM {vtcm} MB"
        blob = cache["blob_bytes"]
        yield "size", held + (f", {text.size(blob)} of it the binary" if blob is not None else "")
        yield "build", _told(cache["build"])
        yield (
            "versions",
            f"QNN API {_told(cache['core_api'])}, HTP {_told(cache['backend_api'])}, "
            f"binary {_told(cache['blob_version'])}",
        )
        if cache["made"] is not None:
            yield "made", text.clean(cache["made"])
        yield from _noted(cache)
    else:
        yield "size", held
        yield "listed", "no: not in the metadata, so the vendor's runtime does not find it"
    for weights in cache["shared_weights"]:
        size = "missing from the file" if weights["bytes"] is None else text.size(weights["bytes"])
        yield "shares", f"{text.clean(weights['record'])}: {size}"
    if cache["problem"]:
        yield "damage", text.clean(cache["problem"])


def _noted(cache: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    noted = cache["noted"]
    if noted is not None:
        asked = _options(noted["vtcm_mb"], noted["optimization_level"], noted["num_hvx_threads"])
        dlbc = "with" if noted["dlbc"] else "without"
        yield "made by", f"xdlc {text.clean(noted['xdlc'])}: {asked}, {dlbc} DLBC"
    if "notes_damaged" in cache:
        yield "made by", text.clean(cache["notes_damaged"])


def _options(vtcm: int | None, level: int | None, threads: int | None) -> str:
    memory = "all VTCM" if vtcm == 0 else f"VTCM {_told(vtcm)} MB"
    return f"{memory}, optimization level {level or 'of the library'}, {threads or 'all'} HVX threads"


def _graph(graph: Mapping[str, Any]) -> Iterator[str]:
    yield f"    graph {text.clean(graph['name'])}"
    dlbc = {None: "DLBC not told", True: "with DLBC", False: "without DLBC"}[graph["dlbc"]]
    asked = _options(graph["vtcm_mb"], graph["optimization_level"], graph["hvx_threads"])
    rows = [("options", f"{asked}, {dlbc}")]
    memory = [
        f"{what} {text.size(graph[key])}"
        for key, what in (
            ("spill_fill_bytes", "spill-fill"),
            ("io_bytes", "inputs and outputs"),
            ("const_bytes", "weights"),
            ("shared_weights_bytes", "shared weights"),
        )
        if graph[key] is not None
    ]
    if memory:
        rows.append(("memory", ", ".join(memory)))
    if "hash" in graph:
        rows.append(("of", _source(graph)))
    yield from text.columns(rows, " " * 6)
    ports = [
        (side, text.clean(tensor["name"]), *_port(tensor))
        for side, tensors in (("input", graph["inputs"]), ("output", graph["outputs"]))
        for tensor in tensors
    ]
    yield from text.columns(ports, " " * 6)


def _source(graph: Mapping[str, Any]) -> str:
    source, ops = text.clean(graph["source"]), graph["ops"]
    if ops is None:
        return f"graph {source}, hash {graph['hash']}"
    shown = ", ".join(text.clean(op) for op in ops[:_SHOWN_OPS])
    more = f" and {len(ops) - _SHOWN_OPS} more" if len(ops) > _SHOWN_OPS else ""
    return f"{len(ops)} op(s) of graph {source}, hash {graph['hash']}: {shown}{more}"


def _port(tensor: Mapping[str, Any]) -> tuple[str, str]:
    extents = "?" if tensor["shape"] is None else text.dims(tensor["shape"])
    return text.clean(tensor["dtype"]), f"{extents}  {text.encoding(tensor.get('encoding'))}".rstrip()


def _told(value: object) -> str:
    return "?" if value is None else text.clean(value)


def table_lines(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what ``cache_inspection.cache_table`` found."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for verdict in table["verdicts"]:
        rows.setdefault((verdict["record"], verdict["device"]), {})[verdict["mode"]] = _cell(verdict)
    if rows:
        modes = list(next(iter(rows.values())))
        cells = [
            (text.clean(record), device, *(by_mode[mode] for mode in modes))
            for (record, device), by_mode in rows.items()
        ]
        yield "usable on devices"
        yield from text.table(("record", "device", *modes), cells, _DEVICE_WIDTHS[: len(modes) + 1])
    elif not table["without_htp"]:
        yield "no HTP cache to judge"
    for problem in table["without_htp"]:
        yield f"  {problem}"
    yield from unjudged_lines(table["verdicts"])


def _cell(verdict: Mapping[str, Any]) -> str:
    return "\n".join(map(_finding, verdict["failed"])) or "usable"


def _finding(finding: Mapping[str, str]) -> str:
    return text.clean(f"{finding['rule']}: {finding['found']}, accepted: {finding['accepted']}")


def unjudged_lines(verdicts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what could not be judged, each reason once with the records that it is about."""
    about: dict[tuple[str, str], dict[str, None]] = {}
    for verdict in verdicts:
        for item in verdict["unjudged"]:
            about.setdefault((item["rule"], item["reason"]), {})[verdict["record"]] = None
    if about:
        yield "not judged"
        yield from text.columns(
            [
                (text.clean(rule), text.clean(f"{reason} ({', '.join(records)})"))
                for (rule, reason), records in about.items()
            ],
            "  ",
        )
