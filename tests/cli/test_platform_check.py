import json
import os
from functools import partial
from pathlib import Path

import pytest

from tests.support import commands
from tests.support.htp_models import cnn, needs_htp
from xdlc import __version__
from xdlc.cli.tools import platform_check
from xdlc.errors import BackendError
from xdlc.runtime.htp import library, process

invoke = partial(commands.invoke, platform_check.main)


def test_versions_runtimes_and_socs() -> None:
    lines = invoke("--runtime", "cpu").stdout.splitlines()
    assert lines[0].startswith("machine  ")
    assert any(line.split() == ["xdlc", __version__] for line in lines)
    assert any(line.startswith("runtime cpu  works: onnxruntime") for line in lines)
    table = [line.split() for line in lines[lines.index("  v75") :]]
    assert [*"sm8650, snapdragon 8 gen 3 57 8 MB FP16".split()] in table
    assert max(map(len, lines)) <= 110


def test_one_soc() -> None:
    said = invoke("--runtime", "aip", "--soc", "qrb5165").stdout
    rows = dict(line.strip().split("  ", 1) for line in said.splitlines() if line.startswith("    "))
    assert "SoC sm8250" in said
    assert {name: rows[name].strip() for name in ("DSP", "HTA", "QNN id")} == {
        "DSP": "v66",
        "HTA": "yes",
        "QNN id": "21",
    }


def test_json() -> None:
    report = json.loads(invoke("--runtime", "aip", "--soc", "sm8150", "--json").stdout)
    assert report["versions"]["xdlc"] == __version__
    (runtime,) = report["runtimes"]
    assert (runtime["name"], runtime["works"]) == ("aip", True)
    assert runtime["trials"] == [{"target": "host", "passed": True, "problem": None, "fix": None}]
    (soc,) = report["socs"]
    assert (soc["name"], soc["arch"], soc["hta"]) == ("sm8150", "v66", True)
    assert "a8w8" in soc["capabilities"]


def test_the_exit_code_is_about_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BackendError("it is not installed", fix="pip install onnxruntime-qnn==2.7.0")

    monkeypatch.setattr(process, "library_folder", missing)
    assert "runtime htp  does not work" in invoke().stdout
    for asked in ("htp", "all"):
        result = invoke("--runtime", asked, code=BackendError.exit_code)
        assert "runtime htp  does not work" in result.stdout
        assert "fix: pip install onnxruntime-qnn==2.7.0" in result.stderr
    assert invoke("--runtime", "cpu").stderr == ""


@needs_htp
def test_htp_is_tried() -> None:
    lines = invoke("--runtime", "htp", "--soc", "sm8650").stdout.splitlines()
    assert any(line.split() == ["v75", "(sm8650)", "passed"] for line in lines)


def test_unknown_soc() -> None:
    assert "nearest: sm8950" in invoke("--soc", "sm8560", code=2).stderr


def test_matrix_of_libraries(tmp_path: Path) -> None:
    file = tmp_path / "m.dlc"
    cnn(quantized=True).save(file)
    result = invoke("--matrix", str(file), "--soc", "sm8650", "--libraries", str(tmp_path), "--json")
    (row,) = json.loads(result.stdout)["matrix"]
    assert (row["library"], row["build"], row["soc"]) == (str(tmp_path), None, None)
    assert "libQnnHtp.so" in row["problems"][0] or "Linux x86_64" in row["problems"][0]
    picture = tmp_path / "m.svg"
    lines = invoke("--matrix", str(file), "--libraries", str(tmp_path), "--svg", str(picture)).stdout
    assert "no library" in picture.read_text("utf-8")
    assert "--matrix" in invoke("--svg", str(picture), code=2).stderr
    assert str(tmp_path) in lines
    assert "--matrix" in invoke("--libraries", str(tmp_path), code=2).stderr
    assert "--runtime" in invoke("--matrix", str(file), "--runtime", "cpu", code=2).stderr


def test_folder_of_the_vendor_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(library.VARIABLE, "")
    said = invoke("--runtime", "htp", "--vendor_lib", str(tmp_path), code=BackendError.exit_code)
    assert f"{tmp_path} (XDLC_VENDOR)" in said.stdout.replace("\n", "")
    assert os.environ[library.VARIABLE] == ""  # the folder is that of one call
