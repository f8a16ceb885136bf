"""Pictures of the documentation, drawn from results of the tools on the demo.

python scripts/demo.py        # makes .demo/
python -m scripts.pictures    # writes docs/pictures/*.svg, and .demo/report.html for the screenshot
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import onnx
from onnx import helper

from scripts.demo import FOLDER, SOCS
from xdlc.page.pictures import (
    LEFT,
    RIGHT,
    WIDTH,
    Record,
    costs,
    network,
    partition,
    path,
    picture,
    pipeline,
    rect,
    short,
    text,
    verdicts,
)

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "pictures"
SOC = SOCS[-1]
VERDICTS = ("qcs6490", "sm8450", "sm8550", "sm8650")
SHOWN = "scores"
"""The tensor whose rounding is drawn."""
MOST = 20_000
"""Most bytes of a picture."""


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


def main() -> int:
    """Draw the pictures."""
    from xdlc import api
    from xdlc.content.cache_records import partition_maps
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
    parts = api.prepare_all(odd, [SOC], partition=True).model
    pictures = {
        "pipeline": pipeline(built.as_dict()),
        "network": network(report),
        "verdicts": verdicts(rows, names, refused),
        "partition": partition(partition_maps(parts)),
        "quantization": rounding(next(t for t in report["tensors"] if t["name"] == SHOWN)),
        "costs": costs(api.cost("demo_quantized.dlc", [SOC]).as_dict()),
    }
    TARGET.mkdir(exist_ok=True)
    for name, content in pictures.items():
        assert len(content) <= MOST, (name, len(content))
        (TARGET / f"{name}.svg").write_text(content, "utf-8")
        print(f"written: docs/pictures/{name}.svg, {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
