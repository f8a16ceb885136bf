"""Packages as they are written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.udo.generator.configs import op, operand, package, unary
from xdlc.errors import ModelError, UsageError, XdlcError, each_problem
from xdlc.opdefs.loader import read_collection
from xdlc.opdefs.xml_reader import read_valid
from xdlc.runtime.interfaces import stand_ins
from xdlc.udo.generator import generate, generate_files

CORES = ("CPU", "GPU", "DSP_V66", "DSP_V68")

CPU_TREE = """
.xdlc-udo.json
CMakeLists.txt
Makefile
README.md
common.mk
config/SmallOpDef.xml
config/small.xml
include/SmallDefinitions.hpp
include/utils/IUdoOpDefinition.hpp
include/utils/QnnInterface.hpp
include/utils/SnpeUdoTypes.hpp
include/utils/UdoMacros.hpp
include/utils/UdoPackage.hpp
include/utils/UdoUtil.hpp
jni/Android.mk
jni/Application.mk
jni/src/CPU/Makefile
jni/src/CPU/include/CpuCustomOpPackage.hpp
jni/src/CPU/include/ops/Free.hpp
jni/src/CPU/include/ops/Twice.hpp
jni/src/CPU/include/utils/CpuTensors.hpp
jni/src/CPU/makefiles/Android.mk
jni/src/CPU/makefiles/Application.mk
jni/src/CPU/makefiles/Makefile.linux-x86_64
jni/src/CPU/src/CpuCustomOpPackage.cpp
jni/src/CPU/src/SmallInterface.cpp
jni/src/CPU/src/bindings/Free.hpp
jni/src/CPU/src/bindings/Twice.hpp
jni/src/CPU/src/ops/Free.cpp
jni/src/CPU/src/ops/Twice.cpp
jni/src/CPU/src/utils/CpuTensors.cpp
jni/src/reg/Makefile
jni/src/reg/SmallRegLib.cpp
jni/src/reg/makefiles/Android.mk
jni/src/reg/makefiles/Application.mk
jni/src/reg/makefiles/Makefile.linux-x86_64
jni/src/reg/shapes/Free.cpp
jni/src/utils/SmallDefinitions.cpp
jni/src/utils/SnpeUdoTypes.cpp
jni/src/utils/UdoUtil.cpp
jni/src/utils/implementation/QnnInterface.cpp
jni/src/utils/implementation/SnpeUdoImpl.cpp
jni/src/utils/implementation/UdoPackage.cpp
python/Small/kernels.py
python/Small/shapes.py
tests/test_Small.py
"""

FREE = op("Free", operand("Input", "in[0]"), operand("Output", "out[0]"))


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.xml"
    path.write_text(package("Small", unary("Twice"), FREE))
    return path


def test_the_tree_of_a_package_for_the_cpu(config: Path, tmp_path: Path) -> None:
    generate_files([config], tmp_path / "out")
    files = files_of(tmp_path / "out" / "Small")
    headers = [f"include/standin/{path}" for path in stand_ins()]
    assert files == sorted([*CPU_TREE.split(), *headers])


def test_only_cores_that_the_configuration_names_are_there(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(package("Some", unary("One", backends=CORES), unary("Two", backends=("GPU",))))
    packages = generate_files([config], tmp_path)
    sources = tmp_path / "Some/jni/src"
    assert sorted(path.name for path in sources.iterdir()) == sorted((*CORES, "reg", "utils"))
    assert [path.name for path in (sources / "CPU/src/ops").iterdir()] == ["One.cpp"]
    assert sorted(path.stem for path in (sources / "GPU/src/ops").iterdir()) == ["One", "Two"]
    libraries = {
        core.name: [library.file for library in core.libraries] for core in packages[0].package.cores
    }
    assert libraries["DSP_V66"] == ["libUdoSomeOneImplDsp.so"]
    assert libraries["DSP_V68"] == ["libUdoSomeImplDsp.so"]


def test_an_old_dsp_has_a_library_for_each_op_and_the_others_one(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(package("P", unary("A", backends=CORES), unary("B", backends=CORES)))
    made = generate_files([config], tmp_path)
    found = {core.name: [library.ops for library in core.libraries] for core in made[0].package.cores}
    assert found == {
        "CPU": [("A", "B")],
        "GPU": [("A", "B")],
        "DSP_V66": [("A",), ("B",)],
        "DSP_V68": [("A", "B")],
    }


def test_a_wide_name_of_a_backend_counts_where_no_narrower_one_is(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    supported = "<SupportedOps><OpName>A</OpName></SupportedOps>"
    more = f'<SupplementalOpDefList Backend="DSP">{supported}</SupplementalOpDefList>'
    config.write_text(
        package("P", unary("A", backends=("DSP_V73",)), unary("B", backends=("HTP",)), more=more)
    )
    (made,) = generate_files([config], tmp_path)
    assert {op.type: op.cores for op in made.package.ops} == {"A": ("DSP_V73",), "B": ("DSP_V68",)}


def test_backends_without_libraries_are_told(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(package("P", unary("A", backends=("CPU", "LPAI"))))
    assert generate_files([config], tmp_path)[0].ignored == ("LPAI",)
    config.write_text(package("Q", unary("A", backends=("LPAI",))))
    with pytest.raises(
        ModelError, match="no library can implement the operation: the operation names only LPAI"
    ):
        generate_files([config], tmp_path)
    assert not (tmp_path / "Q").exists()


def test_the_configuration_is_kept_as_given_and_in_canonical_form(config: Path, tmp_path: Path) -> None:
    second_config = tmp_path / "other" / "small.xml"
    second_config.parent.mkdir()
    second_config.write_text(package("Small", unary("Third")))
    (folder,) = [
        made.outcome.folder for made in generate_files([config, second_config, config], tmp_path / "out")
    ]
    assert (folder / "config/small.xml").read_bytes() == config.read_bytes()
    assert (folder / "config/2_small.xml").read_bytes() == second_config.read_bytes()
    assert [op.name for op in read_valid(folder / "config/SmallOpDef.xml").opdefs] == [
        "Twice",
        "Free",
        "Third",
    ]


def test_a_json_configuration_with_several_packages(tmp_path: Path) -> None:
    def operator(type: str) -> dict[str, object]:
        tensor = {"per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_8"}, "tensor_layout": "NHWC"}
        return {
            "type": type,
            "inputs": [{"name": "in", **tensor}],
            "outputs": [{"name": "out", **tensor}],
            "scalar_params": [{"name": "scale", "data_type": "FLOAT_32"}],
            "core_types": ["CPU", "DSP"],
            "dsp_arch_types": ["v66", "v68"],
        }

    packages = {
        f"UdoPackage_{number}": {"Operators": [operator(f"Op{number}")], "UDO_PACKAGE_NAME": f"Pack{number}"}
        for number in range(2)
    }
    config = tmp_path / "both.json"
    config.write_text(json.dumps(packages))
    made = generate_files([config], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["Pack0", "Pack1"]
    (first, _) = made
    assert first.package.ops[0].cores == ("CPU", "DSP_V66", "DSP_V68")
    types = first.package.ops[0].inputs[0].types
    assert [repr(dtype) for each in types.values() for dtype in each] == ["float32", "uint8", "uint8"]
    assert (tmp_path / "out/Pack1/config/both.json").read_bytes() == config.read_bytes()


def test_the_same_definitions_give_the_same_files(config: Path, tmp_path: Path) -> None:
    collection = read_valid(config)
    (one,), (other,) = generate([collection], tmp_path / "a"), generate([collection], tmp_path / "b")
    assert files_of(one) == files_of(other)
    assert all((one / path).read_bytes() == (other / path).read_bytes() for path in files_of(one))
    assert not any(str(tmp_path).encode() in (one / path).read_bytes() for path in files_of(one))


def test_thirty_ops_in_a_package(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(package("Many", *(unary(f"Op{number}") for number in range(30))))
    (folder,) = generate([read_valid(config)], tmp_path)
    assert len(list((folder / "jni/src/CPU/src/ops").iterdir())) == 30


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (package("Small").replace("</OpDefList>", ""), "not well-formed"),
        (package("../evil", unary("A")), "package name"),
        (package("a" * 101, unary("A")), "101 characters; at most 100"),
        (package("Small", unary("a/b")), "op name"),
        (package("Small", unary("A"), unary("A")), "repeated"),
        (
            package("Small", op("A", operand("Input", "x", "BACKEND_SPECIFIC"), operand("Output", "y"))),
            "BACKEND_SPECIFIC",
        ),
    ],
)  # fmt: skip
def test_a_bad_configuration_writes_nothing(tmp_path: Path, content: str, problem: str) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text(package("Good", unary("A")))
    bad.write_text(content)
    with pytest.raises(XdlcError, match=problem):
        generate_files([good, bad], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_is_not_overwritten(config: Path, tmp_path: Path) -> None:
    generate_files([config], tmp_path / "out")
    with pytest.raises(UsageError, match="exists"):
        generate_files([config], tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["Small"]


def test_a_cpu_gets_quantized_activations_as_reals(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    static = "<IsStaticTensor>true</IsStaticTensor>"
    mixed = op(
        "Mixed",
        operand("Input", "x", "UINT_8,UINT_16,FLOAT_32"),
        operand("Input", "labels", "UINT_8"),
        operand("Input", "weight", "FLOAT_32,UINT_8", more=static),
        operand("Output", "y", "UFIXED_POINT_8,UINT_8"),
        backends=("CPU", "DSP_V66"),
    )
    x, y = operand("Input", "x", "UINT_8,FLOAT_32"), operand("Output", "y", "FLOAT_32,UINT_8")
    config.write_text(package("Small", mixed, op("Bytes", x, y, backends=("CPU",))))
    (folder,) = generate([read_valid(config)], tmp_path / "out")
    no_dsp = (folder / "jni/src/CPU/include/ops/Bytes.hpp").read_text()
    assert "udo::AnyInput x;" in no_dsp
    assert "udo::AnyOutput y;" in no_dsp
    header = (folder / "jni/src/CPU/include/ops/Mixed.hpp").read_text()
    fields = [
        line.split(";")[0].strip() for line in header.splitlines() if " udo::" in line and ";  //" in line
    ]
    assert fields == [
        "udo::Input<float> x",
        "udo::Input<std::uint8_t> labels",
        "udo::AnyInput weight",
        "udo::Output<float> y",
    ]
    listed = (folder / "jni/src/utils/SmallDefinitions.cpp").read_text()
    assert "types_1_input_0_Mixed[] = {QNN_DATATYPE_FLOAT_32};" in listed
    assert (
        "types_2_input_0_Mixed[] = {QNN_DATATYPE_UINT_8, QNN_DATATYPE_UINT_16, QNN_DATATYPE_FLOAT_32};"
        in listed
    )


def test_names_that_would_be_alike_get_numbers(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    inputs = [operand("Input", name) for name in ("in[0]", "in_0", "class")]
    config.write_text(package("P", op("A", *inputs, operand("Output", "y"))))
    (folder,) = generate([read_collection(config)], tmp_path)
    header = (folder / "jni/src/CPU/include/ops/A.hpp").read_text()
    assert "in_0;  // in[0]" in header
    assert "in_0_2;  // in_0" in header
    assert "class_;  // class" in header


def test_what_libraries_cannot_have_is_told_with_file_and_line(tmp_path: Path) -> None:
    config = tmp_path / "wide.xml"
    wide = op("Wide", operand("Input", "x", "QNN_DATATYPE_BFLOAT_16"), operand("Output", "y"))
    config.write_text(package("Odd", unary("A"), "\n" + unary("L" * 101), "\n" + wide))
    with pytest.raises(XdlcError) as caught:
        generate_files([config], tmp_path / "out")
    first, second = each_problem(caught.value)
    assert str(first).startswith(f"{config}:2: the operation 'LLLLLLLLLLLLLLLLLLLL'... has 101")
    assert str(second).startswith(f"{config}:3: operation Wide: libraries do not support data type bfloat16")
    assert not (tmp_path / "out").exists()
