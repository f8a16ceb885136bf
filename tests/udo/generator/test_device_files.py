"""Packages for GPU, DSP and HTP, compiled with declarations of our own, and run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.compilers import needs_cc
from tests.udo.generator.device_package import (
    OPS,
    SHIMS,
    WARNINGS,
    build,
    fill_dsp,
    fill_gpu,
    generated,
    run,
)
from xdlc.udo.sdk_release import release_of


def standin(package: Path) -> tuple[str, ...]:
    return "-isystem", str(package / "include/standin")


SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is generated."""
    return generated(OPS, tmp_path_factory.mktemp("devices")).outcome.folder


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with kernels in it."""
    folder = generated(OPS, tmp_path_factory.mktemp("filled")).outcome.folder
    fill_gpu(folder)
    fill_dsp(folder)
    return folder


def files(package: Path, core: str) -> set[str]:
    folder = package / "jni/src" / core
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_each_core_has_its_files(package: Path) -> None:
    assert files(package, "GPU") == {
        "Makefile",
        "include/GpuCustomOpPackage.hpp",
        "makefiles/Android.mk",
        "makefiles/Application.mk",
        "makefiles/Makefile.linux-x86_64",
        "src/EdgeInterface.cpp",
        "src/GpuCustomOpPackage.cpp",
        "src/ops/Scale.cpp",
        "src/ops/half.cpp",
    }
    dsp = {"Makefile", "include/UdoDsp.h", "src/UdoDsp.c", "src/ops/Scale.c", "src/ops/half.c"}
    assert files(package, "DSP_V65") == dsp
    htp = {"Makefile", "src/EdgeInterface.cpp", *(f"src/ops/{op}.cpp" for op in ("Pick", "Scale", "half"))}
    assert files(package, "DSP_V68") == htp


def test_dsps_of_a_group_share_the_source_of_the_oldest(package: Path) -> None:
    assert files(package, "DSP_V66") == files(package, "DSP_V73") == {"Makefile"}


def test_generated_kernels_say_what_they_get(package: Path) -> None:
    for path in ("GPU/src/ops/Scale.cpp", "DSP_V65/src/ops/Scale.c", "DSP_V68/src/ops/Scale.cpp"):
        text = (package / "jni/src" / path).read_text()
        assert " * input 1: weight: float32; rank 1; data of the model\n" in text
        assert " * input 2: bias: float32; rank 1; optional\n" in text
        assert " * parameter mode: one of hard, soft; default soft\n" in text
    assert " * input 0: x: uint8; rank 4\n" in (package / "jni/src/DSP_V68/src/ops/Scale.cpp").read_text()


# ---------------------------------------------------------------- GPU


@pytest.fixture(scope="module")
def gpu(package: Path, filled: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return programs that run the GPU library on our OpenCL: generated, filled."""
    folder = tmp_path_factory.mktemp("gpu")
    source = package / "jni/src"
    include = (f"-I{SHIMS}", f"-I{package / 'include'}", f"-I{source / 'GPU/include'}", *standin(package))
    parts = ("GPU/src/*.cpp", "utils/*.cpp", "utils/implementation/*.cpp")
    cpp = [*(path for part in parts for path in source.glob(part)), source / "GPU/src/ops/half.cpp"]
    c = [SHIMS / "drive_device.c", SHIMS / "fake_opencl.c"]
    build(["gcc", "-std=gnu11", "-DON_GPU", *SANITIZE, *WARNINGS, *include, "-c", *c], folder)
    build(["g++", "-std=c++17", *SANITIZE, *WARNINGS, "-pedantic", *include, "-c", *cpp], folder)
    shared = sorted(folder.glob("*.o"))
    programs = {}
    for name, root in (("generated", package), ("filled", filled)):
        programs[name] = folder / name
        op = root / "jni/src/GPU/src/ops/Scale.cpp"
        flags = ("-std=c++17", *SANITIZE, *WARNINGS, "-pedantic", *include)
        build(["g++", *flags, op, *shared, "-o", programs[name]], folder)
    return programs


