"""ONNX models of one EPContext node, and the provider that runs them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.htp_models import needs_htp, prepared_cnn
from xdlc.cli.tools.graph_prepare import main
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Model

RUN = """
import sys, numpy, onnxruntime, onnxruntime_qnn
onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNNExecutionProvider"]
backend = {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": "57", "htp_arch": "75"}
options.add_provider_for_devices(devices[:1], backend)
session = onnxruntime.InferenceSession(sys.argv[1], options)
numpy.save(sys.argv[3], session.run(["y"], {"x": numpy.load(sys.argv[2])})[0])
"""


@pytest.mark.slow
@needs_htp
@pytest.mark.parametrize("embed", [False, True])
def test_provider_runs_what_is_exported(tmp_path: Path, embed: bool) -> None:
    model = prepared_cnn("sm8650")
    paths = xdlc.export_epcontext(model, tmp_path, embed_context=embed)
    names = ["model.sm8650.onnx"] if embed else ["model.sm8650.bin", "model.sm8650.onnx"]
    assert [path.name for path in paths] == names
    proto = onnx.load(paths[-1])
    onnx.checker.check_model(proto, skip_opset_compatibility_check=True)
    (node,) = proto.graph.node
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert attributes["partition_name"] == b"cnn"
    content = xdlc.export_binary(model)
    assert attributes["ep_cache_context"] == (content if embed else b"model.sm8650.bin")
    assert {each.key for each in proto.metadata_props} == {"x", "y"}
    x = np.random.default_rng(0).integers(0, 255, (1, 8, 8, 4)).astype(np.uint8)
    np.save(tmp_path / "x.npy", x)
    words = [sys.executable, "-c", RUN, *map(str, (paths[-1], tmp_path / "x.npy", tmp_path / "y.npy"))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    expected = xdlc.run(model, {"x": x}, "htp", native=True)["y"]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


@needs_htp
def test_tool_writes_models_of_each_graph(tmp_path: Path) -> None:
    dlc, folder = tmp_path / "net.dlc", tmp_path / "models"
    prepared_cnn("sm8650").save(dlc)
    words = ["-i", str(dlc), "--htp_socs", "sm8650", "--export_epcontext", str(folder)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert {path.name for path in folder.iterdir()} == {"net.sm8650.bin", "net.sm8650.onnx"}
    assert {path.name for path in tmp_path.iterdir()} == {"net.dlc", "models"}
    assert CliRunner().invoke(main, [*words[:4], "--embed_context"]).exit_code == 2


def test_what_has_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="0 caches"):
        xdlc.export_epcontext(Model(), tmp_path)


@needs_htp
def test_partitions_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from xdlc.container import cache_provenance

    model = prepared_cnn("sm8650")
    facts = cache_provenance.read(model)
    parts = {
        name: replace(held, graphs={key: replace(graph, ops=("a",)) for key, graph in held.graphs.items()})
        for name, held in facts.items()
    }
    cache_provenance.write(model, parts)
    with pytest.raises(ConstraintError, match="partitions"):
        xdlc.export_epcontext(model, tmp_path)
    assert not [*tmp_path.iterdir()]
