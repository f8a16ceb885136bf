"""Makefiles of packages for phones: what they run, messages without an SDK."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.udo.generator.device_package import OPS, generated, run

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

SDKS = (
    "ANDROID_NDK_ROOT",
    "CL_INCLUDE_PATH",
    "CL_LIBRARY_PATH",
    "HEXAGON_SDK_ROOT",
    "HEXAGON_TOOLS_ROOT",
    "HEXAGON_SDK4_ROOT",
    "QNN_SDK_ROOT",
)
NDK_BUILD = """\
PACKAGE := $(CURDIR)
my-dir = $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
CLEAR_VARS := clear.mk
BUILD_SHARED_LIBRARY := shared.mk
include $(PACKAGE)/jni/Application.mk
include $(PACKAGE)/jni/Android.mk
all:;@:
"""
"""What ndk-build gives to an Android.mk."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(OPS, tmp_path_factory.mktemp("makefiles")).outcome.folder


def dry(package: Path, target: str, sdks: dict[str, object], *more: str) -> tuple[int, str, list[str]]:
    """What make would run, and its complaints."""
    env = {key: value for key, value in os.environ.items() if key not in SDKS and not key.startswith("MAKE")}
    env |= {"LC_ALL": "C", **{key: str(value) for key, value in sdks.items()}}
    done = run(["make", "-n", target, *more], package, env)
    complaints = [line for line in done.stderr.decode().splitlines() if "***" in line and "Error" not in line]
    return done.returncode, done.stdout.decode().replace("\\\n", " "), complaints


