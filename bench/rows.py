"""The rows of ``all.py``: what each measures, its goals and its peers."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from convert import command as converter
from measure import MB, Commands, Figure, in_turns, measure, read_once, tool
from results import Line, installed
from scale import command as step_of_a_graph

HERE = Path(__file__).resolve().parent
TITLES = {"mobilenetv2": "MobileNetV2", "resnet50": "ResNet-50", "bert": "BERT-base"}
SAMPLES = {"mobilenetv2": 32, "resnet50": 32, "bert": 16}
SOC = "sm8650"
SEVEN = ("sm8350", "sm8450", "sm8550", "sm8650", "sm8750", "sa8295", "qcs6490")
AT_ONCE = ",".join(SEVEN)


class Skipped(Exception):
    """A row that this machine cannot measure, and why."""


class Failed(Exception):
    """A command that failed, and why."""


@dataclass
class Bench:
    """Where and how to measure."""

    folder: Path
    quick: bool

    def __post_init__(self) -> None:
        self.has_qnn = installed("onnxruntime-qnn") is not None

    def runs(self, count: int) -> int:
        """Return how many runs a figure is the least of."""
        return 1 if self.quick else count

    def count(self, name: str, *, most: int = 32) -> int:
        """Return the number of samples of a network."""
        return 4 if self.quick else min(SAMPLES[name], most)

    def model(self, name: str, *options: str) -> Path:
        """Return the ONNX file of a network, written once."""
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            self.do("networks.py", name, str(path), *options)
        return path

    def converted(self, name: str) -> Path:
        """Return the DLC of a network."""
        path = self.folder / f"{name}.dlc"
        if not path.exists():
            self.must(tool("xconv-onnx-to-dlc", "-i", str(self.model(name)), "-o", str(path)))
        return path

    def quantized(self, name: str) -> Path:
        """Return the DLC of a network with 8 bits."""
        path = self.folder / f"{name}_w8a8.dlc"
        if not path.exists():
            must(self.quantizing(name, 4, str(path), act_quantizer_calibration="min-max"))
        return path

    def quantizing(self, name: str, count: int, target: str = "", **options: Any) -> Figure:
        """Quantize a network in a process of its own."""
        words = [f"{option}={value}" for option, value in options.items() if option != "timeout"]
        model, dlc = str(self.model(name)), str(self.converted(name))
        return self.job("quantize", model, str(count), dlc, target, *words, timeout=options.get("timeout"))

    def job(self, *words: str, timeout: float | None = None) -> Figure:
        """Run a job of ``jobs.py``; return its figures, or else its process's."""
        figure = measure([sys.executable, str(HERE / "jobs.py"), *words], timeout=timeout)
        if figure.failure or "cpu" not in figure.facts:
            return figure
        facts = {"seconds": figure.seconds, "memory": figure.memory, **figure.facts}
        return Figure(facts["seconds"], int(facts["memory"]), cpu=facts["cpu"], facts=figure.facts)

    def do(self, script: str, *words: str) -> None:
        """Run a script of this folder, which must succeed."""
        self.must([sys.executable, str(HERE / script), *words])

    def must(self, words: list[str]) -> Figure:
        """Run a command that must succeed."""
        return must(measure(words))


def must(figure: Figure) -> Figure:
    """Return a figure of a run that succeeded."""
    if figure.failure:
        raise Failed(figure.failure)
    return figure


