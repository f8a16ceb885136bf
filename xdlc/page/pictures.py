"""Pictures of results as SVG: costs, networks, partitions, pipelines and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from itertools import groupby, pairwise
from typing import Any

WIDTH = 1000
LEFT, RIGHT = 64, 20
Record = Mapping[str, Any]


def picture(width: float, height: float, title: str, body: Iterable[str], *, style: bool = True) -> str:
    """Return an SVG file.

    Args:
        title: What it shows, in words for those who do not see it.
        style: Whether it has its own style; without, the page around it has.
    """
    css = (resources.files("xdlc.page") / "svg.css").read_text("utf-8") if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" viewBox="0 0 {width:g} {height:g}" role="img" '
        + (f'width="{width:g}" height="{height:g}" ' if style else "")
        + f'aria-label="{shown(title)}"><title>{shown(title)}</title>'
        + (f"<style>{css}</style>" if style else "")
        + f"{''.join(body)}</svg>\n"
    )


def shown(words: str) -> str:
    """Return a text as XML; names come from strangers."""
    return escape("".join(c if c.isprintable() else "?" for c in words))


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{shown(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "", radius: int = 0) -> str:
    """Return a rectangle, with words that a pointer shows."""
    inner = f"<title>{shown(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{max(height, 0.0):.1f}"' + (f' rx="{radius}"' if radius else "") + f">{inner}</rect>"
    )


def path(kind: str, d: str) -> str:
    """Return a path."""
    return f'<path class="{kind}" d="{d}"/>'


def kib(count: float) -> str:
    """Return a number of bytes in KiB or MiB."""
    return f"{count / 1024:.0f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def short(words: str, most: int) -> str:
    """Return a text with its middle cut out."""
    return words if len(words) <= most else f"{words[: most // 2 - 1]}…{words[-(most // 2) :]}"


ROW = 10
"""Most runs in a row."""
MOST_ROWS = 24
_GAP, _ROW = 26, 170


@dataclass(frozen=True, slots=True)
class Run:
    """Ops that one place computes one after the other.

    Attributes:
        place: ``HTP`` or ``CPU``.
        ops: Names of the ops, in the order of execution.
        part: Name of the graph of the cache that has them; empty: none.
    """

    place: str
    ops: Sequence[str]
    part: str = ""


def partition(maps: Sequence[tuple[str, Sequence[Run]]]) -> str:
    """Return where runs of ops are computed, with the copies between.

    Args:
        maps: Title and runs of each graph and SoC.
    """
    body, high, rows = [text(16, 22, "What runs where", "h")], 32.0, 0
    for number, (title, runs) in enumerate(maps):
        if rows >= MOST_ROWS:
            body.append(text(16, high + 20, f"{len(maps) - number} more are not drawn", "small dim"))
            high += 30
            break
        total = sum(len(run.ops) for run in runs)
        htp = sum(len(run.ops) for run in runs if run.place == "HTP")
        count = sum(first.place != second.place for first, second in pairwise(runs))
        copies = f"; {count} cop{'y' if count == 1 else 'ies'}" if count else ""
        body.append(text(16, high + 18, short(title, 70), "mono"))
        words = f"{htp} of {total} ops on HTP{copies}"
        body.append(text(WIDTH - 16, high + 18, words, "small dim", "end"))
        high += 30
        drawn = list(runs)[: ROW * max(MOST_ROWS - rows, 1)]
        for first in range(0, len(drawn), ROW):
            body += _row(drawn[first : first + ROW], high, first + ROW < len(drawn))
            high += _ROW
            rows += 1
        if len(drawn) < len(runs):
            body.append(text(16, high + 14, f"{len(runs) - len(drawn)} more runs are not drawn", "small dim"))
            high += 24
    note = "An arrow is a copy between the memories of HTP and CPU. The name below is the first op."
    body.append(text(16, high + 14, note, "small dim"))
    return picture(WIDTH, high + 26, "Runs of ops on HTP and on the CPU", body)


def _row(runs: Sequence[Run], high: float, goes_on: bool) -> list[str]:
    """Return one row of runs, whose widths grow with their ops."""
    body, x = list[str](), 16.0
    total = max(sum(len(run.ops) for run in runs), 1)
    room = WIDTH - 32 - _GAP * (len(runs) - 1 + goes_on)
    for number, run in enumerate(runs):
        is_htp = run.place == "HTP"
        wide = room * (0.4 * len(run.ops) / total + 0.6 / len(runs))
        top = high if is_htp else high + 64
        tip = (f"{run.part}: " if run.part else "") + ", ".join(run.ops[:40])
        body.append(rect(x, top, wide, 44, "a" if is_htp else "b", tip, 6))
        words = f"{run.place}, {len(run.ops)} op{'s' * (len(run.ops) != 1)}"
        body.append(text(x + wide / 2, top + 60, words, "small", "middle"))
        name = short(run.ops[0], max(int(wide / 8), 6)) if run.ops else ""
        body.append(text(x + wide / 2, high + 148, name, "mono dim", "middle"))
        if number + 1 < len(runs) or goes_on:
            from_y, to_y = (high + 22, high + 86) if is_htp else (high + 86, high + 22)
            to_y = to_y if number + 1 == len(runs) or runs[number + 1].place != run.place else from_y
            left = x + wide
            curve = f"{left + 14:.1f} {from_y:.1f} {left + 12:.1f} {to_y:.1f} {left + 23:.1f} {to_y:.1f}"
            body.append(path("arrow", f"M{left + 3:.1f} {from_y:.1f}C{curve}"))
        x += wide + _GAP
    return body


MOST_BARS = 300
MOST_DEVICES = 8
_TALL = 190
_NAMED = 3
"""Ops of a device whose names stand at their bars."""
PARTS = (("dram_read", "read", "a"), ("dram_write", "written", "c"))


def costs(report: Record) -> str:
    """Return the bytes of DRAM that each op moves on each device.

    Args:
        report: The report of ``xdlc cost`` as values of JSON, with at least one device.
    """
    devices = report["devices"]
    body = [text(LEFT, 22, "Bytes from and to DRAM, op by op", "h")]
    x = LEFT + 280
    for _, words, color in PARTS:
        body += [rect(x, 12, 11, 11, color), text(x + 16, 22, words, "small dim")]
        x += 70
    high = 40.0
    for device in devices[:MOST_DEVICES]:
        body += _device(device, high)
        high += _TALL
    if len(devices) > MOST_DEVICES:
        body.append(text(LEFT, high + 8, f"{len(devices) - MOST_DEVICES} more are not drawn", "small dim"))
        high += 20
    return picture(WIDTH, high + 6, "Bytes from and to DRAM by op and SoC", body)


def _device(device: Record, high: float) -> list[str]:
    totals, base = device["totals"], high + 140
    words = f"{kib(sum(totals[key] for key, _, _ in PARTS))}, {kib(totals['spilled'])} of them spilled"
    body = [
        text(LEFT, high + 14, short(f"{device['graph']} on {device['soc']}", 60), "mono"),
        text(LEFT + 500, high + 14, f"{device['vtcm_mb']} MB of VTCM: {words}", "small dim"),
    ]
    bars = _bars(device["ops"])
    step = (WIDTH - LEFT - RIGHT) / max(len(bars), 1)
    peak = max([1, *(sum(bar["bytes"].values()) for bar in bars)])
    for share in (0.0, 0.5, 1.0):
        body.append(path("rule", f"M{LEFT} {base - 100 * share:.1f}H{WIDTH - RIGHT}"))
        body.append(text(LEFT - 8, base + 4 - 100 * share, kib(peak * share), "small dim", "end"))
    for number, bar in enumerate(bars):
        x, foot = LEFT + step * (number + 0.12), base
        tip = f"{bar['name']}: " + ", ".join(f"{kib(bar['bytes'][key])} {verb}" for key, verb, _ in PARTS)
        for key, _, color in PARTS:
            tall = 100 * bar["bytes"][key] / peak
            foot -= tall
            body.append(rect(x, foot, step * 0.76, tall, color, tip) if tall else "")
    largest = sorted(range(len(bars)), key=lambda number: -sum(bars[number]["bytes"].values()))[:_NAMED]
    for row, number in enumerate(sorted(largest)):
        middle = LEFT + step * (number + 0.5)
        anchor = "end" if middle > WIDTH * 0.8 else "start"
        body.append(path("rule", f"M{middle:.1f} {base:.1f}V{base + 8 + 12 * row:.1f}"))
        beside = middle + (4 if anchor == "start" else -4)
        body.append(text(beside, base + 14 + 12 * row, short(bars[number]["name"], 40), "small", anchor))
    return body


def _bars(ops: Sequence[Record]) -> list[Record]:
    """Return at most ``MOST_BARS`` bars; neighbours of more ops become one."""
    count = -(-len(ops) // MOST_BARS) or 1
    groups = [ops[start : start + count] for start in range(0, len(ops), count)]
    return [
        {
            "name": f"{group[0]['op']}" + (f" and {len(group) - 1} more" if len(group) > 1 else ""),
            "bytes": {key: sum(op["traffic"][key] for op in group) for key, _, _ in PARTS},
        }
        for group in groups
    ]


MOST_COLUMNS = 300
"""Most columns of a row; of more ops, neighbours share a column."""


def verdicts(socs: Sequence[str], ops: Sequence[str], refused: Mapping[tuple[str, str], str]) -> str:
    """Return which SoC supports which op.

    Args:
        socs: Names of SoCs, with what is to know about them.
        ops: Names of the ops, in order.
    """
    step, body = (WIDTH - 200) / max(len(ops), 1), [text(16, 22, "Which SoC runs which op", "h")]
    joined = -(-len(ops) // MOST_COLUMNS) or 1
    body += [rect(236, 12, 11, 11, "c"), text(252, 22, "on HTP", "small dim"), rect(306, 12, 11, 11, "no")]
    body += [text(322, 22, "not supported", "small dim")]
    for row, soc in enumerate(socs):
        high = 40 + 26 * row
        count = sum((soc, op) not in refused for op in ops)
        body.append(text(16, high + 15, short(soc, 15), "mono"))
        reasons = [refused.get((soc, op), "") for op in ops]
        columns = range(0, len(ops), joined)
        of_columns = {at: next(filter(None, reasons[at : at + joined]), "") for at in columns}
        for reason, members in groupby(columns, key=of_columns.__getitem__):
            first, *_, last = [*members] * 2
            last = min(last + joined, len(ops)) - 1
            tip = f"{ops[first]} to {ops[last]}: {reason or 'on HTP'}"
            wide = step * (last - first + 1) - 1
            body.append(rect(130 + step * first, high, wide, 20, "no" if reason else "c", tip))
        body.append(text(WIDTH - 62, high + 15, f"{count} of {len(ops)}", "small dim"))
    listed = list(dict.fromkeys(refused.values()))[:2]
    high = 40 + 26 * len(socs)
    body += [
        text(16, high + 16 + 18 * row, short(reason, 130), "small dim") for row, reason in enumerate(listed)
    ]
    return picture(WIDTH, high + 30 + 18 * len(listed), "Verdicts on each op by SoC", body)


def pipeline(built: Record) -> str:
    """Return the way of a model through all steps, from the result of ``build``."""
    wide, gap, x, body = 186, 66, 16.0, []
    for number, stage in enumerate(built["stages"]):
        if number:
            middle = x - gap / 2
            body.append(path("arrow", f"M{x - gap + 5:.1f} 108h{gap - 12}m-6 -5l6 5l-6 5"))
            body.append(text(middle, 26, stage["command"], "mono a", "middle"))
            body.append(path("rule dash", f"M{middle:.1f} 32V98"))
        name = str(stage["path"]).rsplit("/", 1)[-1]
        body += [
            rect(x, 44, wide, 128, "card", radius=8),
            text(x + 12, 68, stage["title"], "h"),
            text(x + 12, 88, short(name, 23), "mono dim"),
            text(x + 12, 118, kib(stage["bytes"]), "big"),
            *(
                text(x + 12, 140 + 18 * row, short(fact, 31), "small dim")
                for row, fact in enumerate(stage["facts"][:2])
            ),
        ]
        x += wide + gap
    body.append(text(16, 200, built["line"], "small"))
    return picture(x - gap + 16, 214, f"The way of a model. {built['line']}", body)


MOST_OPS = 300
"""Most bars of a network."""


def joined(ops: Sequence[Record]) -> list[Record]:
    """Return at most ``MOST_OPS`` ops; neighbours of more become one."""
    count = -(-len(ops) // MOST_OPS) or 1
    groups = [ops[start : start + count] for start in range(0, len(ops), count)]
    return [
        {
            **group[0],
            **{key: sum(op[key] for op in group) for key in ("value_bytes", "weight_bytes")},
            **{
                key: min((op[key] for op in group if op[key] is not None), default=None)
                for key in ("cumulative", "sensitivity")
            },
        }
        for group in groups
    ]


def network(report: Record, *, style: bool = True) -> str:
    """Return where accuracy and bytes go, from the JSON of a quantization report."""
    ops = joined(sorted(report["ops"], key=lambda op: op["order"]))
    step = (WIDTH - LEFT - RIGHT) / max(len(ops), 1)
    place = {op["name"]: LEFT + step * (number + 0.5) for number, op in enumerate(ops)}
    rated = [op for op in ops if op["cumulative"] is not None]
    most = max([30.0, *(op["cumulative"] for op in rated if op["cumulative"] < 100)])
    top, floor = math.ceil(most / 20) * 20, min([0.0, *(op["cumulative"] for op in rated)])
    floor = max(math.floor(floor / 20) * 20, -20)

    def y(value: float) -> float:
        return float(190 - 150 * (min(max(value, floor), top) - floor) / (top - floor))

    body = [text(LEFT, 22, "Where accuracy goes", "h")]
    body.append(
        text(LEFT + 176, 22, "error so far of each op's result, dB; look closer below 20", "small dim")
    )
    for value in range(floor, top + 1, 20):
        body.append(path("rule dash" if value == 20 else "rule", f"M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"))
        body.append(text(LEFT - 8, y(value) + 4, str(value), "small dim", "end"))
    points = [f"{place[op['name']]:.1f} {y(op['cumulative']):.1f}" for op in rated]
    body.append(path("line", "M" + "L".join(points)) if points else "")
    worst = sorted((op for op in rated if op["sensitivity"] is not None), key=lambda op: op["sensitivity"])[
        :3
    ]
    for number, op in enumerate(sorted(worst, key=lambda op: op["order"])):
        x, high = place[op["name"]], 56 + 16 * number
        anchor = "end" if x > WIDTH * 0.8 else "start"
        body.append(path("rule", f"M{x:.1f} {y(op['cumulative']) - 5:.1f}V{high}"))
        body.append(f'<circle class="b" cx="{x:.1f}" cy="{y(op["cumulative"]):.1f}" r="4"/>')
        words = f"{short(op['name'], 28)} costs most" if op is worst[0] else short(op["name"], 28)
        body.append(text(x + (4 if anchor == "start" else -4), high + 4, words, "small b", anchor))
    body += [
        text(LEFT, 232, "Where bytes go", "h"),
        text(LEFT + 176, 232, "bytes that each op reads and writes, not measured DRAM:", "small dim"),
        rect(LEFT + 526, 222, 11, 11, "a"),
        text(LEFT + 542, 232, "values", "small dim"),
        rect(LEFT + 592, 222, 11, 11, "c"),
        text(LEFT + 608, 232, "weights", "small dim"),
    ]
    peak = max([1, *(op["value_bytes"] + op["weight_bytes"] for op in ops)])
    for share in (0.0, 0.5, 1.0):
        body.append(path("rule", f"M{LEFT} {400 - 140 * share:.1f}H{WIDTH - RIGHT}"))
        body.append(text(LEFT - 8, 404 - 140 * share, kib(peak * share), "small dim", "end"))
    for op in ops:
        values, weights = 140 * op["value_bytes"] / peak, 140 * op["weight_bytes"] / peak
        moved = f"{kib(op['value_bytes'])} of values, {kib(op['weight_bytes'])} of weights"
        tip = f"{op['name']} ({op['type']}): {moved}"
        x = place[op["name"]] - step * 0.38
        body.append(rect(x, 400 - values, step * 0.76, values, "a", tip))
        body.append(rect(x, 400 - values - weights, step * 0.76, weights, "c", tip))
    for group, members in groupby(ops, key=lambda op: op["name"].split(".")[0] if "." in op["name"] else ""):
        names = [op["name"] for op in members]
        if group and len(names) > 2:
            first, last = place[names[0]] - step * 0.4, place[names[-1]] + step * 0.4
            body.append(path("arrow", f"M{first:.1f} 406v5H{last:.1f}v-5"))
            if last - first > 7 * len(group):
                body.append(text((first + last) / 2, 426, group, "small dim", "middle"))
    return picture(WIDTH, 440, "Error so far of each op above the bytes that it moves", body, style=style)
