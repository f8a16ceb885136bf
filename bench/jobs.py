"""What ``all.py`` lets a process of its own do; each prints its figures for ``measure``.

python bench/jobs.py NAME ARGUMENT...
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import part, tell

JOBS: dict[str, Callable[..., None]] = {}
THREADS = 1
"""Threads of one inference that is compared with another's."""
WARM_UP = 8.0
"""Seconds of runs before one is timed: a session compiles kernels meanwhile."""


def job(function: Callable[..., None]) -> Callable[..., None]:
    """Register a job under its name."""
    JOBS[function.__name__] = function
    return function


def _session(path: Path, threads: int | None = None) -> Any:
    """Return a session of onnxruntime whose idle threads sleep."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _samples(path: str, count: str) -> tuple[Path, list[Any]]:
    from networks import samples

    return Path(path), samples(Path(path), int(count))


@job
def write_samples(model: str, count: str, folder: str) -> None:
    """Write samples as files, and a list of them."""
    import networks

    networks.write_samples(Path(model), int(count), Path(folder))


@job
def float_inference(model: str, count: str) -> None:
    """Run samples through the float model; opening it is not counted."""
    path, feeds = _samples(model, count)
    session = _session(path)
    session.run(None, feeds[0])
    with part() as figures:
        for sample in feeds:
            session.run(None, sample)
    tell(**figures)


@job
def quantize(model: str, count: str, dlc: str, target: str, *options: str) -> None:
    """Quantize a DLC, without imports and saving; options like ``jobs=2``."""
    _, feeds = _samples(model, count)
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    import xdlc
    import xdlc.quant.pipeline

    values: dict[str, Any] = {}
    for option in options:
        name, _, value = option.partition("=")
        values[name] = int(value) if value.isdigit() else value
    source = xdlc.load(dlc)
    with part() as figures:
        quantized = xdlc.quantize(source, feeds, notify=lambda _: None, **values)
    tell(**figures)
    if target:
        quantized.save(target)


@job
def onnxruntime_minmax(model: str, count: str, target: str) -> None:
    """Quantize by onnxruntime: min-max, QDQ, weights per channel."""
    path, feeds = _samples(model, count)
    from onnxruntime import quantization as peer

    class Reader(peer.CalibrationDataReader):  # type: ignore[misc]
        left = iter(feeds)

        def get_next(self) -> Any:
            return next(self.left, None)

    with part() as figures:
        peer.quantize_static(
            str(path),
            target,
            Reader(),
            quant_format=peer.QuantFormat.QDQ,
            per_channel=True,
            weight_type=peer.QuantType.QInt8,
            activation_type=peer.QuantType.QUInt8,
            calibrate_method=peer.CalibrationMethod.MinMax,
            extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
        )
    tell(**figures)


@contextmanager
def _opened(model: str, runtime: str, **options: Any) -> Iterator[Callable[[Any], Any]]:
    """Yield what runs a sample: xdlc for a DLC, onnxruntime for an ONNX file."""
    if not model.endswith(".dlc"):
        session = _session(Path(model), THREADS)
        yield lambda feeds: session.run(None, feeds)
        return
    import xdlc

    with xdlc.Session(model, runtime, **options) as opened:  # type: ignore[arg-type]
        yield opened.run


@job
def inference(source: str, count: str, model: str) -> None:
    """Run samples on one thread; the median CPU time of a run."""
    _, feeds = _samples(source, count)
    options = {"threads": THREADS} if model.endswith(".dlc") else {}
    with _opened(model, "cpu", **options) as run:
        end = time.monotonic() + WARM_UP
        while time.monotonic() < end:
            run(feeds[0])
        seconds = []
        for sample in feeds:
            start = time.process_time()
            run(sample)
            seconds.append(time.process_time() - start)
    tell(cpu=statistics.median(seconds))


@job
def emulation(source: str, count: str, model: str, batch: str) -> None:
    """Run samples on HTP's emulation: one by one, or as a batch; opening it is not counted."""
    _, feeds = _samples(source, count)
    import xdlc

    with xdlc.Session(model, "htp") as session:
        session.run(feeds[0])
        with part() as figures:
            if batch == "batch":
                session.run_batch(feeds)
            else:
                for sample in feeds:
                    session.run(sample)
    tell(**figures)


@job
def verify(model: str, socs: str, jobs: str) -> None:
    """Verify the caches of a DLC that was prepared without."""
    import xdlc

    with part() as figures:
        xdlc.prepare(model, socs.split(","), jobs=int(jobs))
    tell(**figures)


@job
def compiler(model: str, soc: str) -> None:
    """Compile a DLC; ``vendor``: CPU seconds inside the calls of the vendor's library."""
    from xdlc.runtime.htp import service
    from xdlc.runtime.htp.library import Library, library_folder
    from xdlc.runtime.htp.options import CompileOptions
    from xdlc.targets import find_soc

    inside = 0.0
    call = Library.call

    def timed(self: Library, name: str, *arguments: object) -> int:
        nonlocal inside
        start = time.process_time()
        code = call(self, name, *arguments)
        inside += time.process_time() - start
        return code

    Library.call = timed  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        note = os.open(Path(folder, "note"), os.O_RDWR | os.O_CREAT)
        request = {
            "library": str(library_folder()),
            "model": model,
            "folder": folder,
            "soc_id": find_soc(soc).id,
            "options": asdict(CompileOptions(optimization_level=2)),
            "skip": [],
        }
        service.commands()["compile"](request, [note])
    tell(vendor=inside)


@job
def modules(model: str, target: str) -> None:
    """Count the modules that a first conversion loads, and those of ours whose code it runs."""
    began = len(sys.modules)
    import xdlc

    xdlc.convert(model).save(target)
    loaded = len(sys.modules) - began
    ours = sum(name.partition(".")[0] == "xdlc" for name in sys.modules)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from scripts.budget import files_of_a_conversion

    tell(modules=loaded, ours=ours, run=len(files_of_a_conversion()))


if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])
