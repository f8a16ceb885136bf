import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.container.test_cache_entry import JSON, places, put_in
from tests.support.cache_models import put_cache
from tests.support.htp_models import cnn
from xdlc.cli.cache_records import cache_lines, summary, table_lines
from xdlc.cli.tools.info import main as info
from xdlc.content.cache_records import cache_parts, cache_records, cache_table
from xdlc.ir import Model, raw_data
from xdlc.prepare.htp.prepare import Prepared

SVG = "{http://www.w3.org/2000/svg}"


def tool(*args: object, code: int = 0) -> str:
    result = CliRunner().invoke(info, [str(arg) for arg in args], prog_name="xdlc info")
    assert result.exit_code == code, result.output
    return result.output


def cached() -> Model:
    model = cnn(quantized=True)
    put_cache(model, "sm8450")
    put_cache(model, "sm8650", noted=False)
    return model


@pytest.fixture
def dlc(tmp_path: Path) -> Path:
    path = tmp_path / "c.dlc"
    cached().save(path)
    return path


def test_caches_are_shown_in_full(dlc: Path) -> None:
    shown = tool(dlc, "--caches", "--sdk", "2.51")
    for words in (
        "htp.cache.sm8450.0",
        "SM8450 (id 36)",
        "v69, VTCM 8 MB",
        "100 bytes, 36 bytes of it the binary",
        "QNN API 2.40.0, HTP 5.51.0, binary 4.0.6",
        "VTCM 8 MB, optimization level 2, all HVX threads, without DLBC",
        "spill-fill 64.0 KiB",
        "graph cnn, hash ",
        "y  ufixed8  1x5",
        "xdlc did not make the record",
    ):
        assert words in shown
    assert "1980" not in shown


def test_a_picture_shows_where_each_graph_runs(dlc: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "c.svg") in tool(dlc, "--caches", "--svg", tmp_path / "c.svg")
    texts = [element.text for element in ElementTree.parse(tmp_path / "c.svg").iter(f"{SVG}text")]
    assert {"cnn on sm8450", "cnn on sm8650"} <= set(texts)


def test_a_picture_needs_caches(dlc: Path, tmp_path: Path) -> None:
    assert "--svg" in tool(dlc, "--svg", tmp_path / "c.svg", code=2)
    cnn(quantized=True).save(tmp_path / "none.dlc")
    assert "cache" in tool(tmp_path / "none.dlc", "--caches", "--svg", tmp_path / "c.svg", code=2)
    assert not (tmp_path / "c.svg").exists()


def test_ops_outside_of_the_cache_run_on_the_cpu() -> None:
    model = cached()
    last = list(model.main.ops)[-1]
    record = {"graphs": [{"name": "part", "source": "cnn", "ops": [op.name for op in model.main.ops][:-1]}]}
    parts = cache_parts(model, record)
    assert last not in parts
    assert set(parts.values()) == {"part"}


def test_table_has_records_and_devices_in_both_modes(dlc: Path) -> None:
    shown = tool(dlc, "--caches", "--sdk", "2.51")
    rows = [line.split() for line in shown.splitlines() if line.startswith("  htp.cache.") and "  sm" in line]
    assert [row[:3] for row in rows] == [
        ["htp.cache.sm8450.0", "sm8450", "usable"],
        ["htp.cache.sm8450.0", "sm8650", "usable"],
        ["htp.cache.sm8650.0", "sm8450", "arch:"],
        ["htp.cache.sm8650.0", "sm8650", "usable"],
    ]
    shown = tool(dlc, "--caches", "--device", "sm7450,SM8250,sdm845", "--sdk", "2.40")
    assert shown.count("sm8250 has no HTP") == 1
    assert "vtcm: 8 MB, accepted: 2 MB or less" in shown
    assert "sdk: 2.51.0, accepted: 2.40" in shown
    assert shown.index("usable on devices") < shown.index("HTP caches")


