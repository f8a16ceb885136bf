from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.support.htp_models import cnn, needs_htp, partly, prepared_cnn
from xdlc.cli.tools.net_run import main
from xdlc.runtime.htp import process
from xdlc.runtime.htp.process import WorkerSession
from xdlc.worker.process import Process

X = [np.random.default_rng(seed).uniform(-1, 1, (1, 8, 8, 4)).astype("float32") for seed in range(3)]


@pytest.fixture(scope="module")
def dlc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "p.dlc"
    prepared_cnn("sm8550", "sm8650").save(path)
    return path


def net_run(dlc: Path, folder: Path, *options: object, lines: str = "") -> Result:
    for index, x in enumerate(X):
        x.tofile(folder / f"{index}.raw")
    listed = "".join(f"{folder / str(index)}.raw\n" for index in range(len(X)))
    (folder / "list.txt").write_text(lines + listed)
    command = ["--container", dlc, "--input-list", folder / "list.txt", "--output-dir", folder / "out"]
    return CliRunner().invoke(main, list(map(str, [*command, *options])))


def results(folder: Path, name: str = "y") -> list[np.ndarray]:
    return [np.fromfile(folder / "out" / f"Result_{i}" / f"{name}.raw", "float32") for i in range(len(X))]


@needs_htp
def test_a_cache_runs_the_whole_list_in_one_child(
    dlc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def counted(service: str, *rest: Any) -> Process:
        started.append(service)
        return Process(service, *rest)

    monkeypatch.setattr(process, "Process", counted)
    monkeypatch.setattr(process, "_PATIENCE", 60.0)  # no run is that long
    done = net_run(dlc, tmp_path, "--runtime", "htp", "--soc", "sm8650", "--validate-cache")
    assert done.exit_code == 0, done.output
    assert len(started) == 1
    assert "runs on: sm8650, from htp.cache.sm8650.0" in done.output
    assert "notice" not in done.output
    with WorkerSession.of_model(cnn(quantized=True), "sm8650") as composed:
        for given, x in zip(results(tmp_path), X, strict=True):
            assert np.array_equal(given, composed.run({"x": x})["y"].reshape(-1))


@needs_htp
def test_without_a_soc_the_first_usable_cache_tells_it(dlc: Path, tmp_path: Path) -> None:
    assert "runs on: sm8550, from htp.cache.sm8550.0" in net_run(dlc, tmp_path, "--runtime", "htp").output


@needs_htp
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--soc", "sm8450"], "htp.cache.sm8650.0: arch: found v75, accepted v69 or lower"),
        (
            ["--soc", "sm8650", "--cache-compatibility-mode", "always_generate_new"],
            "htp.cache.sm8550.0, htp.cache.sm8650.0: always_generate_new uses no record\n",
        ),
        (["--soc", "sm8650", "--set-output-tensors", "pool"], "outputs: found 'y', accepted 'pool', 'y'"),
    ],
)
def test_a_model_is_compiled_with_a_notice_for_each_cache(
    dlc: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    done = net_run(dlc, tmp_path, "--runtime", "htp", *options)
    assert done.exit_code == 0, done.output
    assert f"notice: xdlc uses no cache on {options[1]}: htp.cache.sm8550.0" in done.output
    assert said in done.output
    assert "compiled now" in done.output
    assert all(result.size == 5 for result in results(tmp_path))
    if "pool" in options:
        assert all(result.any() for result in results(tmp_path, "pool"))


@needs_htp
def test_outputs_named_in_the_list_are_given_too(dlc: Path, tmp_path: Path) -> None:
    done = net_run(dlc, tmp_path, "--runtime", "htp", lines="% pool\n")
    assert done.exit_code == 0, done.output
    assert all(result.any() for result in results(tmp_path, "pool"))


@needs_htp
def test_validating_fails_with_the_reason_and_writes_nothing(dlc: Path, tmp_path: Path) -> None:
    done = net_run(dlc, tmp_path, "--runtime", "htp", "--soc", "sm8450", "--validate-cache")
    assert done.exit_code == 5
    assert "no cache is usable on sm8450: htp.cache.sm8550.0: arch: found v73" in done.output
    assert not (tmp_path / "out").exists()
    done = net_run(dlc, tmp_path, "--runtime", "htp", "--validate-cache", "--set-output-tensors", "pool")
    assert f"fix: prepare the model for this SoC: xdlc prepare {dlc} --soc sm8650 --set-output" in done.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--soc", "sm8650"], "--soc requires --runtime htp"),
        (["--validate-cache"], "--validate-cache requires --runtime htp"),
        (["--cache-compatibility-mode", "strict"], "--cache-compatibility-mode requires --runtime htp"),
        (["--runtime", "htp", "--loop-timeout", "0"], "--loop-timeout is 0.0"),
        (
            ["--runtime", "htp", "--validate-cache", "--cache-compatibility-mode", "always_generate_new"],
            "--validate-cache requires a cache",
        ),
    ],
)
def test_options_of_the_other_runtime_are_refused(tmp_path: Path, options: list[str], said: str) -> None:
    cnn(quantized=True).save(tmp_path / "m.dlc")
    done = net_run(tmp_path / "m.dlc", tmp_path, *options)
    assert done.exit_code == 2
    assert said in done.output


@needs_htp
def test_cpu_fallback_divides_what_htp_refuses(tmp_path: Path) -> None:
    partly(quantized=True).save(tmp_path / "m.dlc")
    done = net_run(tmp_path / "m.dlc", tmp_path, "--runtime", "htp", "--enable-cpu-fallback")
    assert done.exit_code == 0, done.output
    assert "runs on: sm8650, compiled now, 2 partition(s), the rest on the CPU" in done.output
    assert "notice: HTP rejects at least 1 op(s), first " in done.output
    assert "\\n" not in done.output
    assert [path.name for path in (tmp_path / "out" / "Result_0").iterdir()] == ["c.raw"]
