"""Fit milliseconds to the cost of networks, by measured times of real devices.

    pip download --no-deps qai-hub-models
    python bench/fit_times.py rows  --rows rows.jsonl --wheel WHEEL
    python bench/fit_times.py fit   --rows rows.jsonl --wheel WHEEL
    python bench/fit_times.py final --rows rows.jsonl --wheel WHEEL --data times.json

``rows`` builds the networks of ``time_networks.py`` with random weights, converts them, quantizes them for
W8A8 with one random sample, and writes a line with the features of ``xdlc.cost.times`` for each network,
precision and SoC. It leaves out what the file has; it needs torch, torchvision, timm, transformers,
ultralytics, the wheel itself and onnxruntime-qnn, and takes hours.

``fit`` reads the measured times from the wheel (``perf.yaml``, BSD-3-Clause), of the runtime ``qnn_dlc`` on
the NPU, and prints errors for networks left out one at a time, beside those of a fit to parameters and MACs.
A network is left out where the wheel states another graph: a number of parameters that differs by more than
3 %, or a number of layers by more than 20 % and 4. A fifth of the rest, by the SHA-256 of the name, is kept
apart. ``final`` looks at these too, and writes coefficients, ranges and errors for the package; no measured
time is in them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from xdlc.cost.times import FEATURES, FLOAT16, SCHEMA, W8A8

Array = np.ndarray[Any, np.dtype[np.float64]]
Slopes = Callable[[Array, Array], Array]
DEVICES = {
    "sm8650": "Samsung Galaxy S24",
    "sm8750": "Samsung Galaxy S25",
    "sc8380xp": "Snapdragon X Elite CRD",
    "sm8450": "Samsung Galaxy S22 5G",
}
PRECISIONS = {FLOAT16: "float", W8A8: "w8a8"}
"""Names in the wheel by those of xdlc."""
RUNTIME = "qnn_dlc"
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}
_FEW = ("curves", "norms", "narrow", "outputs")
"""Features that a network may lack."""
FEWEST = 24
"""Networks below which nothing is fitted."""


def is_kept_apart(network: str) -> bool:
    """Return whether a network is kept apart until the end."""
    return int(hashlib.sha256(f"{network} 2026-11-29".encode()).hexdigest(), 16) % 5 == 0


Key = tuple[str, str, str]
"""Network, precision and SoC."""


@dataclass(frozen=True)
class Wheel:
    """What the wheel states.

    Attributes:
        times: Measured milliseconds.
        layers: Number of layers that ran.
        parameters: Number of parameters by network.
    """

    times: dict[Key, float]
    layers: dict[Key, int]
    parameters: dict[str, float]


def read_wheel(path: Path) -> Wheel:
    """Return what a wheel states of networks of one part that run on the NPU."""
    import yaml

    socs = {device: soc for soc, device in DEVICES.items()}
    content = Wheel({}, {}, {})
    with zipfile.ZipFile(path) as archive:
        for member in sorted(archive.namelist()):
            folder, _, file = member.rpartition("/")
            network = folder.rpartition("/")[2]
            if file not in ("perf.yaml", "manifest.yaml"):
                continue
            text = yaml.load(archive.read(member), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if file == "manifest.yaml":
                stated = str((text.get("technical_details") or {}).get("Number of parameters", ""))
                if match := re.fullmatch(r"([\d.]+)([KMB]?)", stated):
                    content.parameters[network] = float(match[1]) * _UNITS[match[2]]
                continue
            for precision, label in PRECISIONS.items():
                parts = (text.get("precisions") or {}).get(label, {}).get("components") or {}
                for part in parts.values():
                    for device, runtimes in (part.get("performance_metrics") or {}).items():
                        run = runtimes.get(RUNTIME) or {}
                        if len(parts) > 1 or device not in socs or run.get("primary_compute_unit") != "NPU":
                            continue
                        if run.get("inference_time_milliseconds"):
                            key = (network, precision, socs[device])
                            content.times[key] = run["inference_time_milliseconds"]
                            content.layers[key] = run["layer_counts"]["total"]
    return content


def why_left_out(row: dict[str, Any], wheel: Wheel) -> str | None:
    """Return why a row is of another graph than the wheel's, if it is; its time is not looked at."""
    stated = wheel.parameters.get(row["network"], row["parameters"])
    if abs(row["parameters"] / stated - 1) > 0.03:
        return f"{row['parameters']:,} parameters, the wheel states {stated:,.0f}"
    if row["precision"] == W8A8 and row["features"]["norms"]:
        return "it has normalizations, as too few of W8A8 have"
    layers = wheel.layers[_key(row)]
    if abs(row["ops"] - layers) > max(4, 0.2 * layers):
        return f"{row['ops']} ops, the wheel states {layers} layers"
    return None


def _key(row: dict[str, Any]) -> Key:
    return row["network"], row["precision"], row["soc"]