def need(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Return figures of runs that succeeded."""
    for name, figure in figures.items():
        if figure.failure:
            raise Failed(f"{name}: {figure.failure}")
    return figures


Measuring = Callable[[Bench], Iterator[Line]]


@dataclass(frozen=True)
class Row:
    """A row: its title and what measures it."""

    title: str
    lines: Measuring


ROWS: dict[str, Row] = {}


def row(title: str) -> Callable[[Measuring], Measuring]:
    """Register what measures a row, under the name of the function."""

    def register(function: Measuring) -> Measuring:
        ROWS[function.__name__] = Row(title, function)
        return function

    return register


def _need_qnn(bench: Bench) -> None:
    if not bench.has_qnn:
        raise Skipped("needs onnxruntime-qnn")


@row("Quantize with the defaults: CPU and memory")
def quantize(bench: Bench) -> Iterator[Line]:
    for name, title in TITLES.items():
        count, model = bench.count(name), str(bench.model(name))
        target = str(bench.folder / f"{name}_qdq.onnx")
        commands = {
            "float": partial(bench.job, "float_inference", model, str(count)),
            "xdlc": partial(bench.quantizing, name, count),
            "peer": partial(bench.job, "onnxruntime_minmax", model, str(count), target),
        }
        bench.converted(name)
        figures = need(in_turns(commands, bench.runs(2)))
        plain, ours, peer = (figures[tool] for tool in commands)
        subject, floats = f"{title}, {count} samples", "float inference"
        yield Line(
            subject, "CPU s", ours.cpu, 3 * plain.cpu + 1, "3 x float inference + 1 s", floats, plain.cpu
        )
        yield Line(subject, "CPU s", ours.cpu, 0.6 * peer.cpu, "0.6 x peer", "onnxruntime min-max", peer.cpu)
        limit = 1.2 * plain.memory / MB + 50
        rule = "1.2 x float session + 50 MB"
        yield Line(subject, "peak MB", ours.memory / MB, limit, rule, "float session", plain.memory / MB)


@row("Quantize with --report")
def report(bench: Bench) -> Iterator[Line]:
    for name, title in TITLES.items():
        count = bench.count(name, most=8)
        folder = bench.folder / f"{name}_samples"
        must(bench.job("write_samples", str(bench.model(name)), str(count), str(folder)))
        words = ["-i", str(bench.converted(name)), "-l", str(folder / "samples.txt")]
        words += ["-o", str(bench.folder / "reported.dlc")]
        page = ["--report", str(bench.folder / "report.html")]
        commands = {
            "plain": partial(measure, tool("xdlc-quantize", *words)),
            "report": partial(measure, tool("xdlc-quantize", *words, *page), timeout=900),
        }
        figures = need(in_turns(commands, bench.runs(1)))
        plain, ours = figures["plain"], figures["report"]
        subject, peer = f"{title}, {count} samples", "without"
        yield Line(subject, "CPU s", ours.cpu, 1.5 * plain.cpu, "1.5 x without", peer, plain.cpu)
        limit = 1.5 * plain.memory / MB
        yield Line(subject, "peak MB", ours.memory / MB, limit, "1.5 x without", peer, plain.memory / MB)


@row("Exact quantized run on the host, one thread")
def exact(bench: Bench) -> Iterator[Line]:
    for name in ("mobilenetv2", "resnet50"):
        model, target = str(bench.model(name)), str(bench.folder / f"{name}_qdq.onnx")
        must(bench.job("onnxruntime_minmax", model, "2", target))
        count = "5" if bench.quick else "20"
        commands = {
            "xdlc": partial(bench.job, "inference", model, count, str(bench.quantized(name))),
            "peer": partial(bench.job, "inference", model, count, target),
        }
        figures = need(in_turns(commands, bench.runs(3)))
        ours, peer = (1000 * figures[tool].cpu for tool in commands)
        yield Line(TITLES[name], "CPU ms a run", ours, 1.3 * peer, "1.3 x peer", "onnxruntime int8 QDQ", peer)


@row("Convert a model, whole process")
def convert(bench: Bench) -> Iterator[Line]:
    tools = ("xdlc", "dump") if bench.has_qnn else ("xdlc",)
    for name, limit in (("mobilenetv2", 0.85), ("resnet50", 0.4), ("bert", 0.18)):
        model = bench.model(name)
        read_once(model)
        figures = need(
            in_turns({tool: partial(_converted, bench, tool, model) for tool in tools}, bench.runs(5))
        )
        ours = figures["xdlc"]
        if "dump" in figures:
            dump, peer = figures["dump"], "onnxruntime-qnn's dump"
            rule = f"{limit:g} x peer"
            yield Line(TITLES[name], "wall s", ours.seconds, limit * dump.seconds, rule, peer, dump.seconds)
            yield Line(TITLES[name], "CPU s", ours.cpu, None, "", peer, dump.cpu)
            yield Line(TITLES[name], "peak MB", ours.memory / MB, 45, "", peer, dump.memory / MB)
        else:
            note = "no peer: needs onnxruntime-qnn"
            yield Line(TITLES[name], "wall s", ours.seconds, note=note)
            yield Line(TITLES[name], "peak MB", ours.memory / MB, 45)


def _converted(bench: Bench, name: str, model: Path) -> Figure:
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        words = converter(name, model, Path(folder), [])
        os.sync()
        return measure(words)


def _external(bench: Bench) -> tuple[Path, str]:
    """Return a model with external data, and its size."""
    blocks = 1 if bench.quick else 23
    size = 0.25 + 0.201 * blocks
    free = shutil.disk_usage(bench.folder).free
    if not (bench.folder / "decoder.onnx").exists() and free < 3.2e9 * size:
        raise Skipped(
            f"needs {3.2 * size:.0f} GB of disk space in {bench.folder}, which has {free / 1e9:.0f}"
        )
    return bench.model("decoder", "--layers", str(blocks)), f"{size:.1f} GB"


@row("Convert a model with external data, whole process")
def external(bench: Bench) -> Iterator[Line]:
    model, size = _external(bench)
    data = f"{model}.data"

    def copied() -> Figure:
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            os.sync()
            return measure(["sh", "-c", 'cp "$@" && sync "$3"/*', "sh", str(model), data, folder])

    read_once(Path(data))
    commands: Commands = {"xdlc": partial(_converted, bench, "xdlc", model), "cp": copied}
    figures = need(in_turns(commands, bench.runs(3)))
    ours, copy, peer = figures["xdlc"], figures["cp"], "cp and sync"
    yield Line(size, "wall s", ours.seconds, 1.2 * copy.seconds, "1.2 x peer", peer, copy.seconds)
    yield Line(size, "CPU s", ours.cpu, None, "", peer, copy.cpu)
    yield Line(size, "peak MB", ours.memory / MB)


PEER_OF_GRAPHS = "onnx load and check"
STEPS = {
    PEER_OF_GRAPHS: ("check", ()),
    "convert": ("convert", ()),
    "xdlc-info --brief": ("info", ("--brief",)),
    "xdlc-info --json": ("info", ("--json",)),
}


@row("Large graphs: what a node costs")
def nodes(bench: Bench) -> Iterator[Line]:
    size = 10_000 if bench.quick else 100_000
    for shape, microseconds, nbytes in (("chain", 60, 2200), ("conv", 150, 5000)):
        empty, large = (_steps(bench, shape, count) for count in (4, size))
        costs = {
            name: (1e6 * (figure.cpu - empty[name].cpu) / size, (figure.memory - empty[name].memory) / size)
            for name, figure in large.items()
        }
        peer_time, peer_memory = costs.pop(PEER_OF_GRAPHS)
        for name, (time, memory) in costs.items():
            subject, quantity = f"{name}, {size:,} {shape}", "CPU us a node"
            if large[name].failure:
                yield Line(subject, quantity, note=large[name].failure)
                continue
            goals = (microseconds, nbytes) if name == "convert" else (None, None)
            yield Line(subject, quantity, time, goals[0], "", PEER_OF_GRAPHS, peer_time)
            yield Line(subject, "bytes a node", memory, goals[1], "", PEER_OF_GRAPHS, peer_memory)


def _steps(bench: Bench, shape: str, size: int) -> dict[str, Figure]:
    """Return the figures of each step with a graph."""
    model = bench.folder / f"{shape}_{size}.onnx"
    bench.do("graphs.py", shape, str(size), str(model))
    figures: dict[str, Figure] = {}
    for name, (step, flags) in STEPS.items():
        words = [*step_of_a_graph(step, model), *flags]
        figures[name] = measure(words)
    return figures


@row("Prepare for HTP: what xdlc adds to the vendor's compiler")
def prepare(bench: Bench) -> Iterator[Line]:
    _need_qnn(bench)
    for name in ("mobilenetv2", "bert"):
        dlc = str(bench.quantized(name))
        words = ["prepare", "-i", dlc, "-o", str(bench.folder / "prepared.dlc"), "--soc", SOC, "--no-verify"]
        commands = {
            "xdlc": partial(measure, tool("xdlc", *words, "--overwrite-cache-records")),
            "vendor": partial(bench.job, "compiler", dlc, SOC),
        }
        figures = need(in_turns(commands, bench.runs(3)))
        total, inside = figures["xdlc"], figures["vendor"].facts["vendor"]
        limit, rule = (0.4, "") if name == "mobilenetv2" else (0.1 * total.cpu, "10 % of the whole")
        yield Line(f"{TITLES[name]} W8A8", "CPU s", total.cpu - inside, limit, rule, "vendor's calls", inside)
        yield Line(f"{TITLES[name]} W8A8", "peak MB", total.memory / MB)
    costs = need(
        in_turns({socs: partial(_prepared, bench, socs) for socs in (*SEVEN, AT_ONCE)}, bench.runs(2))
    )
    at_once, apart = costs[AT_ONCE].seconds, sum(costs[soc].seconds for soc in SEVEN)
    subject, limit = "MobileNetV2 W8A8, seven SoCs at once", 0.6 * apart
    yield Line(subject, "wall s", at_once, limit, "0.6 x peer", "one by one", apart)


def _prepared(bench: Bench, socs: str) -> Figure:
    """Return the cost of preparing MobileNetV2."""
    words = ["-i", str(bench.quantized("mobilenetv2")), "-o", str(bench.folder / "prepared.dlc")]
    return measure(tool("xdlc", "prepare", *words, "--soc", socs, "--no-verify"))


@row("Read a DLC")
def info(bench: Bench) -> Iterator[Line]:
    shown = tool("xdlc-info", "-i", str(bench.converted("small")))
    commands = {
        "xdlc": partial(measure, shown),
        "python": partial(measure, [sys.executable, "-c", "pass"]),
    }
    figures = need(in_turns(commands, bench.runs(15)))
    ours, bare = figures["xdlc"].cpu, figures["python"].cpu
    yield Line("xdlc-info of a small DLC", "CPU s over python", ours - bare, 0.1, "", "python -c pass", bare)


@row("Read the description of a large DLC")
def brief(bench: Bench) -> Iterator[Line]:
    model, size = _external(bench)
    dlc = bench.folder / "decoder.dlc"
    if not dlc.exists():
        bench.must(tool("xconv-onnx-to-dlc", "-i", str(model), "-o", str(dlc)))
    read_once(dlc)
    figures = need(
        in_turns({"xdlc": partial(measure, tool("xdlc-info", "-i", str(dlc), "--brief"))}, bench.runs(5))
    )
    figure = figures["xdlc"]
    yield Line(f"xdlc-info --brief, {size}", "CPU s", figure.cpu, 0.1)
    yield Line(f"xdlc-info --brief, {size}", "wall s", figure.seconds)
    yield Line(f"xdlc-info --brief, {size}", "peak MB", figure.memory / MB)
    dlc.unlink()


@row("Modules that import xdlc and a first conversion load")
def modules(bench: Bench) -> Iterator[Line]:
    words = ("modules", str(bench.model("small")), str(bench.folder / "modules.dlc"))
    facts = must(bench.job(*words)).facts
    subject, peer = "Conv and Relu", "modules of xdlc that run code"
    yield Line(
        subject, "modules of xdlc", facts["ours"], facts["run"], "no more than run code", peer, facts["run"]
    )
    yield Line(subject, "modules of all packages", facts["modules"])


@row("AdaRound, W4A8")
def adaround(bench: Bench) -> Iterator[Line]:
    for name in ("mobilenetv2", "resnet50"):
        count, model = bench.count(name), str(bench.model(name))
        plain = must(bench.job("float_inference", model, str(count)))
        limit = 60 * plain.cpu + 20
        ours = bench.quantizing(name, count, **W4, timeout=2 * limit)
        subject, rule = f"{TITLES[name]}, {count} samples", "60 x float inference + 20 s"
        peer = ("float inference", plain.cpu)
        if ours.failure:
            yield Line(subject, "CPU s", None, limit, rule, *peer, note=ours.failure)
            continue
        yield Line(subject, "CPU s", ours.cpu, limit, rule, *peer)
        yield Line(subject, "peak MB", ours.memory / MB, 1500)


W4: dict[str, Any] = {"weights_bitwidth": 4, "algorithms": "adaround"}


@row("--jobs 2 beside one job: wall time")
def jobs(bench: Bench) -> Iterator[Line]:
    name, count = ("mobilenetv2" if bench.quick else "resnet50"), bench.count("resnet50")
    minmax = {"act_quantizer_calibration": "min-max"}
    quantizer: dict[str, tuple[int, dict[str, Any]]] = {
        "calibration (min-max)": (count, minmax),
        "auto trials": (count, {}),
        "report": (min(count, 8), {**minmax, "report": str(bench.folder / "report.html")}),
    }
    for subject, (samples, options) in quantizer.items():
        yield _gain(subject, bench, partial(bench.quantizing, name, samples, **options))
    small = bench.count("mobilenetv2", most=8)
    options = {**W4, **minmax, "timeout": 120}
    yield _gain("AdaRound", bench, partial(bench.quantizing, "mobilenetv2", small, **options), runs=1)
    if bench.has_qnn:
        socs, prepared = f"{SOC},sm8550", bench.folder / "verified.dlc"
        words = ["-i", str(bench.quantized(name)), "-o", str(prepared), "--soc", socs, "--no-verify"]
        bench.must(tool("xdlc", "prepare", *words, "--overwrite-cache-records"))
        yield _gain(
            "verify two caches", bench, lambda jobs: bench.job("verify", str(prepared), socs, str(jobs))
        )


def _gain(subject: str, bench: Bench, run: Callable[..., Figure], runs: int = 2) -> Line:
    """Return how much faster two jobs are than one."""
    commands = {str(count): partial(run, jobs=count) for count in (1, 2)}
    figures = in_turns(commands, bench.runs(runs))
    failure = figures["1"].failure or figures["2"].failure
    if failure:
        return Line(subject, "wall, 1 job / 2 jobs", None, 1.7, "at least", is_least=True, note=failure)
    ratio = figures["1"].seconds / figures["2"].seconds
    peer = ("wall s of one job", figures["1"].seconds)
    return Line(subject, "wall, 1 job / 2 jobs", ratio, 1.7, "at least", *peer, is_least=True)


@row("HTP emulation of many samples: wall time")
def emulation(bench: Bench) -> Iterator[Line]:
    _need_qnn(bench)
    name = "mobilenetv2" if bench.quick else "resnet50"
    count, model = ("4" if bench.quick else "40"), str(bench.model(name))
    dlc, prepared = str(bench.quantized(name)), str(bench.folder / "emulated.dlc")
    words = ["prepare", "-i", dlc, "-o", prepared, "--soc", SOC, "--no-verify", "--overwrite-cache-records"]
    bench.must(tool("xdlc", *words))
    commands = {
        kind: partial(bench.job, "emulation", model, count, prepared, kind) for kind in ("single", "batch")
    }
    figures = need(in_turns(commands, 1))
    single, batch = figures["single"].seconds, figures["batch"].seconds
    subject, quantity = f"{TITLES[name]} W8A8, {count} samples", "wall, one by one / batch"
    peer = ("wall s one by one", single)
    yield Line(subject, quantity, single / batch, 1.8, "at least", *peer, is_least=True)
