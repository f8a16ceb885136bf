"""Pictures of the documentation, drawn from results of the tools on the demo.

python scripts/demo.py        # makes .demo/
python -m scripts.pictures    # writes docs/pictures/*.svg, and .demo/report.html for the screenshot
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from scripts.demo import FOLDER, SOCS
from xdlc.page.svg import LEFT, RIGHT, WIDTH, Record, network, path, picture, pipeline, rect, short, text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "pictures"
SOC = SOCS[-1]
VERDICTS = ("qcs6490", "sm8450", "sm8550", "sm8650")
SHOWN = "scores"
"""The tensor whose rounding is drawn."""
MOST = 20_000
"""Most bytes of a picture."""


def verdicts(socs: Sequence[str], ops: Sequence[str], refused: Mapping[tuple[str, str], str]) -> str:
    """Return which SoC supports which op.

    Args:
        socs: Names of SoCs, with what is to know about them.
        ops: Names of the ops, in order.
        refused: Reasons by SoC and op.
    """
    step, body = (WIDTH - 200) / max(len(ops), 1), [text(16, 22, "Which SoC runs which op", "h")]
    body += [rect(236, 12, 11, 11, "c"), text(252, 22, "on HTP", "small dim"), rect(306, 12, 11, 11, "no")]
    body += [text(322, 22, "not supported", "small dim")]
    for row, soc in enumerate(socs):
        high = 40 + 26 * row
        count = sum((soc, op) not in refused for op in ops)
        body.append(text(16, high + 15, soc, "mono"))
        numbers = groupby(range(len(ops)), key=lambda number: refused.get((soc, ops[number]), ""))
        for reason, members in numbers:
            first, *_, last = [*members] * 2
            tip = f"{ops[first]} to {ops[last]}: {reason or 'on HTP'}"
            wide = step * (last - first + 1) - 1
            body.append(rect(130 + step * first, high, wide, 20, "no" if reason else "c", tip))
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
        text(262, 22, f"{htp} of {total} ops on HTP", "small dim"),
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
        return float(LEFT + (WIDTH - LEFT - RIGHT) * (value - first + margin) / (last - first + 2 * margin))

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


def with_host_ops(source: Path, target: Path) -> None:
    """Write the demo's network with two operators that HTP does not support."""
    model = onnx.load(source)
    for name in ("block3.add", "block5.add"):
        place, node = next((n, node) for n, node in enumerate(model.graph.node) if node.name == name)
        result = node.output[0]
        node.output[0] = f"{name}.before"
        odd = helper.make_node("Acosh", [f"{name}.before"], [result], f"{name}.acosh")
        model.graph.node.insert(place + 1, odd)
    onnx.save(model, target)


def runs_of(model: Any, left: set[str]) -> list[tuple[str, list[str]]]:
    """Return runs of ops on HTP and on the CPU, in the order of execution."""
    runs: list[tuple[str, list[str]]] = []
    for op in model.main.ops:
        place = "CPU" if op.name in left else "HTP"
        if not runs or runs[-1][0] != place:
            runs.append((place, []))
        runs[-1][1].append(op.name)
    return runs


def main() -> int:
    """Draw the pictures."""
    from xdlc import api
    from xdlc.quant.report import Reporter, write

    os.chdir(FOLDER)
    built = api.build("demo.onnx", "calibration/list.txt", SOC, "all")
    reporter = Reporter(title="demo.onnx")
    api.quantize("demo.dlc", "calibration/list.txt", report=reporter)
    assert reporter.result is not None
    write(reporter.result, "report.html")
    report = reporter.result.as_json()
    refused: dict[tuple[str, str], str] = {}
    names, rows = [op.name for op in api.load("demo.dlc").main.ops], list[str]()
    for title, file in (("float", "demo.dlc"), ("8 bits", "demo_quantized.dlc")):
        for support in api.support_matrix(file, socs=VERDICTS):
            rows.append(f"{support.soc}, {title}")
            refused |= {(rows[-1], left.op): left.reason for left in support.unsupported}
            refused |= {(rows[-1], name): text for text in support.problems for name in names}
    with_host_ops(Path("demo.onnx"), Path("odd.onnx"))
    odd = api.convert("odd.onnx")
    plan = api.prepare_all(odd, [SOC], partition=True).plans[0]
    pictures = {
        "pipeline": pipeline(built.as_dict()),
        "network": network(report),
        "verdicts": verdicts(rows, names, refused),
        "partition": partition(runs_of(odd, {left.op for left in plan.left}), SOC),
        "quantization": tensor(next(t for t in report["tensors"] if t["name"] == SHOWN)),
    }
    TARGET.mkdir(exist_ok=True)
    for name, content in pictures.items():
        assert len(content) <= MOST, (name, len(content))
        (TARGET / f"{name}.svg").write_text(content, "utf-8")
        print(f"written: docs/pictures/{name}.svg, {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
