"""What ``xdlc-info`` shows of AIP records: all that they say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import invoke
from tests.support.section_models import residual, with_record
from xdlc.cli.tools import info
from xdlc.container.aip_record import AipBuffer, Dimension, Engine, Section
from xdlc.prepare import hta


def said(path: Path, *words: str) -> str:
    result = invoke(info.main, "-i", path, *words)
    return result.stdout


def flat(text: str) -> str:
    return " ".join(text.split())


def test_own_sections(tmp_path: Path) -> None:
    prepared = hta.prepare(residual(), "13-13")
    prepared.model.save(tmp_path / "m.dlc")
    text = flat(said(tmp_path / "m.dlc"))
    size = len(prepared.sections[1].binary)
    assert "xdlc.aip.metadata0: " in text
    assert "version 1.2.0.0 compiler 0.1.0.0 flavour 88" in text
    assert "HNN layers 0-12 input layer 0 id 0x0 x output layer 10 id 0xa1000 t10" in text
    assert "flavour 88 (xdlc's)" in text
    assert "prepared by xdlc sub-graph 1 operations (Conv2d 1), constants" in text
    assert (
        "output layer 13 id 0xd1000 t13 [channel 32, height 4, channel 1, width 4] padded 32 HNN layers 14-17"
        in text
    )
    (record,) = json.loads(said(tmp_path / "m.dlc", "--json"))["aip"]
    held = record["sections"][1]["subgraph"]
    assert held["operations"] == {"Conv2d": 1}
    assert 0 < held["constant_bytes"] < size


def test_a_damaged_sub_graph_is_reported(tmp_path: Path) -> None:
    for payload, word in ((b"XHTA\2\0\0\0zip?", "end-of-directory"), (b"XHTA\1\0\0\0", "integer program")):
        with_record(residual(), [Section(Engine.HTA, 0, 17, (), payload)]).save(tmp_path / "m.dlc")
        assert word in flat(said(tmp_path / "m.dlc"))


def test_sections_of_the_vendor(tmp_path: Path) -> None:
    dimensions = (Dimension("height", 5, 5), Dimension("channel", 3, 32))
    buffer = AipBuffer("x\x1b[2J", False, 0, 7, dimensions)
    section = Section(Engine.HTA, 0, 17, (buffer,), b"\0\0\2\0code")
    with_record(residual(), [section], "aip.metadata1").save(tmp_path / "m.dlc")
    text = flat(said(tmp_path / "m.dlc"))
    assert "HTA layers 0-17, 8 bytes, compiled by the vendor" in text
    assert "[height 5, channel 3] padded 5, 32" in text
    assert "sub-graph" not in text
    assert "\x1b" not in text
    (record,) = json.loads(said(tmp_path / "m.dlc", "--json"))["aip"]
    (found,) = record["sections"]
    assert found["compiled_by"] == "vendor"
    assert found["buffers"][0]["dimensions"][1] == {"axis": "channel", "extent": 3, "padded": 32}


@pytest.mark.corpus
def test_real_records(corpus: Path) -> None:
    (path,) = (corpus / "dlc" / "mlperf_deeplabv3_v0_7").glob("*.dlc")
    text = flat(said(path))
    layers: Any = ("HTA layers 0-82", "HNN layers 83-95", "HTA layers 96-107", "HNN layers 108-108")
    for words in (*layers, "HTA layers 109-118", "HNN layers 119-119", "HTA layers 0-118"):
        assert words in text
    assert "input layer 86 id 0x560001 MobilenetV2/expanded_conv_13/project/add_fold:0" in text
    assert "[channel 32, height 128, channel 2, width 129] padded 64" in text
