"""Page of the viewer as a file."""

import base64
import gzip
import json
import re

from tests.support.contents import blocks, content, graph, overlay, side
from tests.support.pages import HOSTILE, check_shut
from xdlc.view.content import page

NAME = HOSTILE.replace("\ud800", "")


def embedded(text: str) -> object:
    raw = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    return json.loads(gzip.decompress(base64.b64decode(raw)))


def hostile() -> dict:
    ops = [
        {"name": NAME, "type": NAME, "reads": [-1], "params": {NAME: NAME}, "nodes": [NAME], "reason": NAME},
        {"name": NAME, "type": "Relu", "reads": [0], "scope": 1, "package": NAME, "encoding": NAME},
    ]
    marks = overlay("k", [[NAME, NAME]], title=NAME, colors={NAME: "warn"}, notes=[{"0": NAME}])
    return side(
        graph(ops, name=NAME, scopes=[[NAME, -1], [NAME, 0]]),
        file=NAME,
        kind=NAME,
        facts=[[NAME, NAME]],
        records=[[NAME, [[NAME, NAME]]]],
        problems=[[NAME, 0, 1], [NAME, None, None]],
        overlays=[marks],
    )


def test_the_page_is_shut_and_has_its_content() -> None:
    stated = content(hostile())
    text = page(stated)
    shut = check_shut(text)
    assert embedded(text) == stated
    assert "2 operations" in shut.texts["pre"]
    assert not {"\u2028", "\u202e", "\ud800"} & set(shut.texts["pre"])
    assert len(shut.texts["pre"]) < 4000


def test_the_same_content_makes_the_same_page() -> None:
    assert page(content(side(blocks(20)))) == page(content(side(blocks(20))))


def test_a_page_of_many_ops_is_small() -> None:
    assert len(page(content(side(blocks(10_000))))) < 3_000_000 + 150 * 10_000
