"""Verification of caches over a corpus: false alarms, shares, time against that of preparing.

    python bench/verify.py CORPUS [--socs sm8650 qcs6490] [--most 60] [--seconds 900]

Models of CORPUS are converted, and run as floats and quantized with seeded samples.  A line for each network
has seconds to prepare, seconds to verify, the share of ops, the lowest figure of an output, and the problem.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import xdlc
from xdlc.container import cache_provenance
from xdlc.errors import XdlcError
from xdlc.prepare.htp import prepare_all
from xdlc.prepare.htp.seeded_inputs import seeded

SUFFIXES = (".onnx", ".tflite", ".dlc")
LEAST = 100_000
"""Bytes of the smallest file that is a network."""


def networks(corpus: Path, most: int) -> Iterator[tuple[str, xdlc.Model]]:
    """Yield name and model of the smallest files of a corpus, floats and quantized."""
    files = [path for path in corpus.rglob("*") if path.suffix in SUFFIXES and path.stat().st_size > LEAST]
    for path in sorted(files, key=lambda file: file.stat().st_size)[:most]:
        try:
            model = xdlc.load(path) if path.suffix == ".dlc" else xdlc.convert(path)
            yield f"{path.name} float", model
            samples = [seeded(model.main)] * 2
            yield f"{path.name} 8 bits", xdlc.quantize(model, samples, notify=lambda _: None)
        except XdlcError as error:
            print(f"{path.name}: {error.problem:.80}", flush=True)


def options_of(description: str | None, socs: list[str], most: int) -> argparse.Namespace:
    """Return the options of a script about the networks of a corpus."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--socs", nargs="+", default=socs)
    parser.add_argument(
        "--most", type=int, default=most, help="files, the smallest first (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=3600, help="time after which none is begun")
    return parser.parse_args()


def main() -> int:
    options = options_of(__doc__, ["sm8650", "qcs6490"], 60)
    until = time.monotonic() + options.seconds
    ratios, shares, alarms = [], [], 0
    for name, model in networks(options.corpus, options.most):
        for soc in options.socs:
            if time.monotonic() > until:
                break
            start = time.monotonic()
            bare = prepare_all(model, [soc], verify=False, timeout=120)
            middle = time.monotonic()
            if bare.problems:
                print(f"{name} {soc}: not prepared: {bare.problems[0].problem:.80}", flush=True)
                continue
            result = prepare_all(bare.model, [soc])
            prepared, verified = middle - start, time.monotonic() - middle
            facts = [each.verified for each in cache_provenance.read(result.model).values() if each.verified]
            alarms += bool(result.problems)
            problem = f"{result.problems[0].where}: {result.problems[0].problem}" if result.problems else ""
            if facts:
                ratios.append(verified / prepared)
                shares.append(facts[0].share)
                problem = (
                    f"lowest {min((o.sqnr for o in facts[0].outputs.values()), default=float('nan'))} dB"
                )
            text = problem or "".join(result.notices)
            print(f"{name} {soc}: {prepared:.1f} s, {verified:.1f} s, {shares[-1:]}, {text}", flush=True)
    print(f"{len(ratios)} verified, {alarms} errors, share 100 % of {shares.count(1.0)}")
    if ratios:
        print(f"median time of verifying over preparing: {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
