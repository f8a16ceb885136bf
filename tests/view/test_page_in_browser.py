"""Page of the viewer in Chromium."""

import json
from pathlib import Path

import pytest

from tests.support.contents import (
    HOST,
    INSERTED,
    REFUSED,
    WRONG,
    Content,
    blocks,
    content,
    graph,
    overlay,
    side,
)
from tests.support.viewer import (
    ARROWS,
    CHOSEN,
    SHOWN,
    address,
    all_colors,
    focus_graph,
    ops_of,
    panel,
    press,
    two_sides,
    viewed,
)
from tests.view.test_page import NAME, hostile


def test_choosing_an_op_shows_all_that_is_known_of_it(tmp_path: Path) -> None:
    ops = ops_of("a", "b", "c")
    ops[1] |= {
        "type": "Transpose",
        "params": {"perm": [0, 2, 1]},
        "nodes": ["/source/b"],
        "reason": "the pool works channel-last",
        "flags": INSERTED | HOST | REFUSED | WRONG,
        "encoding": "scale 0.5, offset -3",
        "stats": 1,
    }
    figures = overlay(
        "sqnr", [[30, 4, None]], unit="dB", low_is_bad=True, marks=[10, 20], notes=[{"1": "far off"}]
    )
    reasons = overlay("inserted", [[None, "inserted", None]], notes=[{"1": ops[1]["reason"]}])
    stated = side(graph(ops), overlays=[figures, reasons], problems=[["no such op on v68", 0, 1]])
    with viewed(content(stated), tmp_path) as browser:
        assert "Version" in panel(browser)
        named = "document.querySelector('#panel .problem button').textContent"
        assert browser.value(named) == "Transpose b"
        browser.value("document.querySelector('#outline details:last-child').open = true")
        browser.value("document.querySelector('#outline [title=b]').click()")
        shown = panel(browser)
        for fact in ("Transpose", "channel-last", "perm", "[0, 2, 1]", "/source/b", "4.0 dB", "far off"):
            assert fact in shown
        for fact in (
            "no such op on v68",
            "scale 0.5, offset -3",
            "1\u00d7?\u00d71",
            "25",
            "refused",
            "host only",
        ):
            assert fact in shown
        assert browser.value("document.querySelectorAll('#panel svg[role=img]').length") >= 1
        assert shown.count("channel-last") == 1
        assert "Transpose b, 2 of 3" in browser.value("document.getElementById('said').textContent")


def test_the_panel_names_an_op_as_the_picture_does(tmp_path: Path) -> None:
    ops = ops_of("a")
    ops[0] |= {"type": "ElementWiseNeuron", "params": {"operation": "4 (RELU)"}}
    with viewed(content(side(graph(ops))), tmp_path) as browser:
        browser.value("View.app.choose(View.app.active, 0)")
        assert browser.value("document.querySelector('#panel h2').textContent") == "Relu"
        assert "Type\nElementWiseNeuron" in panel(browser)


def test_keys_alone_reach_every_op(tmp_path: Path) -> None:
    with viewed(content(side(blocks(40))), tmp_path) as browser:
        focus_graph(browser)
        visited = set()
        for _ in range(42):
            press(browser, "ArrowRight")
            visited.add(browser.value(CHOSEN))
        assert set(range(40)) <= visited
        browser.value("View.app.choose(View.app.active, 19)")
        focus_graph(browser)
        press(browser, "ArrowUp")
        assert browser.value(CHOSEN) == 18
        press(browser, "ArrowDown")
        assert browser.value(CHOSEN) == 19
        press(browser, "Escape")
        assert browser.value(CHOSEN) is None


def test_keys_reach_each_producer_and_consumer(tmp_path: Path) -> None:
    ops = ops_of("a", "b", "c", "d")
    ops[2]["reads"], ops[3]["reads"] = [0], [0, 1, 2]
    with viewed(content(side(graph(ops))), tmp_path) as browser:
        for start, key in ((0, "ArrowDown"), (3, "ArrowUp")):
            browser.value(f"View.app.choose(View.app.active, {start})")
            focus_graph(browser)
            press(browser, key)
            reached = [browser.value(CHOSEN)]
            for _ in range(3):
                press(browser, key, shift=True)
                reached.append(browser.value(CHOSEN))
            assert len(set(reached)) == 3
            assert reached[0] == reached[3]
            assert "1 of 3." in browser.value("document.getElementById('said').textContent")


