"""Packages for Windows and ARM Linux: no warnings; those of Windows run in wine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.udo.generator import two_ops
from tests.udo.generator.configs import package, unary
from tests.udo.generator.device_package import OPS, generated

WINDOWS, ARM = "x86_64-w64-mingw32-g++-posix", "aarch64-linux-gnu-g++"
pytestmark = [
    pytest.mark.cross,
    pytest.mark.skipif(
        not all(map(shutil.which, (WINDOWS, ARM, "make", "cmake"))), reason="needs cmake and cross compilers"
    ),
]
DSP_ONLY = package("Far", unary("Blur", backends=("DSP_V73",)))


def make(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["make", "CXXFLAGS=-O0", *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "warning" not in said.lower()
    return said


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = two_ops.generated(tmp_path_factory.mktemp("with a space"))
    two_ops.fill(folder)
    make(folder, "all_windows")
    return folder


def test_the_registration_library_names_the_windows_file(filled: Path) -> None:
    libs = filled / "libs/windows-x86_64"
    assert b"libUdoTwoOpsImplCpu.dll" in (libs / "libUdoTwoOpsReg.dll").read_bytes()


def test_exports_on_windows(filled: Path) -> None:
    listed = subprocess.run(
        ["x86_64-w64-mingw32-objdump", "-p", "libUdoTwoOpsReg.dll"],
        cwd=filled / "libs/windows-x86_64",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    table = listed.split("[Ordinal/Name Pointer] Table")[1].split("\n\n")[0]
    entries = {line.split()[-1] for line in table.splitlines() if "]" in line}
    assert entries == {
        *(f"SnpeUdo_{name}" for name in ("getRegInfo", "getVersion", "initRegLibrary")),
        *(f"SnpeUdo_{name}" for name in ("terminateRegLibrary", "validateOperation")),
        "BlendDataTypeInference",
        "BlendShapeInference",
    }


def test_linux_on_arm(filled: Path) -> None:
    make(filled, "all_linux_aarch64")
    libs = sorted((filled / "libs/aarch64_linux_gcc").glob("*.so"))
    assert [path.name for path in libs] == ["libUdoTwoOpsImplCpu.so", "libUdoTwoOpsReg.so"]
    assert {int.from_bytes(path.read_bytes()[18:20], "little") for path in libs} == {0xB7}


@pytest.mark.parametrize("text", [OPS, DSP_ONLY], ids=["all cores", "no CPU"])
def test_other_packages(text: str, tmp_path: Path) -> None:
    folder = generated(text, tmp_path).outcome.folder
    make(folder, "all_windows")
    make(folder, "all_linux_aarch64")
    name = f"libUdo{folder.name}Reg"
    assert (folder / "libs/windows-x86_64" / f"{name}.dll").is_file()
    assert (folder / "libs/aarch64_linux_gcc" / f"{name}.so").is_file()
