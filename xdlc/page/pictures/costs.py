"""Picture of the bytes that each op moves on a SoC."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.page.svg import LEFT, RIGHT, WIDTH, Record, kib, path, picture, rect, short, text

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