def non_negative(matrix: Array, target: Array) -> Array:
    """Return the least-squares solution without negative coefficients (Lawson and Hanson)."""
    count = matrix.shape[1]
    active: list[int] = []
    solution = np.zeros(count)
    for _ in range(10 * count):
        slope = matrix.T @ (target - matrix @ solution)
        rest = [index for index in range(count) if index not in active and slope[index] > 1e-9]
        if not rest:
            break
        active.append(max(rest, key=lambda index: slope[index]))
        while active:
            trial = np.zeros(count)
            trial[active] = np.linalg.lstsq(matrix[:, active], target, rcond=None)[0]
            if trial[active].min() > 0:
                solution = trial
                break
            falling = [index for index in active if trial[index] <= 0]
            part = min(solution[index] / max(solution[index] - trial[index], 1e-12) for index in falling)
            solution = np.maximum(solution + part * (trial - solution), 0)
            active = [index for index in active if solution[index] > 1e-12]
    return solution


def factors(matrix: Array, coefficients: Array) -> Array:
    """Return factors of the features whose products with the coefficients add up to the time.

    They are the slopes of ``xdlc.cost.times.time``, which is homogeneous.
    """
    parts = matrix * coefficients
    memory, rest = parts[:, 1], parts[:, 2:].sum(1)
    whole = np.maximum(np.hypot(memory, rest), 1e-9)
    result = np.ones_like(matrix)
    result[:, 1] = memory / whole
    result[:, 2:] = (rest / whole)[:, None]
    return result


def plain(matrix: Array, coefficients: Array) -> Array:
    """Return the factors of a sum."""
    return np.ones_like(matrix)


def fitted(matrix: Array, times: Array, slopes: Slopes = factors) -> Array:
    """Return coefficients with the least sum of relative errors: least squares, weighted again."""
    weights = np.ones(len(times))
    # The start gives each feature the same share.
    solution = np.median(times) / matrix.shape[1] / np.maximum(matrix.mean(0), 1e-9)
    for _ in range(60):
        rows = matrix * slopes(matrix, solution) * (weights / times)[:, None]
        solution = (solution + non_negative(rows, weights)) / 2
        relative = estimated(matrix, solution, slopes) / times - 1
        weights = 1 / np.sqrt(np.maximum(np.abs(relative), 0.02))
    return np.where(solution < 1e-9, 0, solution)


def estimated(matrix: Array, coefficients: Array, slopes: Slopes = factors) -> Array:
    """Return the estimate for each network."""
    return (matrix * slopes(matrix, coefficients)) @ coefficients


def left_out(matrix: Array, times: Array, slopes: Slopes = factors) -> Array:
    """Return the estimate for each network by a fit to the others."""
    return np.concatenate(
        [
            estimated(
                matrix[[index]],
                fitted(np.delete(matrix, index, 0), np.delete(times, index), slopes),
                slopes,
            )
            for index in range(len(times))
        ]
    )


def errors(estimates: Array, times: Array) -> dict[str, float]:
    """Return the median and the worst relative error, and the rank correlation."""
    relative = np.abs(estimates / times - 1)
    ranks = [np.argsort(np.argsort(values)) for values in (estimates, times)]
    return {
        "median": round(float(np.median(relative)), 3),
        "worst": round(float(relative.max()), 3),
        "rank_correlation": round(float(np.corrcoef(ranks[0], ranks[1])[0, 1]), 3),
    }


def fit(rows: Sequence[dict[str, Any]], times: Array) -> tuple[dict[str, Any], Array]:
    """Return the fit to the rows of a device for the package, and the estimates for those left out."""
    matrix = np.array([[row["features"][name] for name in FEATURES] for row in rows])
    estimates = left_out(matrix, times)
    low, high = np.quantile(times / estimates, (0.1, 0.9))
    record = {
        "networks": len(rows),
        "coefficients": dict(
            zip(FEATURES, (float(f"{each:.4g}") for each in fitted(matrix, times)), strict=True)
        ),
        "ranges": {
            name: (0.0 if name in _FEW else float(column.min()), float(column.max()))
            for name, column in zip(FEATURES, matrix.T, strict=True)
        },
        "ratios": (round(float(low), 3), round(float(high), 3)),
        "left_out": errors(estimates, times),
        "kept_apart": {"networks": 0},
    }
    return record, estimates


def by_card(rows: Sequence[dict[str, Any]]) -> Array:
    """Return what a model card knows: parameters and MACs."""
    return np.array([[1.0, row["parameters"] / 1e6, row["macs"] / 1e9] for row in rows])


