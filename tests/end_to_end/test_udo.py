"""A model with two user-defined operations, from conversion to execution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from tests.runtime.udo.conftest import PYTHON, SAMPLE
from tests.support.compilers import build_library, needs_cc
from tests.support.custom_ops import onnx_model
from xdlc import api
from xdlc.cli.tools.info import main as info
from xdlc.cli.tools.onnx_to_dlc import main as onnx_to_dlc
from xdlc.cli.tools.quantize import main as quant
from xdlc.ir import Model, Op
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.runtime.cpu import CpuSession

PER_CORE = {"CPU": "FLOAT_32", "DSP": "UINT_8"}
CONFIG = {
    "UdoPackage_0": {
        "Operators": [
            {
                "type": "Scale",
                "inputs": [{"name": "x", "per_core_data_types": PER_CORE}],
                "outputs": [{"name": "y", "per_core_data_types": PER_CORE}],
                "scalar_params": [{"name": "factor", "data_type": "FLOAT_32"}],
                "core_types": ["CPU", "DSP"],
                "dsp_arch_types": ["v66", "v68"],
            },
            {
                "type": "Sum",
                "inputs": [
                    {"name": "a", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_16"}},
                    {"name": "b", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_16"}},
                ],
                "outputs": [{"name": "y", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_16"}}],
                "core_types": ["CPU", "DSP"],
                "dsp_arch_types": ["v68"],
            },
        ],
        "UDO_PACKAGE_NAME": "Math",
    }
}
SHAPE = (1, 4, 6, 6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model, its configuration, kernels and samples."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 4, 3, 3)).astype("f4") / 6}
    nodes = [
        helper.make_node("Scale", ["x"], ["s"], "scale", domain="my", factor=3.0),
        helper.make_node("Conv", ["s", "w"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Sum", ["r", "s"], ["y"], "sum", domain="my"),
    ]
    float_ = (np.float32, SHAPE)
    infos = dict.fromkeys("scr", float_)
    imports = (("", 17), ("my", 1))
    model = onnx_model(nodes, {"x": float_}, {"y": float_}, weights, infos=infos, imports=imports)
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "math.json").write_text(json.dumps(CONFIG))
    (tmp_path / "math_kernels.py").write_text(PYTHON)
    lines = []
    for index in range(8):
        path = tmp_path / f"{index}.npy"
        np.save(path, rng.standard_normal(SHAPE).astype("f4"))
        lines.append(str(path))
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def invoke(tool: Any, *arguments: object) -> str:
    done = CliRunner().invoke(tool, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def convert(folder: Path) -> Path:
    dlc = folder / "m.dlc"
    invoke(onnx_to_dlc, "-i", folder / "m.onnx", "-o", dlc, "--udo_config_paths", folder / "math.json")
    return dlc


def quantized(folder: Path, kernels: Path, *flags: object, tool: Any = quant) -> Path:
    dlc = folder / f"q_{kernels.stem}.dlc"
    given = ("-i", convert(folder), "-o", dlc, "--input_list", folder / "list.txt")
    said = invoke(tool, *given, "--udo_package_path", kernels, *flags)
    assert "calibrated with 8 sample(s)" in said
    return dlc


def ops(model: Model) -> dict[str, Op]:
    return {op.type: op for op in model.main.ops}


def outputs(folder: Path, dlc: Path, kernels: Path, *, native: bool = False) -> list[np.ndarray]:
    model = api.executable(dlc)
    with api.kernels(model, udo_package_path=kernels) as held:
        session = CpuSession(model, kernels=held)
        samples = [np.load(folder / f"{index}.npy") for index in range(8)]
        return [session.run({"x": sample}, native=native)["y"] for sample in samples]


def noise(wanted: list[np.ndarray], found: list[np.ndarray]) -> float:
    one, other = np.stack(wanted).astype("f8"), np.stack(found)
    return float(10 * np.log10((one**2).sum() / ((one - other) ** 2).sum()))


def test_python_kernels(folder: Path) -> None:
    kernels = folder / "math_kernels.py"
    dlc = quantized(folder, kernels)
    model = api.load(dlc)
    found = ops(model)
    assert [t.dtype for t in (*found["Scale"].inputs, *found["Scale"].outputs)] == [UFIXED8] * 2
    assert [t.dtype for t in (*found["Sum"].inputs, *found["Sum"].outputs)] == [UFIXED16] * 3
    assert model.main.outputs[0].dtype is UFIXED16
    floats = outputs(folder, folder / "m.dlc", kernels)
    assert noise(floats, outputs(folder, dlc, kernels)) > 30
    stored = outputs(folder, dlc, kernels, native=True)
    assert {array.dtype.name for array in stored} == {"uint16"}
    shown = json.loads(invoke(info, "--json", dlc))
    (package,) = shown["packages"]
    assert {held["type"]: (held["count"], held["dsp_archs"]) for held in package["types"]} == {
        "Scale": (1, ["v66", "v68"]),
        "Sum": (1, ["v68"]),
    }
    text = invoke(info, dlc)
    assert "CPU float32; DSP uint16" in text


@needs_cc
def test_a_library_and_python_kernels_give_the_same(folder: Path) -> None:
    both = ("-DREGISTRATION", "-DIMPLEMENTATION", '-DLIBRARY="libBoth.so"')
    library = build_library(SAMPLE, folder / "libBoth.so", *both)
    kernels = folder / "math_kernels.py"
    by_python, by_library = quantized(folder, kernels), quantized(folder, library)
    for first, second in zip(api.load(by_python).main.ops, api.load(by_library).main.ops, strict=True):
        assert [t.encoding for t in first.outputs] == [t.encoding for t in second.outputs]
    for first, second in zip(
        outputs(folder, by_python, kernels, native=True),
        outputs(folder, by_library, library, native=True),
        strict=True,
    ):
        assert np.array_equal(first, second)


def test_without_kernels_nothing_is_written(folder: Path) -> None:
    dlc, target = convert(folder), folder / "q.dlc"
    arguments = ["-i", dlc, "-o", target, "--input_list", folder / "list.txt"]
    done = CliRunner().invoke(quant, list(map(str, arguments)))
    assert done.exit_code != 0
    assert "Scale" in done.output
    assert "Sum" in done.output
    assert "--udo-package-path" in done.output
    assert not target.exists()
