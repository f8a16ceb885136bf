"""Pictures as SVG files with a dark form, which run no script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from itertools import groupby
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
        + f'aria-label="{escape(title)}"><title>{escape(title)}</title>'
        + (f"<style>{css}</style>" if style else "")
        + f"{''.join(body)}</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    plain = "".join(c if c.isprintable() else "?" for c in words)
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(plain)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "", radius: int = 0) -> str:
    """Return a rectangle, with words that a pointer shows."""
    inner = f"<title>{escape(tip)}</title>" if tip else ""
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


def network(report: Record, *, style: bool = True) -> str:
    """Return where accuracy and bytes go, from the JSON form of a report of quantization."""
    ops = sorted(report["ops"], key=lambda op: op["order"])
    step = (WIDTH - LEFT - RIGHT) / max(len(ops), 1)
    place = {op["name"]: LEFT + step * (number + 0.5) for number, op in enumerate(ops)}
    rated = [op for op in ops if op["cumulative"] is not None]
    most = max([30.0, *(op["cumulative"] for op in rated if op["cumulative"] < 100)])
    top, floor = math.ceil(most / 20) * 20, min([0.0, *(op["cumulative"] for op in rated)])
    floor = max(math.floor(floor / 20) * 20, -20)

    def y(value: float) -> float:
        return 190.0 - 150.0 * float(min(max(value, floor), top) - floor) / (top - floor)

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
        rect(LEFT + 510, 222, 11, 11, "a"),
        text(LEFT + 526, 232, "values", "small dim"),
        rect(LEFT + 576, 222, 11, 11, "c"),
        text(LEFT + 592, 232, "weights", "small dim"),
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


def verdicts(socs: Sequence[str], ops: Sequence[str], refused: Mapping[tuple[str, str], str]) -> str:
    """Return which SoC supports which op.

    Args:
        socs: Names of SoCs, with what is to know about them.
        ops: Names of the ops, in order.
        refused: Reasons by SoC and op.
    """
    step, body = (WIDTH - 200) / max(len(ops), 1), [text(16, 22, "Which SoC runs which op", "h")]
    body += [rect(220, 12, 11, 11, "c"), text(236, 22, "on HTP", "small dim"), rect(290, 12, 11, 11, "no")]
    body += [text(306, 22, "not supported", "small dim")]
    for row, soc in enumerate(socs):
        high = 40 + 26 * row
        count = sum((soc, op) not in refused for op in ops)
        body.append(text(16, high + 15, soc, "mono"))
        for number, op in enumerate(ops):
            reason = refused.get((soc, op), "")
            kind, tip = ("no", f"{op}: {reason}") if reason else ("c", op)
            body.append(rect(130 + step * number, high, step - 1, 20, kind, tip))
        body.append(text(WIDTH - 62, high + 15, f"{count} of {len(ops)}", "small dim"))
    reasons = list(dict.fromkeys(refused.values()))[:2]
    high = 40 + 26 * len(socs)
    body += [
        text(16, high + 16 + 18 * row, short(reason, 130), "small dim") for row, reason in enumerate(reasons)
    ]
    return picture(WIDTH, high + 30 + 18 * len(reasons), "Verdicts on each op by SoC", body)


def partition(runs: Sequence[tuple[str, Sequence[str]]], soc: str) -> str:
    """Return where runs of ops are computed, with copies between them.

    Args:
        runs: ``HTP`` or ``CPU``, and the names of ops, in the order of execution.
        soc: Name of the SoC.
    """
    total, x = max(sum(len(names) for _, names in runs), 1), 16.0
    htp = sum(len(names) for place, names in runs if place == "HTP")
    body = [
        text(16, 22, f"What runs where on {soc}", "h"),
        text(240, 22, f"{htp} of {total} ops on HTP", "small dim"),
    ]
    room = WIDTH - 32 - 26 * (len(runs) - 1)
    for number, (place, names) in enumerate(runs):
        wide = room * (0.4 * len(names) / total + 0.6 / len(runs))
        high = 44 if place == "HTP" else 108
        body.append(rect(x, high, wide, 44, "a" if place == "HTP" else "b", ", ".join(names[:40]), 6))
        body.append(
            text(
                x + wide / 2,
                high + 62,
                f"{place}, {len(names)} op{'s' * (len(names) > 1)}",
                "small",
                "middle",
            )
        )
        body.append(text(x + wide / 2, 196, short(names[0], max(int(wide / 8), 6)), "mono dim", "middle"))
        if number + 1 < len(runs):
            down, left = (66 if place == "HTP" else 130), x + wide
            curve = f"{left + 14:.1f} {down} {left + 12:.1f} {196 - down} {left + 23:.1f} {196 - down}"
            body.append(path("arrow", f"M{left + 3:.1f} {down}C{curve}"))
        x += wide + 26
    body.append(
        text(
            16,
            222,
            "Each arrow is a copy between the memories of HTP and CPU. Names are those of the first op.",
            "small dim",
        )
    )
    return picture(WIDTH, 234, f"Runs of ops on HTP and on the CPU of {soc}", body)


def tensor(entry: Record) -> str:
    """Return what rounding does to one tensor, from its entry in a report of quantization."""
    bars, low, high = entry["histogram"], entry["grid_low"], entry["grid_high"]
    counts, end = bars["counts"], bars["low"] + bars["width"] * len(bars["counts"])
    first, last = min(bars["low"], low), max(end, high)
    margin = 0.03 * (last - first)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * float(value - first + margin) / (last - first + 2 * margin)

    peak = math.log1p(max(counts)) or 1.0
    scale = entry["scale"]
    steps = f"{entry['bits']} bits: steps of {scale:.3g} from {low:.3g} to {high:.3g}"
    body = [text(16, 22, f"What {entry['bits']} bits do to {short(entry['name'], 40)}", "h")]
    body.append(text(16, 42, f"{steps}; values outside become the nearest end", "small dim"))
    body += [rect(LEFT, 60, x(low) - LEFT, 180, "lost"), rect(x(low), 60, x(high) - x(low), 180, "faint")]
    body.append(rect(x(high), 60, WIDTH - RIGHT - x(high), 180, "lost"))
    for number, count in enumerate(counts):
        tall = 170 * math.log1p(count) / peak
        left, right = x(bars["low"] + bars["width"] * number), x(bars["low"] + bars["width"] * (number + 1))
        body.append(rect(left, 240 - tall, right - left - 0.6, tall, "a") if count else "")
    ticks = 16  # of 256 steps, so that they can be told apart
    body.append(
        path(
            "rule",
            "".join(
                f"M{x(low + scale * n):.1f} 240v7" for n in range(0, round((high - low) / scale) + 1, ticks)
            ),
        )
    )
    for value in (low, high):
        body.append(path("arrow", f"M{x(value):.1f} 54V240"))
        body.append(text(x(value), 268, f"{value:.3g}", "small", "middle"))
    ratio = "" if entry["isolated"] is None else f"; own error {entry['isolated']:.1f} dB"
    clipped = (
        f"{entry['clipped']:.2%} of values clipped" if entry["clipped"] else "no value that counts is clipped"
    )
    body.append(
        text(
            LEFT, 292, f"Height: count, log scale. A mark every {ticks} steps. {clipped}{ratio}.", "small dim"
        )
    )
    return picture(WIDTH, 304, f"Histogram of {entry['name']} with the range of its encoding", body)
