"""Picture of what rounding does to a tensor."""

from __future__ import annotations

import math

from xdlc.page.svg import LEFT, RIGHT, WIDTH, Record, path, picture, rect, short, text


def rounding(entry: Record) -> str:
    """Return what rounding does to a tensor, from its entry in a report."""
    bars, low, high = entry["histogram"], entry["grid_low"], entry["grid_high"]
    counts, end = bars["counts"], bars["low"] + bars["width"] * len(bars["counts"])
    first, last = min(bars["low"], low), max(end, high)
    margin = 0.03 * (last - first)

    def x(value: float) -> float:
        return float(LEFT + (WIDTH - LEFT - RIGHT) * (value - first + margin) / (last - first + 2 * margin))

    peak = math.log1p(max(counts)) or 1.0
    scale = entry["scale"]
    steps = f"{entry['bits']} bits: steps of {scale:.3g} from {low:.3g} to {high:.3g}"
    body = [text(16, 22, f"{entry['bits']} bits round {short(entry['name'], 40)}", "h")]
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
