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
    ("cycle_android", ["ANDROID_NDK_ROOT"]),
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
    assert sources_of == {
        "UdoEdgeReg": {*expected(work, "reg"), *utils},
        "UdoEdgeImplCpu": {*expected(work, "CPU"), *utils},
        "UdoEdgeImplGpu": set(expected(work, "GPU")),
    }


def expected(work: Path, folder: str) -> list[Path]:
    root = work / "jni/src"
    return [path.relative_to(root) for path in (root / folder).rglob("*.cpp")]


def phone(package: Path, *arguments: str, **env: str) -> tuple[int, list[str]]:
    done = run(["sh", "scripts/phone.sh", *arguments], package, {**os.environ, "ADB": "echo adb", **env})
    return done.returncode, (done.stdout or done.stderr).decode().splitlines()


def test_libraries_are_pushed_where_they_are_looked_for(package: Path, tmp_path: Path) -> None:
    work = tmp_path / "package"
    shutil.copytree(package, work, ignore=shutil.ignore_patterns("libs"))
    assert phone(work, "push") == (1, ["libs has nothing for this phone: build it with make all_android"])
    for folder in ("arm64-v8a", "dsp_v60", "dsp_v73", "x86-64_linux_clang"):
        (work / "libs" / folder).mkdir(parents=True)
    there = "/data/local/tmp/Edge"
    pushed = [
        line
        for folder in ("arm64-v8a", "dsp_v73")
        for line in (f"adb shell mkdir -p {there}/{folder}", f"adb push libs/{folder}/. {there}/{folder}")
    ]
    assert phone(work, "push") == (0, pushed)
    assert phone(work, "push", ARCH="v66")[1][-1] == f"adb push libs/dsp_v60/. {there}/dsp_v60"
    library_path, adsp_path = phone(work, "env", FOLDER="/data/x")[1]
    assert library_path == "export LD_LIBRARY_PATH=/data/x/arm64-v8a:/vendor/lib64:$LD_LIBRARY_PATH"
    assert adsp_path.startswith('export ADSP_LIBRARY_PATH="/data/x/dsp_v73;/vendor/')


def test_the_recipe_says_what_the_vendors_tools_are_told(package: Path) -> None:
    code, lines = phone(package, "use")
    text = "\n".join(lines)
    library = "/data/local/tmp/Edge/dsp_v73/libUdoEdgeImplDsp.so"
    assert code == 0
    assert f"--op_packages {library}:EdgeInterfaceProvider:HTP" in text
    assert f"Scale:{library}:EdgeInterfaceProvider:HTP" in text
    assert "libUdoEdgeImplDsp_AltPrep.so:EdgeInterfaceProvider:CPU" in text
    assert phone(package, "use", ARCH="v66", PD="signed")[1] == lines[-1:]
    assert phone(package, "check")[1][1:] == [
        "adb shell cd /data/local/tmp/Edge/arm64-v8a && LD_LIBRARY_PATH=.:/vendor/lib64 "
        f"./cycle libUdoEdgeReg.so libUdoEdgeImpl{core}.so 100 4"
        for core in ("Cpu", "Gpu")
    ]
    assert phone(package)[0] == 2
    assert "sh scripts/phone.sh push" in "\n".join(phone(package)[1])


def test_libraries_without_a_signature_run_in_an_unsigned_process_domain(package: Path) -> None:
    unsigned, signed = phone(package, "use")[1], phone(package, "use", PD="signed")[1]
    more = "\n".join(line for line in unsigned if line not in signed)
    assert "--platform_options unsignedPD:ON" in more
    assert '{"devices": [{"pd_session": "unsigned"}]}' in more
    assert "nsigned" not in "\n".join(signed)


def test_libraries_are_of_the_release_that_the_phone_has(package: Path, tmp_path: Path) -> None:
    work = tmp_path / "package"
    shutil.copytree(package, work)
    assert phone(work, "sdk")[0] == 1
    for arch, release in (("v68", "v2.31.0.250130"), ("v73", "v2.31.0.250130")):
        folder = work / f"libs/dsp_{arch}"
        folder.mkdir(parents=True)
        (folder / "libUdoEdgeImplDsp.so").write_bytes(b"\0xdlc_udo_sdk_release=%s\0" % release.encode())
    (work / "libs/dsp_v69").mkdir()
    (work / "libs/dsp_v69/libUdoEdgeImplDsp.so").write_bytes(b"\x7fELF")  # of a make that records none
    runtime = tmp_path / "libQnnHtp.so"
    runtime.write_bytes(b"\0v2.31.0.250130\0")
    adb = tmp_path / "adb"
    adb.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    adb.chmod(0o755)
    settings = {"ADB": str(adb), "RUNTIME": str(runtime)}
    assert phone(work, "sdk", **settings) == (0, ["v2.31.0.250130"])
    runtime.write_bytes(b"\0v2.51.0.260929\0")
    code, (line,) = phone(work, "sdk", **settings)
    assert code == 1
    assert "built for v2.31.0.250130" in line
    (work / "libs/dsp_v73/libUdoEdgeImplDsp.so").write_bytes(b"xdlc_udo_sdk_release=v2.51.0\0")
    code, (line,) = phone(work, "sdk", **settings)
    assert code == 1
    assert "several releases" in line


def test_another_sdk_builds_anew(package: Path, sdks: dict[str, object], tmp_path: Path) -> None:
    work = tmp_path / "package"
    shutil.copytree(package, work)
    header = Path(str(sdks["QNN_SDK_ROOT"])) / "include/QNN/QnnSdkBuildId.h"
    header.write_text('#define QNN_SDK_BUILD_ID "v2.31.0.250130"\n')
    library = work / "libs/dsp_v68/libUdoEdgeImplDsp.so"
    library.parent.mkdir(parents=True)
    (work / "obj/sdk").mkdir(parents=True)
    (work / "obj/sdk/v2.31.0.250130").touch()
    library.touch()
    tools = sdks | {"HEXAGON_TOOLS_ROOT": ""}
    assert not commands(dry(work, "android", tools, "-C", "jni/src/DSP_V68")[1], "hexagon-clang++")
    header.write_text('#define QNN_SDK_BUILD_ID "v2.51.0.260929"\n')
    assert commands(dry(work, "android", tools, "-C", "jni/src/DSP_V68")[1], "hexagon-clang++")
    stamp = run(
        ["make", "-C", "jni/src/DSP_V68", "../../../obj/sdk/v2.51.0.260929"],
        work,
        {**os.environ, **{key: str(value) for key, value in tools.items()}},
    )
    assert stamp.returncode == 0, stamp.stderr
    assert [path.name for path in (work / "obj/sdk").iterdir()] == ["v2.51.0.260929"]
    header.unlink()


def test_help_lists_the_targets_of_all_cores(package: Path) -> None:
    done = run(["make", "-s", "help"], package)
    text = done.stdout.decode()
    for word in ("reg_android", "cpu_android", "gpu_android", "dsp_android", "dsp_x86", "dsp_aarch64"):
        assert word in text
