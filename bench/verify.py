"""Verification of caches over a corpus: false alarms, shares, time against that of preparing.

    python bench/verify.py CORPUS [--socs sm8650 qcs6490] [--most 120] [--seconds 3600] [--results FILE]

Models of CORPUS are converted, and run as floats and quantized with seeded samples, the smallest files first.
A line of JSON for each cache has seconds to prepare and to verify, the share of ops, the lowest figure of an
output, and the problem.  Lines are added to FILE, and caches that it has are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import xdlc
from xdlc.container import cache_provenance
from xdlc.errors import XdlcError, each_problem
from xdlc.opdefs.traits import macs
from xdlc.prepare.htp import prepare
from xdlc.prepare.htp.compile_jobs import Site
from xdlc.prepare.htp.verify import Verifying, seeded, verify_caches
from xdlc.runtime.htp.process import ForkServer, stored_model
from xdlc.worker.executors import Workers

SUFFIXES = (".onnx", ".tflite", ".dlc", ".caffemodel", ".pt2")
LEAST = 10_000
"""Bytes of the smallest file that is a network."""
SMALL = 20e6
"""Multiply-accumulates below which all ops are to be verified."""


def networks(
    corpus: Path, most: int, is_done: Callable[[str], bool] = lambda _: False
) -> Iterator[tuple[str, xdlc.Model]]:
    """Yield name and model of the smallest files of a corpus, floats and quantized.

    Args:
        is_done: Tells of a name that it is not needed.
    """
    sizes = {path: path.stat().st_size for path in corpus.rglob("*") if path.suffix in SUFFIXES}
    files = sorted((path for path in sizes if sizes[path] > LEAST), key=lambda path: sizes[path])
    for path in files[:most]:
        for form in ("as is", "8 bits"):
            name = f"{path.relative_to(corpus)} {form}"
            if is_done(name):
                continue
            try:
                model = _read(path)
                if form == "8 bits":
                    model = xdlc.quantize(model, [seeded(model.main)] * 2, notify=lambda _: None)
            except XdlcError as error:
                print(f"{name}: {error.problem:.80}", flush=True)
                continue
            yield name, model


def _read(path: Path) -> xdlc.Model:
    if path.suffix == ".dlc":
        return xdlc.load(path)
    if path.suffix == ".caffemodel":
        return xdlc.convert(next(path.parent.glob("*.prototxt")), weights=path)
    return xdlc.convert(path)


def row(model: xdlc.Model, soc: str) -> dict[str, Any]:
    """Return the figures of a cache."""
    start = time.monotonic()
    try:
        stored = prepare(model, [soc], verify=False, timeout=120, notify=lambda _: None)
    except XdlcError as error:
        return {"problem": f"not prepared: {each_problem(error)[0].problem:.120}"}
    prepared = time.monotonic() - start
    with stored_model(stored) as path, ForkServer(path) as server:
        server.launch().end()  # the process that has compiled is there already
        start = time.monotonic()
        site = Site(stored, path, Workers(), server)
        result = verify_caches(site, [soc], Verifying(), name="model", timeout=120)
        verified = time.monotonic() - start
    figures: dict[str, Any] = {
        "prepare": round(prepared, 2),
        "verify": round(verified, 2),
        "macs": sum(macs(op) for graph in model.graphs.values() for op in graph.ops),
        "notices": list(result.notices),
    }
    for alarm in result.failures.values():
        figures["alarm"] = f"{alarm.where}: {alarm.problem}"
    for facts in cache_provenance.read(stored).values():
        if facts.verified is not None:
            lowest = min((output.sqnr for output in facts.verified.outputs.values()), default=None)
            figures |= {"share": facts.verified.share, "judged": facts.verified.judged, "lowest": lowest}
    return figures


def summary(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences about all caches."""
    verified = [figures for figures in rows.values() if "share" in figures]
    networks = {name.rsplit(" ", 1)[0] for name, figures in rows.items() if "share" in figures}
    alarms = sum("alarm" in figures for figures in rows.values())
    yield f"{len(networks)} networks, {len(verified)} caches verified, {alarms} alarms"
    small = [figures for figures in verified if figures["macs"] < SMALL]
    for title, group in (("all", verified), ("below 20 M multiply-accumulates", small)):
        yield f"{title}: {sum(figures['share'] == 1 for figures in group)} of {len(group)} verified whole"
    for form in ("as is", "8 bits"):
        ratios = [
            figures["verify"] / figures["prepare"]
            for name, figures in rows.items()
            if "share" in figures and form in name
        ]
        if ratios:
            yield f"{form}: median time of verifying over preparing {statistics.median(ratios):.2f}"


def parser_of(description: str | None, socs: list[str], most: int) -> argparse.ArgumentParser:
    """Return the parser of a script about the networks of a corpus."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--socs", nargs="+", default=socs)
    parser.add_argument(
        "--most", type=int, default=most, help="files, the smallest first (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=3600, help="time after which none is begun")
    return parser


def main() -> int:
    parser = parser_of(__doc__, ["sm8650", "qcs6490"], 120)
    parser.add_argument("--results", type=Path, help="file that lines are added to")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    rows: dict[str, Any] = {}
    if options.results is not None and options.results.exists():
        for line in options.results.read_text().splitlines():
            figures = json.loads(line)
            rows[figures["cache"]] = figures

    def is_done(name: str) -> bool:
        return all(f"{name} {soc}" in rows for soc in options.socs) or time.monotonic() > until

    for network, model in networks(options.corpus, options.most, is_done):
        for soc in options.socs:
            name = f"{network} {soc}"
            if name not in rows:
                rows[name] = {"cache": name, **row(model, soc)}
                line = json.dumps(rows[name])
                print(line, flush=True)
                if options.results is not None:
                    with options.results.open("a") as file:
                        file.write(line + "\n")
    print(*summary(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