def test_groups_fold_and_open(tmp_path: Path) -> None:
    with viewed(content(side(blocks(600))), tmp_path) as browser:
        folded = browser.value(SHOWN)
        assert folded < 100
        focus_graph(browser)
        press(browser, "u")
        assert browser.value(SHOWN) == 602
        press(browser, "U", shift=True)
        assert browser.value(SHOWN) == 8
        press(browser, "ArrowRight")
        press(browser, "ArrowRight")
        assert browser.value("View.app.active.chosen >= View.app.active.net.nodes")
        press(browser, "Enter")
        assert browser.value(SHOWN) == 17
        assert "is open" in browser.value("document.getElementById('said').textContent")
        press(browser, "f")
        assert browser.value(SHOWN) == 8
        browser.value("View.app.choose(View.app.active, 599)")  # opens what the op is in
        assert browser.value("View.app.active.made.at.has(599)")


def test_the_outline_stays_open_while_ops_are_chosen(tmp_path: Path) -> None:
    with viewed(content(side(blocks(40))), tmp_path) as browser:
        browser.value("document.querySelector('#outline details:last-child').open = true")
        browser.value("document.querySelectorAll('#outline .twist')[1].click()")
        browser.value("document.querySelector('#outline [data-op=\"7\"]').click()")
        assert browser.value(CHOSEN) == 7
        assert browser.value("document.querySelector('#outline [aria-current]').dataset.op") == "7"
        assert browser.value("document.querySelectorAll('#outline [aria-expanded=true]').length") == 2


def test_the_outline_opens_around_what_is_chosen(tmp_path: Path) -> None:
    with viewed(content(side(blocks(600))), tmp_path) as browser:
        browser.value("document.querySelector('#outline details:last-child').open = true")
        browser.value("View.app.choose(View.app.active, 333)")
        assert browser.value("document.querySelector('#outline [aria-current]').dataset.op") == "333"


def test_search(tmp_path: Path) -> None:
    body = graph(ops_of("inner"), name="body")
    with viewed(content(side(blocks(40), body)), tmp_path) as browser:
        press(browser, "/")
        assert browser.value("document.activeElement.id") == "search"
        for words, count in (
            ("softmax", 13),
            ("node39", 1),
            ("op7:0", 2),
            ("conv op12", 1),
            ("inner", 1),
            ("zz", 0),
        ):
            assert browser.value(f"Checks.search({json.dumps(words)})") == count, words
        browser.value("Checks.search('softmax')")
        press(browser, "Enter")
        press(browser, "Enter")
        assert browser.value(CHOSEN) == 5
        press(browser, "Enter", shift=True)
        assert browser.value(CHOSEN) == 2
        assert browser.value("document.getElementById('hits').textContent") == "1 of 13"


def test_bodies_are_graphs_of_their_own(tmp_path: Path) -> None:
    ops = ops_of("a", "loop")
    ops[1]["bodies"] = [1]
    with viewed(content(side(graph(ops), graph(ops_of("x", "y"), name="body"))), tmp_path) as browser:
        browser.value("View.app.choose(View.app.active, 1)")
        focus_graph(browser)
        press(browser, "Enter")
        assert browser.value("View.app.active.graph") == 1
        assert browser.value("document.getElementById('graph').value") == "1"
        browser.value("View.app.choose(View.app.active, 1)")
        assert address(browser) == "#0/1/y"


def test_the_address_leads_to_an_op(tmp_path: Path) -> None:
    with viewed(content(side(blocks(600))), tmp_path) as browser:
        browser.value("location.hash = '#0/0/' + encodeURIComponent('stage3/block39/op399')")
        browser.value("new Promise(done => setTimeout(done, 50))")
        assert browser.value(CHOSEN) == 399
        for strange in ("#9/9/x", "#0/0/%E0%A4%A", "#0/0/nothing", "#"):
            browser.value(f"location.hash = {strange!r}")
            assert browser.value(f"new Promise(done => setTimeout(() => done({CHOSEN}), 50))") == 399


def test_many_steps_set_the_address_once(tmp_path: Path) -> None:
    with viewed(content(side(blocks(400))), tmp_path) as browser:
        browser.value(
            "tally = 0, set = history.replaceState, history.replaceState = (...all) => "
            "{ tally++; set.apply(history, all); }, 0"
        )
        steps = "for (let i = 0; i < 300; i++) View.app.choose(View.app.active, i); tally"
        assert browser.value(steps) == 0
        assert address(browser).endswith("op299")
        assert browser.value("tally") == 1


