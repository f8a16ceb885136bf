"""Pictures: well-formed, without scripts, with their figures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from scripts import pictures
from xdlc.page import svg

ROOT = Path(__file__).parent.parent.parent
HOSTILE = '</text><script>alert(1)</script>&"\x1b'
NAME = "{http://www.w3.org/2000/svg}"


def op(order: int, **figures: Any) -> dict[str, Any]:
    plain = {"name": f"block1.op{order}", "type": "Conv2d", "order": order, "cumulative": 30.0}
    return {**plain, "sensitivity": 40.0, "value_bytes": 2048, "weight_bytes": 1024, **figures}


STAGES = [
    {
        "title": title,
        "path": f"all/{HOSTILE}.dlc",
        "bytes": 2048,
        "facts": ("43 ops", "8 bits"),
        "command": "xdlc",
    }
    for title in ("Your model", "DLC")
]
TENSOR = {
    "name": HOSTILE, "bits": 8, "scale": 0.1, "grid_low": -5.0, "grid_high": 5.0, "isolated": 31.5,
    "clipped": 0.01, "histogram": {"low": -6.0, "width": 1.0, "counts": [1, 0, 4, 9, 2, 0, 3]},
}  # fmt: skip
PICTURES = {
    "pipeline": svg.pipeline({"stages": STAGES, "line": HOSTILE}),
    "network": svg.network({"ops": [op(0), op(1, name=HOSTILE, cumulative=12.0), op(2, cumulative=None)]}),
    "verdicts": pictures.verdicts(["sm8650", HOSTILE], ["a", "b"], {(HOSTILE, "b"): HOSTILE}),
    "partition": pictures.partition([("HTP", ["a", "b"]), ("CPU", [HOSTILE]), ("HTP", ["c"])], "sm8650"),
    "tensor": pictures.tensor(TENSOR),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_well_formed_and_runs_nothing(name: str) -> None:
    root = ET.fromstring(PICTURES[name])
    assert root.tag == f"{NAME}svg"
    kinds = {element.tag.removeprefix(NAME) for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "text", "rect", "path", "circle"}
    for element in root.iter():
        assert not any(key.startswith("on") or key.endswith("href") for key in element.attrib)
    assert "prefers-color-scheme: dark" in PICTURES[name]


def test_bars_have_the_bytes_of_an_op_and_gaps_have_no_point() -> None:
    root = ET.fromstring(PICTURES["network"])
    tips = [title.text for rect in root.iter(f"{NAME}rect") for title in rect]
    assert "block1.op0 (Conv2d): 2 KiB of values, 1 KiB of weights" in tips
    (line,) = (element for element in root.iter(f"{NAME}path") if element.get("class") == "line")
    assert line.attrib["d"].count("L") == 1


def test_a_large_network_has_a_bounded_picture() -> None:
    content = svg.network({"ops": [op(number) for number in range(10_000)]})
    assert len(content) < 200_000
    root = ET.fromstring(content)
    tips = [title.text or "" for rect in root.iter(f"{NAME}rect") for title in rect]
    assert len(set(tips)) <= svg.MOST_OPS
    assert "68 KiB of values" in tips[0]


def test_ops_of_one_verdict_are_one_bar() -> None:
    root = ET.fromstring(pictures.verdicts(["sm8650"], list("abcd"), {("sm8650", "d"): "no"}))
    bars = [rect.get("class") for rect in root.iter(f"{NAME}rect") if float(rect.attrib["height"]) == 20]
    assert bars == ["c", "no"]


@pytest.mark.parametrize("name", ["pipeline", "network", "verdicts", "partition", "quantization"])
def test_the_pictures_of_the_documentation_are_small(name: str) -> None:
    content = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8")
    assert len(content) <= 20_000
    ET.fromstring(content)