@pytest.mark.slow
@needs_cc
def test_a_filled_gpu_library_computes_without_a_leak(gpu: dict[str, Path]) -> None:
    done = run([gpu["filled"]], gpu["filled"].parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ok\n", b"")


@pytest.mark.slow
@needs_cc
def test_what_the_opencl_compiler_says_is_in_the_message(gpu: dict[str, Path]) -> None:
    env = {**os.environ, "FAKE_BUILD_FAILS": "1", "ASAN_OPTIONS": "detect_leaks=0"}
    done = run([gpu["filled"]], gpu["filled"].parent, env)
    assert b"the kernel does not compile:\nline 3: syntax error" in done.stderr


@pytest.mark.slow
@needs_cc
def test_a_gpu_kernel_that_is_not_filled_says_so(gpu: dict[str, Path]) -> None:
    done = run([gpu["generated"]], gpu["generated"].parent)
    assert done.returncode == 1
    assert b"fill the GPU kernel of Scale\n" in done.stderr


# ---------------------------------------------------------------- DSP


def dsp_program(package: Path, folder: Path) -> Path:
    root = package / "jni/src/DSP_V65"
    sources = (SHIMS / "drive_device.c", root / "src/UdoDsp.c", root / "src/ops/Scale.c")
    include = (f"-I{package / 'include'}", f"-I{root / 'include'}", *standin(package))
    command = [
        "gcc",
        "-std=gnu11",
        *SANITIZE,
        *WARNINGS,
        *include,
        *sources,
        "-o",
        folder / "dsp",
    ]
    build(command, folder)
    return folder / "dsp"


@needs_cc
def test_a_filled_dsp_library_computes_with_bytes_and_reals(filled: Path, tmp_path: Path) -> None:
    done = run([dsp_program(filled, tmp_path)], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ok\n", b"")


@needs_cc
def test_a_dsp_kernel_that_is_not_filled_is_unsupported(package: Path, tmp_path: Path) -> None:
    done = run([dsp_program(package, tmp_path)], tmp_path)
    assert done.returncode == 1
    assert b"SnpeUdo_executeOp" in done.stderr


@needs_cc
def test_dsp_libraries_build_here_without_an_sdk(package: Path) -> None:
    build(["make", "-s", "-C", "jni/src/DSP_V66", "x86"], package)
    built = {path.name for path in (package / "libs/x86-64_linux_clang").iterdir()}
    assert built >= {"libUdoEdgeScaleImplDsp.so", "libUdoEdgehalfImplDsp.so"}


def compiles_for_hexagon() -> bool:
    clang = shutil.which("clang")
    return clang is not None and b"hexagon" in run([clang, "--print-targets"], Path.cwd()).stdout


@pytest.mark.skipif(not compiles_for_hexagon(), reason="needs a clang that knows Hexagon")
@pytest.mark.parametrize("source", ["src/UdoDsp.c", "src/ops/Scale.c", "src/ops/half.c"])
def test_dsp_code_compiles_for_hexagon(filled: Path, tmp_path: Path, source: str) -> None:
    root = filled / "jni/src/DSP_V65"
    target = (
        "--target=hexagon",
        "-mv65",
        "-mhvx",
        "-mhvx-length=128B",
        "-G0",
        "-fPIC",
        "-O2",
        "-ffreestanding",
    )
    include = ("-isystem", SHIMS / "hexagon", *standin(filled), f"-I{root / 'include'}")
    flags = ("-std=gnu11", *WARNINGS, "-pedantic", *include)
    build(["clang", *target, *flags, "-c", root / source, "-o", tmp_path / "code.o"], tmp_path)
    assert (tmp_path / "code.o").read_bytes()[18:20] == b"\xa4\x00"  # EM_QDSP6


# ---------------------------------------------------------------- HTP


@pytest.fixture(scope="module")
def htp(package: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the op package's information, compiled with stand-ins for headers."""
    folder = tmp_path_factory.mktemp("htp")
    root = package / "jni/src/DSP_V68/src"
    utils = package / "jni/src/utils"
    shared = ("UdoUtil", "EdgeDefinitions", "implementation/UdoPackage", "implementation/QnnInterface")
    sources = [*root.glob("*.cpp"), *root.glob("ops/*.cpp"), SHIMS / "drive_htp.cpp"]
    sources += [utils / f"{name}.cpp" for name in shared]
    flags = ("-std=c++17", *WARNINGS, "-DTHIS_PKG_NAME=Edge", f"-I{SHIMS}", f"-I{package / 'include'}")
    flags += standin(package)
    build(["g++", *flags, *sources, "-o", folder / "htp"], folder)
    done = run([folder / "htp"], folder)
    assert done.returncode == 0
    assert release_of(folder / "htp") == "stand-in"
    return done.stdout.decode().splitlines()


@needs_cc
def test_texts_of_a_configuration_stay_texts(tmp_path: Path) -> None:
    notes = "end */ #error&#10;#error &quot; ??/ \\</Content><Code>)CLC&quot; */ x</Code></Description>"
    text = OPS.replace("<Name>Scale</Name>", f"<Name>Scale</Name><Description><Content>{notes}", 1)
    text = text.replace("<Enum>hard</Enum>", "<Enum>*/ #error</Enum><Enum>a&quot;b\\</Enum><Enum>case</Enum>")
    text = text.replace('a "text" \\ ?', ')CLC" */ \\ ${{x}} %s é').replace(">0.5<", ">-1e-40<")
    root = generated(text, tmp_path).outcome.folder
    source = root / "jni/src"
    include = [f"-I{SHIMS}", f"-I{root / 'include'}", *standin(root)]
    include += [f"-I{source / core / 'include'}" for core in ("GPU", "DSP_V65")]
    for path in ("GPU/src/ops/Scale.cpp", "DSP_V65/src/ops/Scale.c", "DSP_V68/src/ops/Scale.cpp"):
        compiler = ("gcc", "-std=gnu11") if path.endswith(".c") else ("g++", "-std=c++17")
        build([*compiler, *WARNINGS, *include, "-fsyntax-only", source / path], tmp_path)


@needs_cc
def test_an_op_package_is_for_older_sdks_too(package: Path, tmp_path: Path) -> None:
    source = package / "jni/src/DSP_V68/src/EdgeInterface.cpp"
    flags = (
        "-std=c++17",
        *WARNINGS,
        "-DTHIS_PKG_NAME=Edge",
        "-DSHIM_BEFORE_2_17",
        f"-I{SHIMS}",
        f"-I{package / 'include'}",
        *standin(package),
    )
    build(["g++", *flags, "-fsyntax-only", source], tmp_path)


@needs_cc
def test_an_op_package_has_version_and_operations(htp: list[str]) -> None:
    assert htp[:4] == ["version 1.4", "op Edge::Scale", "op Edge::half", "op Edge::Pick"]


@needs_cc
def test_kernels_are_registered_for_each_type_and_number_of_inputs(htp: list[str]) -> None:
    q, f, h = "QuantUint8Tensor", "PlainFloatTensor", "PlainFloat16Tensor"
    assert [line.removeprefix("kernel ") for line in htp if line.startswith("kernel ")] == [
        f"Pick (Pick_o{outputs}_i{inputs}<{', '.join([q] * (outputs + inputs).count('1'))}>)"
        for outputs in ("1", "11", "10")
        for inputs in ("1", "11", "10", "111", "110", "101", "100")
    ] + [
        f"Scale (Scale_o1_i11<{q}, {q}, {f}>)",
        f"Scale (Scale_o1_i11<{q}, {q}, {h}>)",
        f"Scale (Scale_o1_i111<{q}, {q}, {f}, {f}>)",
        f"Scale (Scale_o1_i111<{q}, {q}, {h}, {h}>)",
        f"Scale (Scale_o1_i110<{q}, {q}, {f}>)",
        f"Scale (Scale_o1_i110<{q}, {q}, {h}>)",
        f"half (halfImpl<{f}, {f}>)",
        f"half (halfImpl<{h}, {h}>)",
    ]


def test_a_tensor_that_is_left_out_of_a_kernel_has_its_place(package: Path) -> None:
    text = (package / "jni/src/DSP_V68/src/ops/Pick.cpp").read_text()
    entry = text[text.index("Pick_o10_i101(") :]
    assert entry.startswith(
        "Pick_o10_i101(Out0 &out0, Tensor &, const In0 &in0, const Tensor &, const In2 &in2)"
    )
    assert "return PickImpl<Out0, Tensor, In0, Tensor, In2>(out0, nullptr, in0, nullptr, &in2);" in entry
    assert '(Pick_o10_i101<QuantUint8Tensor, QuantUint8Tensor, QuantUint8Tensor>), "Pick", GLACIAL' in text
    assert '(Pick_o1_i11<QuantUint8Tensor, QuantUint8Tensor, QuantUint8Tensor>), "Pick", SNAIL' in text


@needs_cc
def test_parameters_have_an_order_and_defaults(htp: list[str]) -> None:
    assert "order Scale mode=1 factor=0.500000 label! table!" in htp


@needs_cc
def test_an_op_package_refuses_what_the_definition_does_not_have(htp: list[str]) -> None:
    assert htp[-12:] == [
        "taken",
        "taken",
        "taken",
        "taken",
        "Scale: expected at least 2 inputs, found 1",
        "input weight of Scale is left out, but has to be there",
        "input x of Pick is left out, but has to be there",
        "input weight of Scale: expected data type FLOAT_32, found UFIXED_POINT_8",
        "Scale: parameter table is missing",
        "Scale has no parameter axis",
        "Scale: expected 1 outputs, found 3",
        "package Edge has no operation Twice",
    ]