def report(rows: list[dict[str, Any]], wheel: Wheel, final: bool) -> list[dict[str, Any]]:
    """Print the errors for each device and precision, and return the fits."""
    records = []
    print(f"{'device':24} {'bits':8} {'':10} {'n':>3} {'median':>7} {'worst':>7} {'rank':>6}")
    for soc, device in DEVICES.items():
        for precision in PRECISIONS:
            own = [row for row in rows if _key(row)[1:] == (precision, soc) and _key(row) in wheel.times]
            reasons = {row["network"]: why_left_out(row, wheel) for row in own}
            own = [row for row in own if reasons[row["network"]] is None]
            own.sort(key=lambda row: row["network"])
            apart = [row for row in own if is_kept_apart(row["network"])]
            own = [row for row in own if not is_kept_apart(row["network"])]
            if len(own) < FEWEST:
                continue
            values, unseen = (np.array([wheel.times[_key(row)] for row in part]) for part in (own, apart))
            record, estimates = fit(own, values)
            card = left_out(by_card(own), values, plain)
            _line(device, precision, "fit", len(own), record["left_out"])
            _line("", "", "card", len(own), errors(card, values))
            if final and apart:
                matrix = np.array([[row["features"][name] for name in FEATURES] for row in apart])
                coefficients = np.array(list(record["coefficients"].values()))
                figures = errors(estimated(matrix, coefficients), unseen)
                record["kept_apart"] = {"networks": len(apart), **figures}
                _line("", "", "apart", len(apart), figures)
                card = by_card(apart) @ fitted(by_card(own), values, plain)
                _line("", "", "card apart", len(apart), errors(card, unseen))
            order = np.argsort(-np.abs(estimates / values - 1))[:8]
            largest = (f"{own[at]['network']} {estimates[at] / values[at] - 1:+.0%}" for at in order)
            print("    largest:", ", ".join(largest))
            for network, reason in sorted(reasons.items()):
                if reason:
                    print(f"    left out: {network}: {reason}")
            head = {"device": device, "soc": soc, "vtcm_mb": own[0]["vtcm_mb"], "precision": precision}
            records.append({**head, **record})
    return records


def _line(device: str, precision: str, kind: str, count: int, figures: dict[str, float]) -> None:
    shares = f"{figures['median']:7.1%} {figures['worst']:7.1%} {figures['rank_correlation']:6.3f}"
    print(f"{device:24} {precision:8} {kind:10} {count:3} {shares}")


def new_rows(network: str, wanted: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a network that are wanted, by precision and SoC."""
    import torch
    from time_networks import build

    import xdlc
    from xdlc import passes
    from xdlc.content.static_cost import static_cost
    from xdlc.cost.device import device_costs
    from xdlc.cost.times import features
    from xdlc.runtime.htp import CompileOptions
    from xdlc.targets import find_soc

    module, inputs = build(network)
    stages = passes.stage
    names = [f"x{place}" for place in range(len(inputs))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        torch.onnx.export(module, inputs, str(path), input_names=names, opset_version=17, dynamo=False)
        # The wheel's networks were compiled with images channel-last, and their normalization is in no layer.
        layout = {4: "NHWC", 5: "NDHWC"}.get(inputs[0].dim())
        layouts: Any = {"desired_input_layout": {"x0": layout}} if layout else {}
        with patch.object(
            passes,
            "stage",
            lambda name: [entry for entry in stages(name) if entry.name != "fold_preprocessing"],
        ):
            model_of_floats = xdlc.convert(path, **layouts)
        floats = next(iter(model_of_floats.graphs.values()))
        card = static_cost(floats)
        for precision in PRECISIONS:
            model = model_of_floats
            socs = [soc for soc in DEVICES if (precision, soc) in wanted]
            if precision == W8A8 and socs:
                random = np.random.default_rng(0)
                sample = {
                    each.name: random.random(each.shape, np.float32)
                    if each.dtype.is_float
                    else np.ones(each.shape, np.int32)
                    for each in floats.inputs
                }
                model = xdlc.quantize(model_of_floats, [sample], act_quantizer_calibration="min-max")
            graph = next(iter(model.graphs.values()))
            for soc in socs:
                (cost,) = device_costs(model, find_soc(soc), CompileOptions(), timeout=240)
                yield {
                    "network": network,
                    "precision": precision,
                    "soc": soc,
                    "vtcm_mb": cost.vtcm_mb,
                    "build": cost.build,
                    "features": features(cost, graph),
                    "ops": len(graph.ops),
                    "parameters": card.parameters,
                    "macs": card.macs,
                }


def write_rows(path: Path, networks: Sequence[str], times: dict[Key, float]) -> None:
    """Append the rows that a file lacks and for which there is a time."""
    from xdlc.errors import XdlcError

    present = {(row["network"], row["precision"], row["soc"]) for row in read_rows(path)}
    for network in networks:
        lacking = {key[1:] for key in times if key[0] == network} - {
            key[1:] for key in present if key[0] == network
        }
        if not lacking:
            continue
        try:
            for row in new_rows(network, lacking):
                with open(path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        except XdlcError as error:
            print(f"{network}: {error}", file=sys.stderr)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("rows", "fit", "final"))
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--networks", help="names, with commas between; default: all")
    options = parser.parse_args()
    wheel = read_wheel(options.wheel)
    if options.step == "rows":
        from time_networks import NETWORKS

        networks = options.networks.split(",") if options.networks else list(NETWORKS)
        write_rows(options.rows, networks, wheel.times)
        return
    rows = read_rows(options.rows)
    records = report(rows, wheel, options.step == "final")
    if options.data:
        version = options.wheel.name.split("-")[1]
        source = f"qai-hub-models {version} (PyPI, BSD-3-Clause), perf.yaml, runtime {RUNTIME}, unit NPU"
        content = {"schema": SCHEMA, "source": source, "build": rows[0]["build"], "fits": records}
        options.data.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
