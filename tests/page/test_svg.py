"""Pictures: well-formed, without scripts, with their figures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from scripts.pictures import rounding
from xdlc.page.pictures import MOST_OPS, Run, costs, network, partition, pipeline, verdicts

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


def device(count: int, name: str = "op") -> dict[str, Any]:
    moved = {"dram_read": 4096, "dram_write": 1024}
    return {
        "graph": name,
        "soc": "sm8650",
        "vtcm_mb": 8,
        "totals": {"dram_read": 4096 * count, "dram_write": 1024 * count, "spilled": 0},
        "ops": [{"op": f"{name}{number}", "traffic": moved} for number in range(count)],
    }


PICTURES = {
    "pipeline": pipeline({"stages": STAGES, "line": HOSTILE}),
    "network": network({"ops": [op(0), op(1, name=HOSTILE, cumulative=12.0), op(2, cumulative=None)]}),
    "verdicts": verdicts(["sm8650", HOSTILE], ["a", "b"], {(HOSTILE, "b"): HOSTILE}),
    "partition": partition([(HOSTILE, [Run("HTP", ["a", "b"], HOSTILE), Run("CPU", [HOSTILE])])]),
    "costs": costs({"devices": [device(2, name=HOSTILE)] * 10}),
    "tensor": rounding(TENSOR),
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
    content = network({"ops": [op(number) for number in range(10_000)]})
    assert len(content) < 200_000
    root = ET.fromstring(content)
    tips = [title.text or "" for rect in root.iter(f"{NAME}rect") for title in rect]
    assert len(set(tips)) <= MOST_OPS
    assert "68 KiB of values" in tips[0]


def test_ops_of_one_verdict_are_one_bar() -> None:
    root = ET.fromstring(verdicts(["sm8650"], list("abcd"), {("sm8650", "d"): "no"}))
    bars = [rect.get("class") for rect in root.iter(f"{NAME}rect") if float(rect.attrib["height"]) == 20]
    assert bars == ["c", "no"]


def test_large_pictures_stay_small() -> None:
    names = [f"op{number}" for number in range(10_000)]
    bars = costs({"devices": [device(10_000)]})
    runs = [Run(("HTP", "CPU")[number % 2], [name]) for number, name in enumerate(names)]
    alternating = partition([("g", runs)])
    judged = verdicts(["sm8650"], names, {("sm8650", name): "no" for name in names[::2]})
    for content in (bars, alternating, judged):
        assert len(content) < 200_000
        ET.fromstring(content)
    assert "9760 more runs" in alternating


def test_copies_are_between_htp_and_cpu_alone() -> None:
    runs = [Run("HTP", ["a"], "g_0"), Run("HTP", ["b"], "g_1"), Run("CPU", ["c"])]
    for count, words in ((2, ""), (3, "; 1 copy")):
        assert f"of {count} ops on HTP{words}<" in partition([("g", runs[:count])])


def test_runs_have_the_names_of_their_ops_and_parts() -> None:
    root = ET.fromstring(partition([("g", [Run("HTP", ["a", "b"], "g_0"), Run("CPU", ["c"])])]))
    tips = [title.text for rect in root.iter(f"{NAME}rect") for title in rect]
    assert tips == ["g_0: a, b", "c"]
    assert [rect.get("class") for rect in root.iter(f"{NAME}rect")] == ["a", "b"]


@pytest.mark.parametrize("name", ["pipeline", "network", "verdicts", "partition", "quantization", "costs"])
def test_the_pictures_of_the_documentation_are_small(name: str) -> None:
    content = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8")
    assert len(content) <= 20_000
    ET.fromstring(content)
