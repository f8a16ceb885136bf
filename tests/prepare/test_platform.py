from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from xdlc.api import check_platform
from xdlc.errors import BackendError, UsageError
from xdlc.runtime import cpu, htp
from xdlc.runtime.htp import process
from xdlc.targets import all_archs, all_socs


def targets(machine: Any, name: str) -> dict[str, Any]:
    (runtime,) = (held for held in machine.runtimes if held.name == name)
    return {trial.target: trial.problem for trial in runtime.trials}


def test_the_host_runs_graphs_and_sections() -> None:
    machine = check_platform(["cpu", "aip"])
    assert [runtime.name for runtime in machine.runtimes] == ["cpu", "aip"]
    assert targets(machine, "cpu") == targets(machine, "aip") == {"host": None}
    assert machine.runtimes[0].library == f"onnxruntime {machine.versions['onnxruntime']}"
    assert machine.socs == all_socs()


@needs_htp
@pytest.mark.vendor
@pytest.mark.usefixtures("vendor_check")
def test_each_architecture_is_emulated() -> None:
    machine = check_platform(["htp"])
    found = targets(machine, "htp")
    assert set(found.values()) == {None}
    assert [target.split()[0] for target in found] == [arch.name for arch in all_archs() if arch.number >= 68]
    assert "QNN v2." in machine.runtimes[0].library


@needs_htp
def test_one_soc_is_told_of_and_emulated() -> None:
    machine = check_platform(["htp"], "QCM6490")
    assert [soc.name for soc in machine.socs] == ["qcs6490"]
    assert targets(machine, "htp") == {"v68 (qcs6490)": None}


@needs_htp
def test_a_soc_without_the_engine_is_no_target_of_it() -> None:
    machine = check_platform(["htp", "aip"], "sm8250")
    assert "sm8250 has no HTP" in str(targets(machine, "htp")["v66 (sm8250)"])
    assert machine.runtimes[0].problem is not None
    assert machine.runtimes[1].problem is None
    (problem,) = targets(check_platform(["aip"], "sm8650"), "aip").values()
    assert str(problem).startswith("sm8650 has no HTA\n  fix: choose one of sm8150, sm8250")


def test_a_missing_package_is_a_problem_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BackendError("is not installed", fix="pip install onnxruntime-qnn==2.7.0")

    monkeypatch.setattr(process, "library_folder", missing)
    (runtime,) = check_platform(["htp"]).runtimes
    assert [trial.target for trial in runtime.trials] == ["library"]
    assert isinstance(runtime.problem, BackendError)
    assert runtime.problem.fix == "pip install onnxruntime-qnn==2.7.0"


def test_an_emulation_that_works_in_part_works(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake(nullcontext[Any]):
        @classmethod
        def of_model(cls, model: Any, soc: str) -> Any:
            if soc == "sm8750":
                raise BackendError("crashed")
            return cls(SimpleNamespace(run=lambda feeds, native: {"y": np.maximum(feeds["x"], 128)}))

    monkeypatch.setattr(process, "WorkerSession", Fake)
    monkeypatch.setattr(htp, "build_id", lambda: "v2.51.0")
    machine = check_platform(["htp"])
    assert machine.runtimes[0].library.endswith(", QNN v2.51.0")
    found = targets(machine, "htp")
    assert [target.split()[0] for target in found] == [arch.name for arch in all_archs() if arch.number >= 68]
    assert {target: str(problem) for target, problem in found.items() if problem} == {
        "v79 (sm8750)": "crashed"
    }
    assert machine.runtimes[0].problem is None


def test_wrong_numbers_and_unloadable_libraries_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: Any, feeds: Any, **_: Any) -> Any:
        return {"y": feeds["x"] * 2}

    monkeypatch.setattr(cpu.CpuSession, "run", twice)
    (runtime,) = check_platform(["cpu"]).runtimes
    assert "wrong numbers" in str(runtime.problem)

    def unloadable(self: Any, *_: Any, **__: Any) -> Any:
        raise ImportError("libfoo.so: no such file")

    monkeypatch.setattr(cpu.CpuSession, "run", unloadable)
    (runtime,) = check_platform(["cpu"]).runtimes
    assert "cannot be loaded: libfoo.so" in str(runtime.problem)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="runtime 'hpt' is not one of aip, cpu, htp\n  fix: nearest: htp"):
        check_platform(["hpt"])
    with pytest.raises(UsageError, match="unknown SoC 'sm8560'"):
        check_platform(["cpu"], "sm8560")
