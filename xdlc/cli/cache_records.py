"""Caches of a DLC and the devices that can use them, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdlc.cli import text
from xdlc.cli.text import clean
from xdlc.content.cache_records import cache_records

if TYPE_CHECKING:
    from xdlc.prepare.htp import Prepared


def summary(prepared: Prepared) -> Iterator[str]:
    """Yield a line for each cache of a prepared model, and for each SoC that has none."""
    outcomes = dict.fromkeys(prepared.done, "compiled") | dict.fromkeys(prepared.kept, "kept")
    order = {soc: place for place, soc in enumerate(outcomes)}
    for cache in sorted(cache_records(prepared.model), key=lambda row: order.get(row["soc"].lower(), -1)):
        outcome = outcomes.get(cache["soc"].lower(), "there before")
        arch, size = cache.get("arch") or "of an unknown architecture", cache["bytes"]
        held = "missing from the file" if size is None else f"{size} bytes"
        yield f"cache {clean(cache['record'])}: {clean(cache['soc'])}, {arch}, {held}, {outcome}"
    for soc in prepared.failed:
        yield f"no cache for {soc}: failed"


_SHOWN_OPS = 6
_DEVICE_WIDTHS = (28, 12, 34)


def cache_lines(caches: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of ``cache_records``."""
    if not caches:
        return
    yield ""
    yield "HTP caches"
    for cache in caches:
        yield f"  {text.clean(cache['record'])}"
        yield from text.columns(list(_facts(cache)))
        for graph in cache.get("graphs", ()):
            yield from _graph_lines(graph)


def _facts(cache: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    size = "missing from the file" if cache["bytes"] is None else text.size(cache["bytes"])
    if cache["described"]:
        vtcm = "/".join(map(str, cache["vtcm_mb"])) or "?"
        yield "SoC", f"{text.clean(cache['soc'])} (id {_shown(cache['soc_id'])})"
        yield "arch", f"{_shown(cache['arch'])}, VTCM {vtcm} MB"
        blob = cache["blob_bytes"]
        yield "size", size + (f", {text.size(blob)} of it the binary" if blob is not None else "")
        yield "build", _shown(cache["build"])
        yield (
            "versions",
            f"QNN API {_shown(cache['core_api'])}, HTP {_shown(cache['backend_api'])}, "
            f"binary {_shown(cache['blob_version'])}",
        )
        if cache["made"] is not None:
            yield "made", text.clean(cache["made"])
        yield from _noted_lines(cache)
    else:
        yield "size", size
        yield "listed", "no: the metadata lacks the cache, so the vendor's runtime does not find the cache"
    for weights in cache["shared_weights"]:
        size = "missing from the file" if weights["bytes"] is None else text.size(weights["bytes"])
        yield "shares", f"{text.clean(weights['record'])}: {size}"
    if cache["problem"]:
        yield "damage", text.clean(cache["problem"])


def _noted_lines(cache: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    noted = cache["noted"]
    if noted is not None:
        options = _options(noted["vtcm_mb"], noted["optimization_level"], noted["num_hvx_threads"])
        dlbc = "with" if noted["dlbc"] else "without"
        yield "made by", f"xdlc {text.clean(noted['xdlc'])}: {options}, {dlbc} DLBC"
    yield "verified", _verified(cache["verified"])
    if "notes_damaged" in cache:
        yield "made by", text.clean(cache["notes_damaged"])


def _verified(verified: Mapping[str, Any] | None) -> str:
    """Return the result of verifying a cache in words."""
    if verified is None:
        return "no"
    figures = [
        f"{text.clean(name)} {output['sqnr']:.1f} dB, off by up to {output['difference']:.3g}"
        for name, output in verified["outputs"].items()
    ]
    shown = "; ".join(figures[:_SHOWN_OPS]) or "parts alone"
    more = f" and {len(figures) - _SHOWN_OPS} more" if len(figures) > _SHOWN_OPS else ""
    judged = verified["judged"]
    alone = "" if judged is None else f", {judged:.0%} one by one"
    where = " in the context that compiled it" if verified["compiled"] else ""
    inputs = {"samples": "inputs of a list"}.get(verified["inputs"], f"{verified['inputs']} inputs")
    return f"{verified['share']:.0%} of the ops{alone}{where}, {inputs}: {shown}{more}"


def _options(vtcm: int | None, level: int | None, threads: int | None) -> str:
    memory = "all VTCM" if vtcm == 0 else f"VTCM {_shown(vtcm)} MB"
    return f"{memory}, optimization level {level or 'of the library'}, {threads or 'all'} HVX threads"


def _graph_lines(graph: Mapping[str, Any]) -> Iterator[str]:
    yield f"    graph {text.clean(graph['name'])}"
    dlbc = {None: "DLBC unknown", True: "with DLBC", False: "without DLBC"}[graph["dlbc"]]
    options = _options(graph["vtcm_mb"], graph["optimization_level"], graph["hvx_threads"])
    rows = [("options", f"{options}, {dlbc}")]
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
    tensors = [
        (side, text.clean(tensor["name"]), *_described(tensor))
        for side, tensors in (("input", graph["inputs"]), ("output", graph["outputs"]))
        for tensor in tensors
    ]
    yield from text.columns(tensors, " " * 6)


def _source(graph: Mapping[str, Any]) -> str:
    source, ops = text.clean(graph["source"]), graph["ops"]
    if ops is None:
        return f"graph {source}, hash {graph['hash']}"
    shown = ", ".join(text.clean(op) for op in ops[:_SHOWN_OPS])
    more = f" and {len(ops) - _SHOWN_OPS} more" if len(ops) > _SHOWN_OPS else ""
    return f"{len(ops)} op(s) of graph {source}, hash {graph['hash']}: {shown}{more}"


def _described(tensor: Mapping[str, Any]) -> tuple[str, str]:
    dims = "?" if tensor["shape"] is None else text.dims(tensor["shape"])
    return text.clean(tensor["dtype"]), f"{dims}  {text.encoding(tensor.get('encoding'))}".rstrip()


def _shown(value: object) -> str:
    return "?" if value is None else text.clean(value)


def table_lines(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of ``cache_table``."""
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
    """Yield rules that could not be judged, by reason, with their records."""
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
