"""Context binaries: out of a DLC, described, run, and damaged."""

from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.commands import invoke
from tests.support.htp_models import cnn, needs_htp, prepared_cnn
from xdlc.api.execution import alternatives
from xdlc.cli.tools import graph_prepare, info, net_run
from xdlc.container.cache_entry import read_entry
from xdlc.container.caches import add_cache, caches, is_context_binary
from xdlc.errors import BackendError, ContainerError, ModelError, UsageError, XdlcError
from xdlc.ir import Model
from xdlc.prepare.htp import prepare

FEEDS = {"x": np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 8, 8, 4)}


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "cnn.bin"
    path.write_bytes(xdlc.export_binary(prepared_cnn("sm8650")))
    return path


@needs_htp
def test_binary_is_the_cache_and_runs_without_its_model(binary: Path) -> None:
    model = prepared_cnn("sm8650")
    (cache,) = caches(model)
    assert cache.data is not None
    assert binary.read_bytes() == bytes(cache.data.content())
    loaded = xdlc.load(binary)
    assert not loaded.graphs
    (own,) = caches(loaded)
    assert own.name == cache.name
    assert read_entry(own.entry).graphs == read_entry(cache.entry).graphs
    with xdlc.Session(binary, "htp") as session, xdlc.Session(model, "htp") as whole:
        assert session.graph.name == "cnn"
        assert [tensor.name for tensor in session.graph.inputs] == ["x"]
        for native in (False, True):
            found = session.run(FEEDS, native=native)["y"]
            np.testing.assert_array_equal(found, whole.run(FEEDS, native=native)["y"])
        with pytest.raises(XdlcError, match="z"):
            session.run({"z": FEEDS["x"]})
    loaded.save(binary.with_suffix(".dlc"))
    assert xdlc.export_binary(binary.with_suffix(".dlc"), "sm8650") == binary.read_bytes()
    for options in ({"outputs": ["relu"]}, {"graph": "other"}, {"mode": "always_generate_new"}):
        with pytest.raises(UsageError):
            xdlc.run(loaded, FEEDS, "htp", **options)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no graph"):
        xdlc.run(loaded, FEEDS)
    with pytest.raises(UsageError, match="no graph"):
        xdlc.cost(loaded)
    with pytest.raises(UsageError, match="cannot be compiled again"):
        xdlc.prepare(binary, ["sm8650"])


@pytest.mark.slow
@needs_htp
def test_the_soc_chooses_the_cache_whose_graphs_fit(binary: Path) -> None:
    other = cnn(quantized=True)
    graph = other.graphs.pop("cnn")
    graph.name = "other"
    other.add_graph(graph)
    (cache,) = caches(prepare(other, ["sm8550"], verify=False))
    model = xdlc.load(binary)
    assert cache.data is not None
    add_cache(model, cache.soc, cache.data, cache.entry)
    for soc, name in {"sm8650": "cnn", "sm8550": "other"}.items():
        assert [graph.name for graph in alternatives(model, soc)] == [name]


@pytest.mark.slow
@needs_htp
def test_tools_write_show_and_run_binaries(tmp_path: Path) -> None:
    dlc, folder = tmp_path / "net.dlc", tmp_path / "binaries"
    prepared_cnn("sm8650").save(dlc)
    common = ["-i", dlc, "--htp_socs", "sm8650"]
    result = invoke(graph_prepare, *common, "--export_binary", folder)
    path = folder / "net.sm8650.bin"
    assert "kept" in result.stdout
    assert {*tmp_path.iterdir()} == {dlc, folder}
    invoke(graph_prepare, *common, "--export_binary", tmp_path / "one.bin", "-o", tmp_path / "again.dlc")
    assert (tmp_path / "one.bin").read_bytes() == path.read_bytes()
    assert (tmp_path / "again.dlc").exists()
    two = ["-i", dlc, "--htp_socs", "sm8650,sm8550", "--export_binary", tmp_path / "two.bin"]
    assert "two.bin" in invoke(graph_prepare, *two, code=2).output
    shown = invoke(info, path).stdout
    for word in ("context binary", "SM8650", "graph cnn", "v2."):
        assert word in shown
    FEEDS["x"].tofile(tmp_path / "x.raw")
    listing = tmp_path / "list.txt"
    listing.write_text(f"x:={tmp_path / 'x.raw'}\n")
    words = ["--container", path, "--input_list", listing, "--output_dir", tmp_path / "out"]
    invoke(net_run, *words, "--runtime", "htp")
    found = np.fromfile(tmp_path / "out" / "Result_0" / "y.raw", "<f4")
    np.testing.assert_array_equal(found, xdlc.run(dlc, FEEDS, "htp")["y"].reshape(-1))
    assert "--runtime htp" in invoke(net_run, *words, code=2).output


def test_what_has_no_binary_is_refused() -> None:
    with pytest.raises(UsageError, match="0 caches"):
        xdlc.export_binary(cnn(quantized=True), "sm8650")
    with pytest.raises(UsageError, match="sm8651"):
        xdlc.export_binary(cnn(quantized=True), "sm8651")


@needs_htp
def test_damaged_binaries_are_refused(binary: Path) -> None:
    content = binary.read_bytes()
    assert is_context_binary(binary)
    binary.write_bytes(content[:-1])
    with pytest.raises(ContainerError, match="header needs"):
        xdlc.load(binary)
    binary.write_bytes(content[:40] + bytes(len(content) - 40))
    with pytest.raises(BackendError):
        xdlc.load(binary)
    binary.write_bytes(content[:8])
    assert not is_context_binary(binary)
    with pytest.raises(ContainerError, match="zip"):
        xdlc.load(binary)
    with pytest.raises(UsageError, match="no cache"):
        xdlc.run(Model(records={"a": prepared_cnn("sm8650").records["xdlc.caches"]}), FEEDS, "htp")