def test_json_holds_the_same(dlc: Path) -> None:
    report = json.loads(tool(dlc, "--caches", "--json", "--device", "sm7450", "--sdk", "2.51"))
    assert [cache["record"] for cache in report["caches"]] == ["htp.cache.sm8450.0", "htp.cache.sm8650.0"]
    assert report["devices"] == ["sm7450"]
    (first, *_) = report["verdicts"]
    assert first["failed"] == [{"rule": "vtcm", "found": "8 MB", "accepted": "2 MB or less"}]
    assert first["usable"] is False
    (graph,) = report["caches"][0]["graphs"]
    assert graph["source"] == "cnn"
    assert graph["inputs"][0]["encoding"]["offset"] == -128


def test_whole_report_has_the_caches_too(dlc: Path) -> None:
    assert "spill-fill 64.0 KiB" in tool(dlc)
    assert "usable on devices" not in tool(dlc)
    assert "--soc sm8450" in tool(dlc).splitlines()[1]


def test_stale_cache_is_told(tmp_path: Path) -> None:
    model = cached()
    tensor = next(held for held in model.main.tensors.values() if held.is_static)
    tensor.data = raw_data(bytes(tensor.nbytes))
    model.save(tmp_path / "s.dlc")
    assert "graph: hash " in tool(tmp_path / "s.dlc", "--caches", "--sdk", "2.51")


def test_file_without_caches_says_so(tmp_path: Path) -> None:
    cnn(quantized=True).save(tmp_path / "n.dlc")
    assert "no HTP cache to judge" in tool(tmp_path / "n.dlc", "--caches")


@pytest.mark.parametrize("options", [("--device", "sm8650"), ("--sdk", "2.51")])
def test_options_of_caches_go_with_them(dlc: Path, options: tuple[str, str]) -> None:
    assert "require --caches" in tool(dlc, *options, code=2)


@pytest.mark.parametrize("options", [("--caches", "-s", "a.csv"), ("--caches", "-m")])
def test_options_of_ops_and_of_caches_exclude_each_other(dlc: Path, options: tuple[str, ...]) -> None:
    assert "omit" in tool(dlc, *options, code=2)


def test_shared_weights_and_unlisted_records_are_shown() -> None:
    model = cached()
    model.records["htp.shared.weights.<a>"] = raw_data(bytes(2048))
    model.metadata["relations"] = [
        {
            "parentRecordName": "htp.cache.sm8450.0",
            "childRecordNames": ["htp.shared.weights.<a>", "htp.shared.weights.<b>"],
        }
    ]
    del model.metadata["cacheList"][1]
    shown = "\n".join(cache_lines(cache_records(model)))
    assert "htp.shared.weights.<a>: 2.0 KiB" in shown
    assert "htp.shared.weights.<b>: missing from the file" in shown
    assert "the metadata lacks the cache, so the vendor's runtime does not find the cache" in shown


MODEL = cached()
PLACES = places(MODEL.metadata["cacheList"])[1:]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_hostile_descriptions_are_shown(place: list[Any], value: Any) -> None:
    model = MODEL.clone()
    changed = put_in(MODEL.metadata["cacheList"], place, value)
    model.metadata["cacheList"] = [item for item in changed if isinstance(item, dict)]
    table = cache_table(model, ["sm8450"], "2.51")
    records = cache_records(model)
    json.dumps([records, table], allow_nan=False)
    for line in (*cache_lines(records), *table_lines(table)):
        assert line.isprintable()


def test_summary_shows_no_control_characters_and_tells_what_is_missing() -> None:
    model = Model(
        metadata={"cacheList": [{"cacheName": "htp.cache.sm8550.0"}]},
        records={"htp.cache.\x1b[31mx.0": raw_data(b"1")},
    )
    odd, missing, failed = summary(Prepared(model, (), (), failed=("sm8650",)))
    assert "\x1b" not in odd
    assert "of an unknown architecture, 1 bytes, there before" in odd
    assert missing == (
        "cache htp.cache.sm8550.0: SM8550, of an unknown architecture, missing from the file, there before"
    )
    assert failed == "no cache for sm8650: failed"
