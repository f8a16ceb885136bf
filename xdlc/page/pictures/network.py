"""Picture of where accuracy and bytes go in a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from xdlc.page.svg import LEFT, RIGHT, WIDTH, Record, kib, path, picture, rect, short, text

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
