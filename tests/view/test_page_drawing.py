"""What the viewer draws, exports and prints."""

import base64
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.contents import Content, blocks, content, graph, side
from tests.support.viewer import all_colors, ops_of, two_sides, viewed


@pytest.mark.parametrize("fold", ["View.app.active.openAll(true)", "View.app.active.openAll(false)", "0"])
def test_the_layout_overlaps_nowhere_and_flows_down(fold: str, tmp_path: Path) -> None:
    with viewed(content(side(blocks(520))), tmp_path) as browser:
        browser.value(fold)
        assert browser.value("Checks.layout()") == []


def random_graph(seed: int) -> Content:
    """Return a graph whose scopes are in each other, before and after each other."""
    random = Random(seed)
    size, count, reach = random.choice([3, 10, 40]), random.choice([0, 1, 3, 12]), random.choice([2, 5, 60])
    ops: list[dict[str, Any]] = []
    for number in range(size):
        reads = {
            random.randrange(max(-1, number - reach), number) for _ in range(random.choice([1, 1, 2, 3]))
        }
        stays = number > 0 and random.random() < 0.5
        scope = ops[-1]["scope"] if stays else random.randrange(-1, count)
        ops.append({"name": f"op{number}", "reads": sorted(reads), "scope": scope})
    scopes = [[f"scope{number}", random.randrange(-1, number)] for number in range(count)]
    return content(side(graph(ops, scopes=scopes)))


def test_layouts_of_random_graphs_overlap_nowhere(tmp_path: Path) -> None:
    with viewed(content(side(blocks(20))), tmp_path) as browser:
        for seed in range(30):
            browser.value(f"View.app = View.start({json.dumps(random_graph(seed))}), 0")
            for fold in ("openAll(true)", "openAll(false)", f"toggle({seed} % (net.scopes.length || 1))"):
                browser.value(f"net = View.app.active.net, net.scopes.length && View.app.active.{fold}, 0")
                assert browser.value("Checks.layout()") == [], (seed, fold)


def test_a_group_before_and_after_a_node(tmp_path: Path) -> None:
    ops = [
        {"name": "a", "reads": [-1], "scope": 0},
        {"name": "b", "reads": [0]},
        {"name": "c", "reads": [1], "scope": 0},
        {"name": "d", "reads": [0, 2]},
    ]
    with viewed(content(side(graph(ops, scopes=[["s", -1]]))), tmp_path) as browser:
        for open_all in ("true", "false"):
            browser.value(f"View.app.active.openAll({open_all})")
            assert browser.value("Checks.layout()") == []
        assert browser.value("View.app.active.made.wires.some(wire => wire.back)")


def test_long_edges_are_jumps(tmp_path: Path) -> None:
    ops = ops_of(*(f"op{number}" for number in range(60)))
    ops[-1]["reads"] = [58, 0]
    with viewed(content(side(graph(ops))), tmp_path) as browser:
        assert browser.value("View.app.active.made.jumps.length") == 1
        assert "to op59" in browser.value("View.app.active.svg(true).textContent")
        assert "from op0" in browser.value("View.app.active.svg(true).textContent")


def test_text_has_contrast_on_all_colors(tmp_path: Path) -> None:
    with viewed(content(all_colors()), tmp_path) as browser:
        for _ in range(2):
            assert browser.value("Checks.contrast()") >= 4.5
            browser.value("document.getElementById('theme').click()")


def nested(depth: int) -> Content:
    """Return ops in ever deeper groups; a tensor of the first is read in the last."""
    ops = [
        {"name": f"op{number}", "reads": sorted({number - 1, 0} - {number}), "scope": number}
        for number in range(depth)
    ]
    return graph(ops, scopes=[[f"a long name of group {number}", number - 1] for number in range(depth)])


@pytest.mark.parametrize("zoom", [None, 0.5, 0.3])
def test_drawn_text_has_contrast_in_nested_groups(zoom: float | None, tmp_path: Path) -> None:
    with viewed(content(side(nested(10))), tmp_path) as browser:
        browser.value(f"View.app.active.view = {{ z: {zoom or 1}, x: 20, y: 20 }}, 0")
        for _ in range(2):
            worst = browser.value(f"Checks.drawn({json.dumps(zoom is None)})")
            assert isinstance(worst, list)
            assert worst[0] >= 4.5, worst
            browser.value("document.getElementById('theme').click()")


@pytest.mark.parametrize("readers", [1, 2, 3, 4])
def test_labels_of_wires_touch_no_wire(readers: int, tmp_path: Path) -> None:
    ops = ops_of("a", *"bcde"[:readers])
    for op in ops[1:]:
        op["reads"] = [0]
    with viewed(content(side(graph(ops))), tmp_path) as browser:
        worst = browser.value("Checks.drawn(true)")
        assert isinstance(worst, list)
        assert worst[0] >= 4.5, worst


def test_what_is_drawn_is_exported_and_printed(tmp_path: Path) -> None:
    with viewed(content(side(blocks(40))), tmp_path) as browser:
        drawing = browser.value("new XMLSerializer().serializeToString(View.app.active.svg(true))")
        for name in ("op0", "op39", "block3", "stage0"):
            assert name in drawing
        assert "<script" not in drawing
        assert browser.value("Sheet.png(View.app).then(blob => blob.size)") > 1000
        browser.call("Emulation.setEmulatedMedia", media="print")
        browser.value("dispatchEvent(new Event('beforeprint'))")
        assert browser.value("document.querySelectorAll('#paper svg').length") == 1
        assert browser.value("getComputedStyle(document.getElementById('middle')).display") == "none"
        browser.call("Emulation.setEmulatedMedia", media="")
        browser.value("dispatchEvent(new Event('afterprint'))")
        assert browser.value("document.querySelectorAll('#paper svg').length") == 0


def test_two_files_are_exported_side_by_side(tmp_path: Path) -> None:
    with viewed(two_sides(), tmp_path) as browser:
        for whole, names in (("false", ["old.dlc", "new.dlc"]), ("true", ["old.dlc", "gone", "new"])):
            drawing = str(browser.value(f"Sheet.svg(View.app, {whole}).textContent"))
            for name in names:
                assert name in drawing
        widths = "View.app.panes.map(pane => 2 * pane.size().w)"
        size = browser.value("Sheet.png(View.app).then(createImageBitmap).then(image => image.width)")
        assert size >= sum(browser.value(widths))


def test_each_picture_is_printed_on_a_page(tmp_path: Path) -> None:
    for stated, count in ((content(side(graph(ops_of("a")))), 2), (two_sides(), 3)):
        with viewed(stated, tmp_path) as browser:
            for landscape in (False, True):
                printed = browser.call("Page.printToPDF", landscape=landscape, printBackground=True)
                pages = re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))
                assert len(pages) == count
