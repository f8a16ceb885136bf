"""Pictures of the documentation, drawn from results of the tools on the demo.

python scripts/demo.py        # makes .demo/
python -m scripts.pictures    # writes docs/pictures/*.svg, and .demo/report.html for the screenshot
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import onnx
from onnx import helper

from scripts.demo import FOLDER, SOCS
from xdlc.page.pictures.costs import costs
from xdlc.page.pictures.network import network
from xdlc.page.pictures.partition import partition
from xdlc.page.pictures.pipeline import pipeline
from xdlc.page.pictures.rounding import rounding
from xdlc.page.pictures.verdicts import verdicts

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


def main() -> int:
    """Draw the pictures."""
    from xdlc import api
    from xdlc.content.cache_parts import partition_maps
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