def test_two_files_side_by_side(tmp_path: Path) -> None:
    with viewed(two_sides(), tmp_path) as browser:
        assert "2 ops differ" in panel(browser)
        browser.value("View.app.choose(View.app.panes[0], 3)")
        assert browser.value("[...View.app.panes[1].twins]") == [2]
        focus_graph(browser)
        browser.value("View.app.choose(View.app.active, null)")
        walked = []
        for _ in range(4):
            press(browser, "]")
            walked.append(browser.value("[View.app.active.sideIndex, View.app.active.chosen]"))
        assert walked == [[0, 1], [0, 2], [0, 3], [1, 3]]
        press(browser, "]")
        shown = panel(browser)
        assert "stride" in shown
        assert "[2, 2]" in shown
        assert browser.value("View.app.panes.map(pane => pane.overlay.key)") == ["diff", "diff"]


def test_a_source_model_beside_its_file(tmp_path: Path) -> None:
    stated = content(
        side(graph(ops_of("n0", "n1")), file="net.onnx", kind="ONNX"),
        side(graph(ops_of("x", "y", "z"))),
        link=[[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 2]],
    )
    with viewed(stated, tmp_path) as browser:
        browser.value("View.app.choose(View.app.panes[0], 1)")
        assert browser.value("[...View.app.panes[1].twins]") == [1, 2]
        browser.value("View.app.choose(View.app.panes[1], 2)")
        assert browser.value("[...View.app.panes[0].twins]") == [1]


def test_the_side_that_has_the_overlay_is_active(tmp_path: Path) -> None:
    figures = overlay("sqnr", [[30, 4]], unit="dB") | {"from": "r.json"}
    own = overlay("own", [[1, 2]])
    sides = side(graph(ops_of("a", "b")), overlays=[own]), side(graph(ops_of("a", "b")), overlays=[figures])
    with viewed(content(*sides), tmp_path) as browser:
        legend = "document.getElementById('legend').innerText"
        assert browser.value("View.app.active.sideIndex") == 1
        assert "SQNR" in browser.value(legend)
        for key, place in (("own", 0), ("type", 0), ("sqnr", 1), ("type", 1)):
            choose = "const box = document.getElementById('overlay')"
            browser.value(
                f"(() => {{ {choose}; box.value = '{key}'; box.dispatchEvent(new Event('change')); }})()"
            )
            assert browser.value("View.app.active.sideIndex") == place, key


def test_the_list_has_every_op(tmp_path: Path) -> None:
    with viewed(content(side(blocks(250))), tmp_path) as browser:
        press(browser, "l")
        rows = "document.querySelectorAll('#list tbody tr').length"
        assert browser.value(rows) == 100
        browser.value("document.querySelector('#list .more').click()")
        assert browser.value(rows) == 250
        browser.value("document.querySelector('#list [data-op=\"249\"]').click()")
        assert browser.value(CHOSEN) == 249
        browser.value("document.querySelector('#list [data-key=type]').click()")
        assert browser.value("document.querySelector('#list th[aria-sort]').innerText").startswith("Type")


def test_keys_change_overlays(tmp_path: Path) -> None:
    with viewed(content(all_colors()), tmp_path) as browser:
        shown = []
        focus_graph(browser)
        for _ in range(4):
            press(browser, "o")
            shown.append(browser.value("document.getElementById('overlay').value"))
        assert shown == ["kind", "macs", "sqnr", "type"]
        press(browser, "O", shift=True)
        assert "below" in browser.value("document.getElementById('legend').innerText")
        lists = browser.value("document.getElementById('outline').innerText")
        assert "Worst 10" in lists
        assert "(inside)" not in lists


def test_the_help_returns_the_focus(tmp_path: Path) -> None:
    with viewed(content(side(blocks(20))), tmp_path) as browser:
        canvas, theme = "View.app.active.canvas", "document.getElementById('theme')"
        for start, end in (("document.body", canvas), (canvas, canvas), (theme, theme)):
            browser.value(f"{start}.focus()")
            press(browser, "?")
            assert browser.value("document.getElementById('help').open")
            press(browser, "Escape")
            assert not browser.value("document.getElementById('help').open")
            assert browser.value(f"document.activeElement === {end}")


def test_everything_has_a_name_for_screen_readers(tmp_path: Path) -> None:
    with viewed(content(all_colors()), tmp_path) as browser:
        browser.value("View.app.choose(View.app.active, 1)")
        press(browser, "l")
        assert browser.value("Checks.nameless()") == []
        press(browser, "l")
        canvas = "View.app.active.canvas"
        assert browser.value(f"{canvas}.getAttribute('role') && {canvas}.tabIndex === 0")
        assert browser.value("document.getElementById('said').getAttribute('aria-live')") == "polite"


