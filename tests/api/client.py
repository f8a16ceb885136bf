"""Program on the Python interface that mypy checks; it never runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import xdlc
from xdlc.errors import BackendError, ProblemList, StorageError, UsageError

Image = NDArray[np.float32]
Feeds = dict[str, Image]
LOG = logging.getLogger("client")


@dataclass
class Notes:
    """Collects what conversions and quantizations have to state."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def step(self, title: str, done: int, total: int) -> None:
        LOG.debug("%s: %d of %d", title, done, total)


def problems_of(error: xdlc.XdlcError) -> list[tuple[str, str]]:
    """Return problem and fix of an error, or of each in a list."""
    held: Sequence[xdlc.XdlcError] = error.problems if isinstance(error, ProblemList) else [error]
    return [(each.problem, each.fix or "") for each in held]


def report(path: Path, target: str) -> int:
    """Return the number of problems of a source model."""
    found = xdlc.check(path, {"image": (1, 3, 224, 224)}, target=target)
    for problem in found.problems:
        LOG.error("%s: %s", problem.node, problem.why)
    return len(found.problems)


def converted(path: Path, notes: Notes) -> xdlc.Model:
    """Return a model of a source file."""
    model: xdlc.Model = xdlc.convert(
        path,
        {"image": (1, 3, 224, 224)},
        out_name=["scores"],
        batch=1,
        define_symbol={"n": 4},
        notify=notes,
        step=notes.step,
        desired_input_layout={"image": "NHWC"},
    )
    for tensor in (*model.main.inputs, *model.main.outputs):
        LOG.info("%s: %s of %s", tensor.name, "x".join(map(str, tensor.shape)), tensor.dtype.name)
    return model


def samples(folder: Path) -> Iterator[Feeds]:
    """Iterate over calibration samples."""
    for path in sorted(folder.glob("*.npy")):
        array: Image = np.load(path)
        yield {"image": array}


def quantized(model: xdlc.Model, folder: Path, notes: Notes) -> xdlc.Model:
    """Return a quantized model."""
    quantized_model = xdlc.quantize(
        model,
        samples(folder),
        act_bitwidth=16,
        weights_bitwidth=8,
        act_quantizer_calibration="percentile",
        percentile_calibration_value=99.9,
        restrict_quantization_steps=(-0x80, 0x7F),
        algorithms=["cle"],
        act_bitwidth_of={"scores": 16},
        loop_timeout=4,
        jobs=2,
        notify=notes,
        step=notes.step,
    )
    written: Path = xdlc.export_encodings(quantized_model, folder / "encodings.json")
    LOG.info("encodings: %s", written.name)
    return quantized_model


def judge(run: Any) -> float:
    """Return the score of a network."""
    outputs: Mapping[str, Image] = run({"image": np.zeros((1, 224, 224, 3), np.float32)})
    return float(outputs["scores"].max())


def mixed(model: xdlc.Model, folder: Path) -> xdlc.Model:
    """Return a model that keeps a score."""
    return xdlc.quantize(model, folder / "list.txt", evaluate=judge, min_score=0.5, min_sqnr=30.0)


def prepared(model: xdlc.Model, target: Path) -> list[str]:
    """Write a model with caches, and return the SoCs that can use it."""
    socs = ["sm8550", "sm8650"]

    notes = Notes()
    xdlc.prepare(
        model,
        socs,
        vtcm_override=4,
        optimization_level=3,
        partition=True,
        notify=notes,
        step=notes.step,
    ).save(target)
    usable: list[str] = []
    for soc in socs:
        for verdict in xdlc.verdicts(target, soc, mode="strict"):
            if verdict.usable:
                usable.append(verdict.device)
            else:
                LOG.warning("%s", verdict.reason)
    sections = xdlc.prepare_hta(model, "0-11,177-215")
    xdlc.save(sections.model, target.with_suffix(".hta.dlc"), version="4.0")
    return usable


@dataclass(frozen=True)
class Answer:
    """What a network finds in an image."""

    label: int
    score: float


class Classifier:
    """A network that is ready for many images."""

    def __init__(self, path: Path, soc: str | None = None) -> None:
        if soc is None:
            self.session = xdlc.Session(path, threads=2, loop_timeout=2.5)
        else:
            self.session = xdlc.Session(path, "htp", soc=soc, cpu_fallback=True, mode="permissive")
        self.input: str = self.session.graph.inputs[0].name
        self.output: str = self.session.graph.outputs[0].name

    def __enter__(self) -> Classifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.close()

    def answer(self, outputs: Mapping[str, NDArray[Any]]) -> Answer:
        scores: NDArray[Any] = outputs[self.output].reshape(-1)
        label = int(scores.argmax())
        return Answer(label, float(scores[label]))

    def one(self, image: Image) -> Answer:
        return self.answer(self.session.run({self.input: image}))

    def many(self, images: Sequence[Image]) -> list[Answer]:
        found: list[dict[str, NDArray[Any]]] = self.session.run_batch({self.input: image} for image in images)
        return [self.answer(outputs) for outputs in found]

    def stored(self, image: Image) -> NDArray[Any]:
        return self.session.run({self.input: image}, native=True)[self.output]

    def later(self, image: Image, seconds: float) -> Future[dict[str, NDArray[Any]]]:
        return self.session.submit({self.input: image}, deadline=seconds)

    def in_time(self, image: Image, seconds: float) -> Answer | None:
        try:
            return self.answer(self.later(image, seconds).result())
        except BackendError as error:
            LOG.warning("%s", error.problem)
            return None

    def slowest(self, image: Image) -> list[tuple[str, float]]:
        profile = self.session.profile({self.input: image}, runs=5)
        LOG.info("%.3f s a run, %d runs", profile.seconds, profile.runs)
        Path("profile.csv").write_text(profile.csv())
        return [(op.name, op.share) for op in profile.ops[:10]]


def with_kernels(path: Path, library: Path, image: Image) -> NDArray[Any]:
    """Return an output of a model with user-defined operations."""
    with xdlc.session(path, udo_package_path=[library], udo_timeout=5.0, outputs=["hidden"]) as session:
        return session.run({"image": image})["hidden"]


def compared(path: Path, image: Image) -> float:
    """Return how far the emulation of a SoC is from the CPU."""
    here = xdlc.run(path, {"image": image}, quantized=False)["scores"]
    there = xdlc.run(path, {"image": image}, "htp", soc="sm8650")["scores"]
    return float(np.abs(here - there).max())


def main(source: Path, folder: Path) -> int:
    """Convert, quantize, prepare and run a network."""
    notes = Notes()
    try:
        if report(source, "sm8650"):
            return 1
        model = quantized(converted(source, notes), folder, notes)
        socs = prepared(model, folder / "net.dlc")
        files: tuple[Path, ...] = xdlc.to_onnx(model, folder / "net.onnx", encodings="qdq")
        LOG.info("%s: %d files, xdlc %s", socs, len(files), xdlc.__version__)
        with Classifier(folder / "net.dlc") as classifier:
            image: Image = next(samples(folder))["image"]
            LOG.info("%s %s", classifier.one(image), classifier.many([image, image]))
    except (UsageError, StorageError) as error:
        LOG.error("%s", error)
        return error.exit_code
    except xdlc.XdlcError as error:
        for problem, fix in problems_of(error):
            LOG.error("%s: %s", problem, fix)
        return error.exit_code
    return 0
