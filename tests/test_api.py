from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc.errors import StorageError, UsageError


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


def test_prepare_is_a_package_and_a_verb() -> None:
    import xdlc.prepare.htp

    assert callable(xdlc.prepare)
    assert xdlc.prepare.htp.__name__ == "xdlc.prepare.htp"
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


def test_unknown_options_are_named_with_what_is_near(models: Any) -> None:
    path = models.save(models.cnn())
    with pytest.raises(UsageError, match="convert has no option 'input_dim'") as caught:
        xdlc.convert(path, input_dim={"x": (1, 3, 16, 16)})
    assert "input_dims" in str(caught.value)
    with pytest.raises(UsageError, match="quantize has no option 'act_bw'") as caught:
        xdlc.quantize(xdlc.convert(path), [], act_bw=8)
    assert "nearest: act_bitwidth" in str(caught.value)


def test_unknown_runtime_options(models: Any) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    feeds = {"x": np.zeros((1, 3, 16, 16), np.float32)}
    with pytest.raises(UsageError, match="runtime cpu has no option 'soc'"):
        xdlc.run(model, feeds, soc="sm8650")
    with pytest.raises(UsageError, match="runtime htp has no option 'socs'") as caught:
        xdlc.run(model, feeds, runtime="htp", socs="sm8650")
    assert "nearest: soc" in str(caught.value)
    assert xdlc.run(model, feeds, native=True).keys() == {"y"}


def test_arrays_come_by_name(models: Any) -> None:
    path = models.save(models.cnn())
    model, array = xdlc.convert(path), np.zeros((1, 3, 16, 16), np.float32)
    with pytest.raises(UsageError, match="feeds is of type ndarray"):
        xdlc.run(model, array)
    with pytest.raises(UsageError, match="samples is one mapping"):
        xdlc.quantize(model, {"x": array})
    with pytest.raises(UsageError, match="calibration sample 1 is of type str"):
        xdlc.quantize(model, iter([{"x": array}, "array"]))


@pytest.mark.parametrize("shape", ["1,3,16,16", (1, 3, 16, 16.0), 5, (1, 3, None, 16), (1, 3, 16, 2**32)])
def test_input_dims_are_whole_numbers(models: Any, shape: Any) -> None:
    with pytest.raises(UsageError, match="input_dims gives 'x' the shape"):
        xdlc.convert(models.save(models.cnn()), input_dims={"x": shape})


def test_unknown_runtime(models: Any) -> None:
    with pytest.raises(UsageError, match="'gpu' is not one of cpu, htp, aip"):
        xdlc.run(xdlc.convert(models.save(models.cnn())), {}, runtime="gpu")


def test_a_missing_file_is_an_xdlc_error(tmp_path: Path) -> None:
    for verb in (xdlc.load, xdlc.convert):
        with pytest.raises(StorageError):
            verb(tmp_path / "none")


def test_sections_of_a_model(tmp_path: Path) -> None:
    from tests.section_models import feeds_of, residual
    from xdlc.errors import ContainerError
    from xdlc.prepare import hta

    model = residual()
    prepared = hta.prepare(model, "13-13").model
    prepared.save(tmp_path / "m.dlc")
    feeds = feeds_of(model)
    expected = xdlc.run(model, feeds, native=True)
    for source in (prepared, tmp_path / "m.dlc"):
        found = xdlc.run(source, feeds, "aip", native=True)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    with pytest.raises(UsageError, match="sections has no option 'thread'"):
        xdlc.run(prepared, feeds, "aip", thread=2)
    with pytest.raises(ContainerError, match="holds no AIP record"):
        xdlc.run(model, feeds, "aip")
