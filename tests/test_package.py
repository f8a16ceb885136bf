from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc.errors import ModelError, ProblemList, StorageError, UsageError, XdlcError


def test_importing_is_light() -> None:
    code = "import xdlc, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "onnx", "onnxruntime", "click", "xdlc.ir", "xdlc.api"}


def test_names() -> None:
    assert set(xdlc.__all__) <= set(dir(xdlc))
    for name in xdlc.__all__:
        assert getattr(xdlc, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = xdlc.nothing


IMPORTS = (
    "import xdlc; verb = xdlc.prepare; import xdlc.prepare.htp",
    "import xdlc.prepare.htp; from xdlc.prepare import hta; import xdlc",
    "from xdlc.prepare.htp import prepare; import xdlc.api; import xdlc",
)


@pytest.mark.parametrize("imports", IMPORTS)
def test_prepare_is_a_verb_whatever_is_imported_first(imports: str) -> None:
    code = (
        f"{imports}\n"
        "import inspect\nfrom xdlc.prepare import hta, htp\n"
        "assert inspect.isfunction(xdlc.prepare) and 'socs' in inspect.signature(xdlc.prepare).parameters\n"
        "assert (hta.__name__, htp.__name__) == ('xdlc.prepare.hta', 'xdlc.prepare.htp')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(UsageError, match="socs is the string"):
        xdlc.prepare(xdlc.Model(), "sm8650")


def test_a_model_goes_all_the_way(models: Any, tmp_path: Path) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    assert isinstance(model, xdlc.Model)
    assert [tensor.name for tensor in model.main.inputs] == ["x"]
    assert [tensor.name for tensor in model.main.outputs] == ["y"]
    path = tmp_path / "net.dlc"
    model.save(path)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    expected = xdlc.run(model, feeds)["y"]
    assert expected.shape == (1, 5)
    np.testing.assert_array_equal(xdlc.run(path, feeds)["y"], expected)
    quantized = xdlc.quantize(path, [feeds], act_bitwidth=16)
    error = np.linalg.norm(xdlc.run(quantized, feeds)["y"] - expected) / np.linalg.norm(expected)
    assert error < 0.02


def test_a_missing_file_is_an_xdlc_error(tmp_path: Path) -> None:
    for verb in (xdlc.load, xdlc.convert):
        with pytest.raises(StorageError):
            verb(tmp_path / "none")


@pytest.mark.parametrize(
    "error",
    [
        ModelError("bad", where="a.onnx", fix="mend it", node="n", op="Relu"),
        ProblemList([ModelError("one"), UsageError("two")], where="m"),
    ],
)
def test_errors_go_from_process_to_process(error: XdlcError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert (str(twin), twin.exit_code, twin.node) == (str(error), error.exit_code, error.node)
