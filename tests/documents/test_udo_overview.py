"""The vendor's overview of UDOs: its templates and statements, tried."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import xdlc
from tests.cli.test_udo_config import invoke
from tests.documents.test_opdef_schema import OPDEF, document, written
from tests.runtime.udo.conftest import PYTHON, SAMPLE
from tests.runtime.udo.udo_graphs import custom_graph
from tests.support.compilers import build_library, needs_cc
from tests.support.custom_ops import onnx_model
from xdlc.cli.main import main as xdlc_main
from xdlc.errors import BackendError, UnsupportedOp
from xdlc.ir import Graph, f32
from xdlc.opdefs import read_valid
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.udo.config import inspect, read_config
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


def line(text: str, code: int = 0) -> str:
    """Run a command line of the vendor's tools."""
    return invoke(*text.split(), code=code, tool=xdlc_main).output


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
    line(f"snpe-udo-package-generator -p {path} -o {tmp_path / 'out'}")
    folders = {one.name for one in (tmp_path / "out/MyUdoPackage/jni/src").iterdir()}
    assert {"CPU", "GPU", "DSP_V66", "DSP_V68", "DSP_V69", "DSP_V73", "reg"} <= folders


@pytest.mark.parametrize("key", ["UdoPackage_7", ""])
def test_key_of_a_package_may_be_anything(tmp_path: Path, key: str):
    path = tmp_path / "c.json"
    path.write_text(BLUR.replace("UdoPackage_0", key).replace("per_core_data_types", "per_core_data_type"))
    assert read_config(path).collections[0].opdefs[0].name == "Blur"


def test_data_types_of_the_list(tmp_path: Path):
    """A scalar may be a STRING; a tensor may not (docs/guides/udo-config.md)."""
    path = tmp_path / "c.json"
    for name in "FLOAT_16 FLOAT_32 FIXED_4 FIXED_8 FIXED_16 UINT_8 UINT_16 UINT_32".split():
        path.write_text(BLUR.replace('"data_type": "FLOAT_32"', f'"data_type": "{name}"'))
        assert inspect([path]).problems == ()
    path.write_text(BLUR.replace('"INT_32"', '"STRING"'))
    assert inspect([path]).problems == ()
    path.write_text(BLUR.replace('"data_type": "FLOAT_32"', '"data_type": "STRING"', 1))
    assert len(inspect([path]).problems) == 1


def test_xml_with_names_of_snpe(tmp_path: Path):
    text = OPDEF.replace("QNN_DATATYPE_", "").replace(">HTP<", ">DSP_V68<")
    assert read_valid(written(tmp_path, document(text))).opdefs[0].backends == ("DSP_V68",)


def test_several_packages_in_one_file(tmp_path: Path):
    first = json.loads(BLUR.replace(",\n    ]", "\n    ]"))["UdoPackage_0"]
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"a": first, "b": {**first, "UDO_PACKAGE_NAME": "Other"}}))
    assert [held.package for held in read_config(path).collections] == ["MyUdoPackage", "Other"]


# ---------------------------------------------------------------------- workflow


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with a model of an operator Scale, its kernel and a sample."""
    monkeypatch.chdir(tmp_path)
    float_ = (np.float32, (1, 2, 4, 4))
    nodes = [
        helper.make_node("Scale", ["x"], ["s"], "scale", domain="my", factor=3.0),
        helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    imports = (("", 17), ("my", 1))
    onnx.save(onnx_model(nodes, {"x": float_}, {"y": float_}, infos={"s": float_}, imports=imports), "m.onnx")
    tensors = {"data_type": "FLOAT_32"}
    scale = {"type": "Scale", "inputs": [tensors], "outputs": [tensors], "core_types": ["CPU"]}
    scale["scalar_params"] = [{"name": "factor", "data_type": "FLOAT_32"}]
    Path("c.json").write_text(json.dumps({"": {"Operators": [scale], "UDO_PACKAGE_NAME": "Math"}}))
    Path("kernels.py").write_text(PYTHON)
    np.linspace(-1, 1, 32, dtype=np.float32).tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    line("snpe-onnx-to-dlc -i m.onnx -o m.dlc --udo_config_paths c.json")
    return tmp_path


def test_the_same_configuration_generates_and_converts(network: Path):
    """A package is generated, its operator converts, and the info lists it."""
    assert "--gen_cmakelists" in line("snpe-udo-package-generator -p c.json -o out --gen_cmakelists")
    assert (network / "out/Math/CMakeLists.txt").is_file()
    shown = line("snpe-dlc-info -i m.dlc")
    assert all(word in shown for word in ("Math", "Scale", "factor"))


def test_quantizing_needs_the_kernel_of_the_cpu(network: Path):
    text = "snpe-dlc-quant --input_dlc m.dlc --input_list list.txt --output_dlc q.dlc"
    assert "--udo-package-path" in line(text, code=UnsupportedOp.exit_code)
    line(f"{text} --udo_package_path kernels.py")
    assert (network / "q.dlc").is_file()


def test_application_registers_packages_and_runs_instances_at_once(network: Path):
    text = "snpe-net-run --container m.dlc --input_list list.txt --udo_package_path kernels.py"
    line(f"{text} --platform_options unsignedPD:ON")
    x = np.fromfile("x.raw", np.float32).reshape(1, 2, 4, 4)
    paths = {"udo_package_path": network / "kernels.py"}
    with xdlc.Session("m.dlc", **paths) as one, xdlc.Session("m.dlc", **paths) as other:
        runs = [session.submit({"x": x * number}) for number in range(1, 9) for session in (one, other)]
        for index, future in enumerate(runs):
            (found,) = future.result(60).values()
            np.testing.assert_allclose(found, np.maximum(3 * x * (index // 2 + 1), 0), rtol=1e-6)


# ---------------------------------------------------------------------- packages


@needs_cc
def test_registration_and_implementation_in_one_library(tmp_path: Path):
    """It is loaded under its own name, whatever library its registration names."""
    both = ("-DREGISTRATION", "-DIMPLEMENTATION")
    library = build_library(SAMPLE, tmp_path / "libAnything.so", *both)
    np.testing.assert_array_equal(run(custom_graph("Scale", {"factor": f32(2)}), library)[0], [2, 4, 6])


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