def test_hostile_texts_are_inert(tmp_path: Path) -> None:
    stated = content(
        hostile(),
        hostile(),
        diff={
            "ops": [
                [
                    0,
                    0,
                    0,
                    0,
                    "changed",
                    [{"kind": NAME, "what": NAME, "before": NAME, "after": NAME, "note": NAME}],
                ]
            ],
            "items": [{"kind": NAME, "what": NAME, "before": NAME, "after": None, "note": NAME}],
            "summary": [NAME],
        },
    )
    with viewed(stated, tmp_path) as browser:
        browser.value("View.app.choose(View.app.active, 0)")
        assert len(panel(browser)) < 8000
        for act in (
            "View.app.active.openAll(false)",
            "View.app.choose(View.app.active, 4)",
            "View.app.active.svg(true)",
        ):
            browser.value(f"{act}, 0")
        for key in "olo[]?":
            press(browser, key)
        browser.value("document.getElementById('help').close()")
        assert browser.value("document.querySelectorAll('img, iframe, #view script').length") == 0
        text = browser.value("document.body.innerText + View.app.panes[0].svg(true).textContent")
        assert not {"\u2028", "\u202e"} & set(str(text))
        browser.value("document.querySelector('#panel .more-text')?.click()")


@pytest.mark.parametrize("graphs", [[], [graph([]) | {"outputs": []}]], ids=["no graph", "no ops"])
def test_a_file_without_ops(tmp_path: Path, graphs: list[Content]) -> None:
    with viewed(content(side(*graphs)), tmp_path) as browser:
        focus_graph(browser)
        for key in ("ArrowDown", "ArrowRight", "Enter", "f", "u", "]", "o", "0", "+", "l", "l"):
            press(browser, key)
        assert "Version" in panel(browser) or "INPUT" in panel(browser).upper()


def test_tensors_of_unknown_rank(tmp_path: Path) -> None:
    stated = graph([{"name": "a", "reads": [-1, 2]}])
    stated["tensors"].append(["w", "", None, "static", "damaged", 0])
    for tensor in stated["tensors"]:
        tensor[2] = None
    with viewed(content(side(stated)), tmp_path) as browser:
        for node in (1, 0):
            browser.value(f"View.app.choose(View.app.active, {node})")
        press(browser, "l")
        assert "damaged" in panel(browser)


def test_a_source_model_without_shapes_beside_its_file(tmp_path: Path) -> None:
    source = graph(ops_of("a", "b", "c"))
    for tensor in source["tensors"]:
        tensor[1], tensor[2] = "", None
    source["ops"][2][3].append(-1)
    source["outputs"].append(0)
    notes = overlay("notes", [[None, None, 1]], notes=[{"0": "nothing"}])
    sides = side(source, file="net.pb", overlays=[notes]), side(graph(ops_of("x", "y")))
    link = [[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, None], [0, None, 0, 0]]
    for stated in (content(sides[0]), content(*sides, link=link)):
        with viewed(stated, tmp_path) as browser:
            for place in range(len(stated["sides"])):
                for node in range(browser.value(f"View.app.panes[{place}].net.nodes")):
                    browser.value(f"View.app.choose(View.app.panes[{place}], {node})")
                    focus_graph(browser)
                    for key in (*ARROWS, *"fuU[]oO+-0ll"):
                        press(browser, key, shift=key.isupper())
            press(browser, "Escape")
            browser.value("Sheet.svg(View.app, true), dispatchEvent(new Event('beforeprint'))")


def test_a_file_without_graphs(tmp_path: Path) -> None:
    binary = side(records=[["cache x", [["arch", "v75"]]]], kind="context binary")
    for stated in (content(binary), content(side(graph(ops_of("a"))), binary)):
        with viewed(stated, tmp_path) as browser:
            browser.value("View.app.choose(View.app.panes.at(-1), null)")
            assert "v75" in panel(browser)
            focus_graph(browser)
            for key in ("ArrowDown", "ArrowRight", "Enter", "f", "u", "]", "o", "0", "+", "l", "l"):
                press(browser, key)
            browser.value("View.app.active.svg(true), dispatchEvent(new Event('beforeprint'))")


def test_start_draws_another_content(tmp_path: Path) -> None:
    with viewed(content(side(blocks(20))), tmp_path) as browser:
        browser.value(f"View.app = View.start({json.dumps(two_sides())}), 0")
        assert browser.value("document.querySelectorAll('.pane').length") == 2
        focus_graph(browser)
        press(browser, "]")
        assert browser.value(CHOSEN) == 1
