"""Fixtures of all tests, and the option that forbids skipping."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

CHECK_TIMEOUT = 600

# Hundreds of children are started: each would compile xdlc anew where bytecode is not kept.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ["XDLC_FAILED_PASSES_RAISE"] = "1"  # a pass that fails is omitted for users alone
os.environ.pop("COLUMNS", None)  # xdist states 80; without it, tables have their usual width

# Workers share the processors: how long an example takes says nothing.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips", action="store_true", help="a skipped test is a failed one (for continuous integration)"
    )


@pytest.fixture(autouse=True, scope="session")
def disk() -> Iterator[None]:
    """Do not wait until thousands of small files are on the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def threads() -> Iterator[None]:
    """Give each onnxruntime session one thread where workers share processors."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    import onnxruntime

    whole = onnxruntime.SessionOptions

    def options() -> Any:
        made = whole()
        made.intra_op_num_threads = 1
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "SessionOptions", options)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Have more workers than processors: they wait a third of the time."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (count * 3 + 1) // 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker import another share of the modules first."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    modules = sorted(Path(__file__).parent.rglob("test_*.py"))
    for path in modules[int(worker["workerid"][2:]) :: worker["workercount"]]:
        name = ".".join(path.relative_to(session.config.rootpath).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it tells
            importlib.import_module(name)


def pytest_collection_finish() -> None:
    """Keep what is collected out of the way of the garbage collector."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Give a test the same random numbers whatever ran before it."""
    for module in ("tests.support.contrib_models", "tests.support.onnx_models"):
        if module in sys.modules:
            generator = sys.modules[module].RNG
            generator.bit_generator.state = type(generator.bit_generator)(7).state


def _forbid(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: not run although --no-skips was given: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    _forbid(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    report = yield
    _forbid(report, collector.config)
    return report


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real models."""
    folder_name = os.environ.get("XDLC_CORPUS")
    if not folder_name:
        pytest.skip("needs the model corpus: set XDLC_CORPUS to its folder")
    folder = Path(folder_name)
    if not folder.is_dir():
        pytest.fail(f"XDLC_CORPUS is {folder_name!r}, which is not a folder")
    return folder


@pytest.fixture(scope="session")
def vendor_check() -> Callable[..., dict[str, Any]]:
    """Return the vendor's libraries' answer on a DLC: ``vendor_check("read", path)``.

    An answer of "no" is returned as well, with ``ok`` false and a ``reason``.
    """
    script = os.environ.get("XDLC_VENDOR_CHECK")
    if not script:
        pytest.skip("needs the vendor's libraries: set XDLC_VENDOR_CHECK to the checker's path")
    if not Path(script).is_file():
        pytest.fail(f"XDLC_VENDOR_CHECK is {script!r}, which is not a file")

    def check(*args: object) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, script, *map(str, args), "--json"],
            capture_output=True,
            text=True,
            timeout=CHECK_TIMEOUT,
            check=False,
        )
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            pytest.fail(f"the checker gave no answer (exit {done.returncode}): {done.stderr.strip()}")
        return dict(answer)

    return check


class Models:
    """Builds small ONNX models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, model: Any, name: str = "model.onnx", **options: Any) -> Path:
        """Write a model into the test's folder and return its path."""
        import onnx

        path = self.folder / name
        onnx.save_model(model, path, **options)
        return path

    def make(
        self,
        nodes: list[Any],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        weights: dict[str, Any] | None = None,
        *,
        opset: int = 17,
        types: dict[str, int] | None = None,
    ) -> Any:
        """Return a model; inputs and outputs are shapes by name, by default float32."""
        from onnx import TensorProto, helper, numpy_helper

        kinds = types or {}

        def values(shapes: dict[str, Any]) -> list[Any]:
            return [
                helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
                for name, shape in shapes.items()
            ]

        graph = helper.make_graph(
            nodes,
            "graph",
            values(inputs),
            values(outputs),
            [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

    def cnn(self, *, size: int = 16, classes: int = 5, seed: int = 0) -> Any:
        """Return a small classifier: two convolutions, pooling, a matrix product."""
        import numpy as np
        from onnx import helper

        rng = np.random.default_rng(seed)

        def weight(*shape: int) -> Any:
            return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

        nodes = [
            helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1], strides=[2, 2]),
            helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
            helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", pads=[1, 1, 1, 1], group=8),
            helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
            helper.make_node("GlobalAveragePool", ["r2"], ["p"], "pool"),
            helper.make_node("Flatten", ["p"], ["f"], "flatten"),
            helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "fc", transB=1),
        ]
        weights = {
            "w1": weight(8, 3, 3, 3),
            "b1": weight(8, 1)[:, 0],
            "w2": weight(8, 1, 3, 3),
            "b2": weight(8, 1)[:, 0],
            "w3": weight(classes, 8),
            "b3": weight(classes, 1)[:, 0],
        }
        return self.make(nodes, {"x": [1, 3, size, size]}, {"y": [1, classes]}, weights)


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(tmp_path)