@pytest.fixture(scope="module")
def sdks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Folders where SDKs could be."""
    root = tmp_path_factory.mktemp("sdks")
    folders: dict[str, object] = {name: root / name.lower() for name in SDKS}
    for folder in folders.values():
        Path(str(folder)).mkdir()
    del folders["HEXAGON_TOOLS_ROOT"]
    tools = root / "hexagon_sdk4_root/tools/HEXAGON_Tools"
    (tools / "8.4.09/Tools").mkdir(parents=True)
    (tools / "8.7.03/Tools").mkdir(parents=True)
    (root / "qnn_sdk_root/include/QNN").mkdir(parents=True)
    (root / "qnn_sdk_root/include/QNN/QnnOpPackage.h").touch()
    return folders


NEEDED = [
    ("reg_android", ["ANDROID_NDK_ROOT"]),
    ("cpu_android", ["ANDROID_NDK_ROOT"]),
    ("gpu_android", ["ANDROID_NDK_ROOT", "CL_INCLUDE_PATH", "CL_LIBRARY_PATH"]),
    ("dsp_android", ["HEXAGON_SDK_ROOT", "HEXAGON_TOOLS_ROOT", "QNN_SDK_ROOT", "HEXAGON_SDK4_ROOT"]),
    ("dsp_x86", ["QNN_SDK_ROOT", "HEXAGON_SDK4_ROOT"]),
    ("dsp_aarch64", ["QNN_SDK_ROOT", "ANDROID_NDK_ROOT"]),
]


@pytest.mark.parametrize(("target", "needed"), NEEDED, ids=[target for target, _ in NEEDED])
def test_a_target_says_in_one_line_what_to_set(
    package: Path, tmp_path: Path, target: str, needed: list[str]
) -> None:
    settings: dict[str, object] = {}
    for name in needed:
        code, _, complaints = dry(package, target, settings)
        assert code != 0
        assert len(complaints) == 1
        assert f"{name} is not set: set it to " in complaints[0]
        settings[name] = tmp_path
    assert dry(package, target, settings)[0] == 0


def test_an_sdk_that_is_no_folder_is_told(package: Path) -> None:
    complaints = dry(package, "cpu_android", {"ANDROID_NDK_ROOT": "/no/such/folder"})[2]
    assert len(complaints) == 1
    assert "ANDROID_NDK_ROOT=/no/such/folder is no folder" in complaints[0]


def commands(text: str, *words: str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_old_dsps_get_one_library_an_op_for_the_oldest(package: Path, sdks: dict[str, object]) -> None:
    tools = sdks | {"HEXAGON_TOOLS_ROOT": sdks["HEXAGON_SDK_ROOT"]}
    text = dry(package, "android", tools, "-C", "jni/src/DSP_V66")[1]
    lines = commands(text, "hexagon-clang ")
    assert [line.split(" -o ")[1].split()[0] for line in lines] == [
        "../../../libs/dsp_v60/libUdoEdgeScaleImplDsp.so",
        "../../../libs/dsp_v60/libUdoEdgehalfImplDsp.so",
    ]
    assert all(" -mv65 " in line and f"-isystem {tools['HEXAGON_SDK_ROOT']}/incs " in line for line in lines)


def test_each_htp_version_gets_its_library(package: Path, sdks: dict[str, object]) -> None:
    tools = sdks | {"HEXAGON_TOOLS_ROOT": ""}
    text = dry(package, "android", tools, "-C", "jni/src/DSP_V68")[1]
    text += dry(package, "android", tools, "-C", "jni/src/DSP_V73")[1]
    old, new = commands(text, "hexagon-clang++")
    for line, arch in ((old, "v68"), (new, "v73")):
        assert line.split("/bin/")[0] == f"{sdks['HEXAGON_SDK4_ROOT']}/tools/HEXAGON_Tools/8.7.03/Tools"
        assert f" -m{arch} " in line
        assert f" -o ../../../libs/dsp_{arch}/libUdoEdgeImplDsp.so " in line
        assert " -DPREPARE_DISABLED " in line
        assert f"compute{arch}/include/qurt" in line
        assert f" -isystem {sdks['QNN_SDK_ROOT']}/include/QNN " in line
    assert "../DSP_V68/src/ops/Scale.cpp" in new


def test_graphs_are_prepared_here_and_on_the_phone_with_libraries_of_their_own(
    package: Path, sdks: dict[str, object]
) -> None:
    x86 = commands(dry(package, "dsp_x86", sdks)[1], "libUdoEdgeImplDsp.so", " -o ")
    assert len([line for line in x86 if line.startswith("clang++ ")]) >= 1
    assert " -o ../../../libs/x86-64_linux_clang/libUdoEdgeImplDsp.so " in x86[0]
    other = commands(dry(package, "dsp_x86", sdks, "X86_CXX=clang++-17")[1], "clang++-17")
    assert other
    phone = commands(dry(package, "dsp_aarch64", sdks)[1], "aarch64-linux-android24-clang++")
    assert " -o ../../../libs/arm64-v8a/libUdoEdgeImplDsp_AltPrep.so " in phone[0]
    assert not any("PREPARE_DISABLED" in line for line in (*x86, *phone))


@pytest.mark.parametrize(
    ("target", "module"),
    [("reg_android", "UdoEdgeReg"), ("cpu_android", "UdoEdgeImplCpu"), ("gpu_android", "UdoEdgeImplGpu")],
)
def test_libraries_of_phones_are_built_one_by_one_and_kept(
    package: Path, sdks: dict[str, object], target: str, module: str
) -> None:
    text = dry(package, target, sdks)[1]
    (line,) = commands(text, "/ndk-build ")
    assert line.endswith(f"APP_MODULES={module}")
    assert f" NDK_LIBS_OUT=../../../obj/ndk/{module} " in line
    assert f"cp ../../../obj/ndk/{module}/arm64-v8a/*.so ../../../libs/arm64-v8a" in text


def test_android_mk_names_all_sources_of_each_library(package: Path, tmp_path: Path) -> None:
    work = tmp_path / "package"
    shutil.copytree(package, work)
    (work / "ndk.mk").write_text(NDK_BUILD)
    (work / "clear.mk").write_text("LOCAL_MODULE :=\nLOCAL_SRC_FILES :=\nLOCAL_C_INCLUDES :=\n")
    (work / "shared.mk").write_text(
        "$(info $(APP_ABI) $(LOCAL_MODULE) $(addprefix $(LOCAL_PATH)/,$(LOCAL_SRC_FILES)))\n"
    )
    done = run(["make", "-s", "-f", "ndk.mk"], work)
    assert done.returncode == 0, done.stderr
    sources_of = {}
    for line in done.stdout.decode().splitlines():
        abi, module, *sources = line.split()
        assert abi == "arm64-v8a"
        assert all(Path(source).is_file() for source in sources)
        sources_of[module] = {
            Path(source).resolve().relative_to(work.resolve() / "jni/src") for source in sources
        }
    utils = set(expected(work, "utils"))
    types = {path for path in utils if "implementation" not in path.parts}
    assert sources_of == {
        "UdoEdgeReg": {*expected(work, "reg"), *types},
        "UdoEdgeImplCpu": {*expected(work, "CPU"), *utils},
        "UdoEdgeImplGpu": {*expected(work, "GPU"), *utils},
    }


def expected(work: Path, folder: str) -> list[Path]:
    root = work / "jni/src"
    return [path.relative_to(root) for path in (root / folder).rglob("*.cpp")]


def test_help_lists_the_targets_of_all_cores(package: Path) -> None:
    done = run(["make", "-s", "help"], package)
    text = done.stdout.decode()
    for word in ("reg_android", "cpu_android", "gpu_android", "dsp_android", "dsp_x86", "dsp_aarch64"):
        assert word in text
