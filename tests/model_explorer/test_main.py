"""Google's Model Explorer opens DLCs through the extension, in its own server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest

from tests.support.section_models import residual
from xdlc.ir import Graph, Model, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32

SECONDS = 120
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("model_explorer") is None, reason="needs ai-edge-model-explorer"),
]


def add(name, *shape):
    graph = Graph(name)
    x = graph.add_input(Tensor("x", shape, FLOAT32))
    weight = graph.add_tensor(static("w", np.ones(shape, np.float32)))
    y = graph.add_output(Tensor("y", shape, FLOAT32))
    graph.append(make_op(graph, "ElementWiseBinary", [x, weight], [y], {"operation": u32(0)}, name="a/b/add"))
    return graph


@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "model_explorer", "--host=127.0.0.1", f"--port={port}"]
    command += ["--no_open_in_browser", "--skip_health_check", "--extensions=xdlc.model_explorer"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + SECONDS
        while True:
            try:
                with urlopen(f"{address}/check_health", timeout=5) as answer:
                    assert answer.read() == b"model_explorer_ok"
                break
            except OSError:
                assert time.monotonic() < end, "the server does not answer"
                assert child.poll() is None, "the server has gone"
                time.sleep(0.1)
        yield address
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def asked(server, **command):
    with urlopen(
        f"{server}/api/v1/send_command?json={quote(json.dumps(command))}", timeout=SECONDS
    ) as answer:
        return json.load(answer)


def opened(server, path):
    return asked(
        server,
        cmdId="convert",
        extensionId="xdlc",
        modelPath=str(path),
        settings={},
        deleteAfterConversion=False,
    )


def test_the_extension_is_listed(server):
    with urlopen(f"{server}/api/v1/get_extensions", timeout=SECONDS) as answer:
        listed = {extension["id"]: extension for extension in json.load(answer)}
    assert listed["xdlc"]["fileExts"] == ["dlc"]
    assert listed["xdlc_overlays"]["type"] == "node_data_provider"


def test_three_dlcs_open(server, tmp_path):
    residual().save(tmp_path / "quantized.dlc")
    Model({"one": add("one", 2), "two": add("two", 3)}).save(tmp_path / "graphs.dlc")
    hostile = Model({"g": add("g", 4)})
    hostile.main.rename(hostile.main.outputs[0], "<script>alert(1)</script>\u202e\n" + "n" * 10_000)
    hostile.save(tmp_path / "hostile.dlc")
    answers = {path.stem: opened(server, path)["graphs"] for path in sorted(Path(tmp_path).glob("*.dlc"))}
    assert [graph["id"] for graph in answers["graphs"]] == ["one", "two"]
    assert len(answers["quantized"][0]["nodes"]) == len(residual().main) + 1 + 2
    labels = [node["label"] for node in answers["hostile"][0]["nodes"]]
    assert all(label.isprintable() and len(label) < 400 for label in labels)
    sources = {node["id"] for node in answers["quantized"][0]["nodes"]}
    for node in answers["quantized"][0]["nodes"]:
        assert {edge["sourceNodeId"] for edge in node["incomingEdges"]} <= sources
    command = {"cmdId": "run", "extensionId": "xdlc_overlays", "graphId": "one", "configValues": {}}
    figures = asked(server, **command, modelPath=str(tmp_path / "graphs.dlc"))
    assert {"bytes moved (B)"} <= {overlay["name"] for overlay in figures["result"]}


def test_another_file_is_an_error(server, tmp_path):
    (tmp_path / "net.dlc").write_bytes(b"no container")
    assert opened(server, tmp_path / "net.dlc")["error"].startswith("ContainerError")
