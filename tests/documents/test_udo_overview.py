"""The vendor's overview of UDOs: its templates and statements, tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_udo_config import invoke
from tests.runtime.udo.conftest import PYTHON, SAMPLE
from tests.runtime.udo.udo_graphs import custom_graph
from tests.support.compilers import build_library, needs_cc
from xdlc.cli.main import main as xdlc_main
from xdlc.errors import BackendError, UnsupportedOp
from xdlc.ir import Graph, f32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.udo.config import read_config
from xdlc.udo.generator import generate_files

PER_CORE = '"per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}'
TEMPLATE = f"""{{
 "UdoPackage_0":
 {{
  "Operators": [
   {{
    "type": "",
    "inputs": [
     {{"name": "", {PER_CORE}, "static": true, "tensor_layout": "NHWC"}},
     {{"name": "", "data_type": "FLOAT_32", "static": true, "tensor_layout": "NHWC"}},
    ],
    "outputs": [
     {{"name": "", {PER_CORE}}},
     {{"name": "", "data_type": "FLOAT_32"}}
    ],
    "scalar_params": [{{"name": "scalar_param_1", "data_type": "INT_32"}}],
    "tensor_params": [
     {{"name": "tensor_param_1", "data_type": "FLOAT_32", "tensor_layout": "NHWC"}},
    ],
    "core_types": ["CPU", "GPU", "DSP"],
    "dsp_arch_types": ["v66", "v68", "v69", "v73"]
   }}
  ],
  "UDO_PACKAGE_NAME": "MyUdoPackage"
 }}
}}
"""
BLUR = TEMPLATE.replace('"type": ""', '"type": "Blur"')


def run(graph: Graph, path: Path) -> np.ndarray:
    with Kernels(path) as kernels:
        return CpuSession(graph, kernels=kernels).run({"x0": np.float32([[1, 2, 3], [4, 5, 6]])})["y"]


def test_json_template_as_printed(tmp_path: Path):
    """Extra commas and an empty type are notices; unnamed tensors go by position."""
    path = tmp_path / "template.json"
    path.write_text(TEMPLATE)
    config = read_config(path)
    (op,) = config.collections[0].opdefs
    assert (op.package, op.name) == ("MyUdoPackage", "Operator_0")
    assert [tensor.name for tensor in (*op.inputs, *op.outputs)] == ["in[0]", "in[1]", "out[0]", "out[1]"]
    assert op.backends == ("CPU", "GPU", "DSP_V66", "DSP_V68", "DSP_V69", "DSP_V73")
    assert len([notice for notice in config.notices if "is empty" in notice or "commas" in notice]) == 2
    words = ("snpe-udo-package-generator", "-p", path, "-o", tmp_path / "out")
    invoke(*words, tool=xdlc_main)
    folders = {one.name for one in (tmp_path / "out/MyUdoPackage/jni/src").iterdir()}
    assert {"CPU", "GPU", "DSP_V66", "DSP_V68", "DSP_V69", "DSP_V73", "reg"} <= folders


@needs_cc
def test_package_with_the_suffix_of_a_backend(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """MathCpu's kernels, in C and Python, run Math and MathHtp, but not Maths."""
    flags = ("-DREGISTRATION", "-DIMPLEMENTATION", '-DPACKAGE="MathCpu"')
    library = build_library(SAMPLE, tmp_path / "libOne.so", *flags)
    (tmp_path / "one.py").write_text(PYTHON.replace('"Math"', '"MathCpu"'))
    (tmp_path / "two.py").write_text(PYTHON.replace('"Math"', '"Maths"'))
    for package in ("Math", "MathHtp"):
        graph = custom_graph("Scale", {"factor": f32(2)}, package=package)
        np.testing.assert_array_equal(run(graph, library), run(graph, tmp_path / "one.py"))
    assert all(
        "package MathCpu runs the ops of package Math" in record.getMessage() for record in caplog.records
    )
    assert len(caplog.records) == 4
    with pytest.raises(UnsupportedOp):
        run(graph, tmp_path / "two.py")


def test_one_collection_several_packages(tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_text(BLUR)
    generated = generate_files([path], tmp_path / "out", per_backend=True)
    assert [(entry.package.name, [core.name for core in entry.package.cores]) for entry in generated] == [
        ("MyUdoPackageCpu", ["CPU"]),
        ("MyUdoPackageGpu", ["GPU"]),
        ("MyUdoPackageDsp", ["DSP_V66"]),
        ("MyUdoPackageHtp", ["DSP_V68", "DSP_V69", "DSP_V73"]),
    ]
    folder = tmp_path / "out/MyUdoPackageHtp"
    again = generate_files([folder / "config/MyUdoPackageHtpOpDef.xml"], tmp_path / "again")
    assert [entry.package for entry in again] == [generated[3].package]
    assert not (folder / "jni/src/CPU").exists()


def test_release_of_the_sdk(tmp_path: Path):
    """Libraries for v68 and later work with the SDK's release that they are built for."""
    texts = {
        "package.so": b"\x7fELF..xdlc_udo_sdk_release=v2.31.0.250130\0",
        "backend.so": b"\0v2.31.0.250130\0",
        "newer.so": b"\0v2.51.0.260929181845\0",
        "cpu.so": b"\x7fELF",
        "empty.so": b"",
    }
    paths = {name: tmp_path / name for name in texts}
    for name, content in texts.items():
        paths[name].write_bytes(content)
    twice = [paths["package.so"], paths["package.so"]]
    done = invoke("sdk", *twice, paths["backend.so"], paths["cpu.so"], "--release", "2.31")
    assert done.output.count("v2.31.0.250130\n") == 3
    for words in ((paths["newer.so"],), ("--release", "2.51"), ("--release", "v2.3")):
        done = invoke("sdk", paths["package.so"], *words, code=BackendError.exit_code)
        assert "SDK release v2." in done.output
    invoke("sdk", paths["cpu.so"], paths["empty.so"], code=BackendError.exit_code)


def test_library_for_windows_is_refused_by_name(tmp_path: Path):
    library = tmp_path / "UdoMath.dll"
    library.write_bytes(b"MZ\x90\0" + bytes(100))
    with pytest.raises(BackendError, match="for Windows"):
        run(custom_graph("Scale"), library)
