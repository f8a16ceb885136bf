"""Check that QNN's own library registers a generated package of the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compilers import needs_cc, run_cc
from tests.udo.generator import two_ops
from tests.udo.generator.test_cpu_package import LIBS, make, needs_make

HTP = "libQnnHtp.so"
"""The one backend of the wheel that registers packages on x86: it asks no package for what it computes on."""

PACKAGE_NAME = 'void op_pkg_init(const char** name) { name[0] = "TwoOps"; }\n'
"""What HTP's headers give each package besides its interface."""

REGISTER = """
import ctypes as c, os, sys

folder, library, provider = sys.argv[1:]
os.chdir(folder)
qnn = c.CDLL(os.path.join(folder, "libQnnHtp.so"))
found, count = c.POINTER(c.c_void_p)(), c.c_uint32()
assert qnn.QnnInterface_getProviders(c.byref(found), c.byref(count)) == 0 and count.value
def call(slot, *arguments):  # slots of QnnInterface_t follow its backend's number, its name and two versions
    function = c.c_void_p.from_address(found[0] + 40 + 8 * slot).value
    return c.CFUNCTYPE(c.c_uint64, *map(type, arguments))(function)(*arguments)
backend = c.c_void_p()
place = c.c_void_p(c.addressof(backend))
assert call(1, c.c_void_p(), c.c_void_p(), place) == 0
text = lambda value: c.c_char_p(value.encode())
print("code", call(5, backend, text(library), text(provider), text("CPU")) & 0xFFFF)
print("free", call(8, backend) & 0xFFFF)
"""

pytestmark = [needs_make, needs_cc, pytest.mark.slow]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the name of the package in front of the package's own library."""
    folder = tmp_path_factory.mktemp("vendor")
    package = two_ops.generated(folder)
    make(package, "cpu_x86", "CXXFLAGS=-O0")
    source, library = folder / "name.c", folder / "libNamed.so"
    source.write_text(PACKAGE_NAME)
    libs = (package / LIBS).resolve()
    link = ("-Wl,--no-as-needed", str(libs / "libUdoTwoOpsImplCpu.so"), f"-Wl,-rpath,{libs}")
    run_cc(["-shared", "-fPIC", str(source), "-o", str(library), *link])
    return library


@pytest.mark.parametrize(
    ("provider", "code"),
    [
        ("TwoOpsInterfaceProvider", 0),
        ("TwoOpsInterfaceProviderV2", 4008),  # HTP's library knows version 1 only, and says so
        ("Absent", None),
    ],
)
def test_qnn_registers_a_package(library: Path, provider: str, code: int | None) -> None:
    vendor = pytest.importorskip("onnxruntime_qnn")
    folder = Path(vendor.__file__).parent
    if not (folder / HTP).exists():
        pytest.skip("this wheel has no libraries for x86")
    words = [sys.executable, "-c", REGISTER, str(folder), str(library), provider]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(line.split() for line in done.stdout.splitlines() if line.startswith(("code", "free")))
    assert told["free"] == "0"
    assert int(told["code"]) == code if code is not None else told["code"] != "0"
