"""Command line of the sweep.

::

    python -m fuzz.sweep.run --seconds 3600                 # all families, modes and SoCs
    python -m fuzz.sweep.run --seconds 600 --families pool,convolution --modes float --socs sm8650
    python -m fuzz.sweep.run --case pool/17 --modes float   # one case again, with its nodes

Every batch has a case of each family in one network; batch N is always the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from itertools import count
from pathlib import Path

from fuzz.sweep.draft import FAMILIES, draw
from fuzz.sweep.judge import MODES, Verdict, judge

SOCS = ("sm8650", "sm8550", "sm8750", "sm8850", "qcs6490")
"""A SoC of each generation; the first is that of every second batch."""
FIXED_ONLY = ("qcs6490",)
"""SoCs without floats."""
BAD = ("wrong", "spoilt", "crashed")


def plans(modes: list[str], socs: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield number, mode and SoC of each batch, without end."""
    pairs = [(mode, soc) for mode in modes for soc in socs if mode != "float" or soc not in FIXED_ONLY]
    first = [pair for pair in pairs if pair[1] == socs[0]]
    for number in count():
        mode, soc = (first if number % 2 == 0 else pairs)[
            number // 2 % len(first if number % 2 == 0 else pairs)
        ]
        yield number, mode, soc


def batch(number: int, families: list[str], mode: str, soc: str) -> list[Verdict]:
    """Judge the cases of one number of some families."""
    warnings.simplefilter("ignore")
    drafts = (draw(name, number) for name in families)
    return judge([draft for draft in drafts if draft is not None], mode, soc)


def _quiet() -> None:
    """Let no engine write to the terminal."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.nice(5)


def sweep(options: argparse.Namespace) -> Iterator[Verdict]:
    """Yield verdicts as they come, until the time is over or all batches are done."""
    deadline = time.monotonic() + options.seconds
    waiting = plans(options.modes, options.socs)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, _quiet) as pool:
        running: set[Future[list[Verdict]]] = set()
        for number, mode, soc in waiting:
            if number >= options.batches or time.monotonic() > deadline:
                break
            running.add(pool.submit(batch, number + options.start, options.families, mode, soc))
            if len(running) >= 2 * options.jobs:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield from future.result()
        for future in running:
            if not future.cancel():
                yield from future.result()


def show(name: str, modes: list[str], socs: list[str]) -> None:
    """Print the nodes of one case and its verdicts."""
    kind, _, number = name.partition("/")
    draft = draw(kind, int(number))
    if draft is None:
        print(f"{name}: its choices make no network")
        return
    for key, samples in draft.inputs.items():
        print(f"{key}: {samples[0].dtype} {list(samples[0].shape)}")
    for key, array in draft.constants.items():
        print(f"{key}: {array.dtype} {list(array.shape)}", array.tolist() if array.size < 9 else "")
    for type, sources, results, attributes in draft.nodes:
        print(f"{', '.join(results)} = {type}({', '.join(sources)}) {attributes or ''}")
    for mode in modes:
        for soc in socs:
            for verdict in judge([draft], mode, soc):
                print(f"{mode} {soc}: {verdict.word} {verdict.detail}")


def _counts(words: Counter[str]) -> str:
    return ", ".join(f"{word} {number}" for word, number in words.most_common())


def _names(text: str) -> list[str]:
    return text.split(",")


def main() -> int:
    """Run the command line; return 1 if HTP computes a case otherwise than the host."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.sweep.run", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1e9, help="time in all")
    parser.add_argument("--batches", type=int, default=1 << 40, help="number of batches")
    parser.add_argument("--start", type=int, default=0, help="number of the first batch")
    parser.add_argument(
        "--families", default=sorted(FAMILIES.all()), help="names separated by commas", type=_names
    )
    parser.add_argument("--leave", default=[], help="names of families to leave out", type=_names)
    parser.add_argument("--modes", default=list(MODES), help=f"of {','.join(MODES)}", type=_names)
    parser.add_argument("--socs", default=list(SOCS), help=f"default: {','.join(SOCS)}", type=_names)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--work", type=Path, default=Path("fuzz-work"), help="folder of sweep.jsonl")
    parser.add_argument("--case", help="name of a case to show and run alone")
    options = parser.parse_args()
    options.families = [name for name in options.families if name not in options.leave]
    if options.case:
        show(options.case, options.modes, options.socs)
        return 0
    if options.seconds > 1e8 and options.batches > 1 << 39:
        parser.error("state --seconds or --batches")
    options.work.mkdir(parents=True, exist_ok=True)
    words: Counter[str] = Counter()
    by_family: dict[str, Counter[str]] = {}
    with (options.work / "sweep.jsonl").open("a", buffering=1) as log:
        for verdict in sweep(options):
            print(json.dumps(asdict(verdict)), file=log)
            words[verdict.word] += 1
            by_family.setdefault(verdict.case.partition("/")[0], Counter())[verdict.word] += 1
            if verdict.word in BAD:
                print(*asdict(verdict).values(), flush=True)
    for name, counted in sorted(by_family.items()):
        print(f"{name}: {_counts(counted)}")
    print(f"{words.total()} cases: {_counts(words)}")
    return int(any(words[word] for word in BAD))


if __name__ == "__main__":
    sys.exit(main())
