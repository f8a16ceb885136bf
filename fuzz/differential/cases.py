"""What a case of every framework does: engine, conversion, run, ways."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz.differential.frameworks import Framework, Refused, Undefined, foreign
from fuzz.differential.judging import Difference, compare
from fuzz.differential.networks import FILE, Network
from fuzz.differential.reducing import smaller
from fuzz.differential.ways import WAYS, Trip, run
from fuzz.targets import Files, Target
from xdlc.errors import UnsupportedOp, XdlcError

LARGEST = 1 << 20
"""Numbers of the outputs of a network."""


def reason(error: XdlcError) -> str:
    """Return why xdlc refuses a network, without names and numbers."""
    return _bare(str(error).split("\n")[0].split(": ", 1)[-1])[:70]


def _bare(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"|-?\d[\d.e+-]*", "_", text)


def judged(framework: Framework, network: Network, folder: Path) -> str:
    """Take a network through xdlc and compare it with the engine; return the verdict.

    Raises:
        Difference: If xdlc is wrong.
    """
    feeds = network.feeds()
    try:
        with foreign(), np.errstate(all="ignore"):
            theirs = framework.evaluate(network, feeds)
    except Undefined as why:
        return f"undefined: {why}"
    except Refused as refusal:
        return _refused(framework, network, folder, str(refusal))
    if sum(np.size(each) for each in theirs.values()) > LARGEST:
        return "undefined: too large to compare"
    try:
        model = framework.convert(network, folder, feeds)
        ours = run(framework, model, feeds, network, "float")
    except XdlcError as error:
        return f"refused by xdlc: {reason(error)}"
    except Undefined as why:
        return f"undefined: {why}"
    word = compare(framework, network, feeds, ours, theirs, "float")
    trip = Trip(framework, network, model, feeds, theirs, folder)
    for way in network.ways:
        try:
            word = WAYS[way](trip)
        except (UnsupportedOp, Refused, Undefined):
            continue
    return word


def _refused(framework: Framework, network: Network, folder: Path, refusal: str) -> str:
    try:
        model = framework.convert(network, folder, network.feeds())
        run(framework, model, network.feeds(), network, "float")
    except (XdlcError, Difference, Undefined):
        return "refused by both"
    if framework.lacks(network, refusal):
        return f"beyond the engine: {network.ops()[:40]}: {_bare(refusal)[-90:]}"
    raise Difference("computes what the engine refuses", network, refusal)


def target(
    name: str,
    start: Callable[[], Framework],
    generate: Callable[[random.Random], Network] | None,
    *engine: str,
    seconds: int = 5,
) -> Target:
    """Return the target of a generator of networks.

    Args:
        name: Name of the target.
        start: Imports the engine and returns the framework.
        generate: Makes a network; None for a target that lists its cases.
        engine: Modules that the engine needs.
        seconds: Processor time of a case.
    """

    def network_of(rng: random.Random) -> Files:
        assert generate is not None
        with foreign():
            return generate(rng).files()

    def once(folder: Path, rng: random.Random) -> str:
        return judged(start(), Network.read({FILE: (folder / FILE).read_bytes()}), folder)

    def reductions(files: Files) -> list[Files]:
        with foreign():
            return [each.files() for each in smaller(start(), Network.read(files))]

    return Target(
        name,
        tuple,
        once,
        (FILE,),
        network_of if generate else None,
        engine=engine,
        smaller=reductions,
        seconds=seconds,
        start=start,
    )
