"""Examples in docstrings give what they say, and the example service answers."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import io
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import xdlc
from tests.support.htp_models import cnn

PACKAGE = Path(xdlc.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted
    assert not done.failed


@pytest.fixture(scope="module")
def service() -> ModuleType:
    path = Path(__file__).parents[1] / "examples" / "service" / "serve.py"
    spec = importlib.util.spec_from_file_location("serve", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def address(service: ModuleType) -> Iterator[str]:
    with xdlc.Session(cnn(quantized=True)) as session:
        server = ThreadingHTTPServer(("127.0.0.1", 0), service.answerer(session))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()


def _packed(**arrays: np.ndarray) -> bytes:
    body = io.BytesIO()
    np.savez(body, **arrays)
    return body.getvalue()


def test_service_returns_what_a_run_returns(address: str) -> None:
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 4), np.float32)
    with urllib.request.urlopen(address, _packed(x=x)) as reply, np.load(io.BytesIO(reply.read())) as outputs:
        np.testing.assert_array_equal(outputs["y"], xdlc.run(cnn(quantized=True), {"x": x})["y"])
    with urllib.request.urlopen(address) as reply:
        assert json.load(reply) == {"inputs": {"x": [1, 8, 8, 4]}, "outputs": {"y": [1, 5]}}


@pytest.mark.parametrize(
    "body", [b"no archive", b"PK\3\4 torn", _packed(z=np.zeros(3)), _packed(x=np.zeros((1, 2), np.float32))]
)
def test_service_refuses_a_wrong_request_and_goes_on(address: str, body: bytes) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, body)
    with caught.value:
        assert caught.value.code == 400
    with urllib.request.urlopen(address) as reply:
        assert reply.status == 200


def test_service_refuses_what_unpacks_to_much(
    address: str, service: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LARGEST", 1 << 16)
    body = io.BytesIO()
    np.savez_compressed(body, x=np.zeros(1 << 20, np.float32))
    assert len(body.getvalue()) < 1 << 16
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, body.getvalue())
    with caught.value:
        assert (caught.value.code, b"65536" in caught.value.read()) == (400, True)


def test_service_reports_a_run_that_is_late(
    address: str, service: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATIENCE", 1e-9)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, _packed(x=np.zeros((1, 8, 8, 4), np.float32)))
    with caught.value:
        assert caught.value.code == 503
