"""Verdicts of the sweep: a network of cases on the host and the emulation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xdlc
from fuzz.sweep.draft import SAMPLES, Draft, feeds, network, prefix
from xdlc.errors import XdlcError, each_problem
from xdlc.ir import Model, ScaleOffset
from xdlc.passes.base import REPORT
from xdlc.worker.process import ChildDiedError

Results = Mapping[str, Any]
MODES = {"float": None, "w8a8": 8, "w8a16": 16}
"""Bits of activations by mode; None: floats."""
FLOAT_LOSS = 1e-2
"""Relative L2 distance of HTP's floats to the host's beyond which a case is looked at closely."""
STEPS = 2
"""8 bits: steps off beyond which a case is looked at closely."""
OWN_LOSS = 1.5
"""8 bits: times the host's distance to the floats that HTP's may be, in L2 and at most."""
OWN_SHARE = 0.1
"""8 bits: share of the signal beyond which the host's own distance to the floats excuses nothing."""
NEAR_ZERO = {"Atan", "Celu", "Elu", "Selu", "Sin"}
"""Functions of floats that are off near 0, as docs/reference/htp-faults.md states."""
NEAR_ZERO_LOSS = 1.6e-4
DECIBELS = 30
"""16 bits: least SQNR of HTP against the host."""
EXCUSES = ("float16", "stated", "steps")
"""Words for cases that are off for a reason that is no fault."""


@dataclass(frozen=True)
class Verdict:
    """What became of a case.

    Attributes:
        case: Name of the case.
        operators: Its operators.
        mode: Its mode.
        soc: The SoC.
        word: ``right``; ``float16`` (off by no more than the host's float16); ``stated`` (off as
            htp-faults.md states); ``steps`` (hardly further from the floats than the host's own fixed
            point); ``refused`` by HTP, ``host`` (an op of it has no form for HTP), ``convert`` (refused on
            conversion or quantization); ``ended`` (the library ended); ``crashed`` (xdlc has a bug);
            ``wrong``; ``spoilt`` (right alone, wrong beside others).
        detail: The error, or its size.
    """

    case: str
    operators: str
    mode: str
    soc: str
    word: str
    detail: str = ""


def judge(cases: Sequence[Draft], mode: str, soc: str) -> list[Verdict]:
    """Return the verdicts of cases, run in one network if HTP accepts it."""
    sound, verdicts = [], []
    for case in cases:
        early = _refused_early(case, mode)
        if early:
            verdicts.append(Verdict(case.name, case.operators, mode, soc, *early))
        elif mode == "float" or case.quantizable:
            sound.append(case)
    return verdicts + _together(sound, mode, soc)


def _refused_early(case: Draft, mode: str) -> tuple[str, str] | None:
    """Return word and reason of a case that does not come as far as HTP."""
    try:
        model = xdlc.convert(network([case]), notify=_ignore)
    except Exception as error:
        return "crashed" if _is_bug(error) else "convert", _line(error)
    host = [op.type for op in model.main.ops if op.package == "xdlc"]
    return ("host", " ".join(host)) if host else None


def _together(cases: Sequence[Draft], mode: str, soc: str) -> list[Verdict]:
    if not cases:
        return []
    try:
        losses = _losses(cases, mode, soc)
    except Exception as error:
        if len(cases) == 1:
            ends = isinstance(error, XdlcError) and any(
                isinstance(one, ChildDiedError) for one in each_problem(error)
            )
            word = "crashed" if _is_bug(error) else "ended" if ends else "refused"
            return [_verdict(cases[0], mode, soc, word, _line(error))]
        parts = _without_named(cases, error)
        return [verdict for part in parts for verdict in _together(part, mode, soc)]
    verdicts = []
    for case, pair in zip(cases, losses, strict=True):
        excuse, loss = pair or ("right", "")
        if excuse:
            verdicts.append(_verdict(case, mode, soc, excuse, loss))
        elif len(cases) > 1:
            alone = _together([case], mode, soc)[0]
            is_spoilt = alone.word in ("right", *EXCUSES) and alone.detail != loss
            verdicts.append(_verdict(case, mode, soc, "spoilt", loss) if is_spoilt else alone)
        else:
            excuse = _excuse(case, soc) if mode == "float" else ""
            verdicts.append(_verdict(case, mode, soc, excuse or "wrong", loss))
    return verdicts


def _excuse(case: Draft, soc: str) -> str:
    """Return the reason why floats are off without a fault, or ""."""
    if _within_float16(case, soc):
        return "float16"
    return "stated" if _is_near_zero(case, soc) else ""


def _verdict(case: Draft, mode: str, soc: str, word: str, detail: str = "") -> Verdict:
    return Verdict(case.name, case.operators, mode, soc, word, detail)


def _is_bug(error: Exception) -> bool:
    """Return whether an error is one of xdlc rather than of a case."""
    if not isinstance(error, XdlcError):
        return True
    return any(one.fix == REPORT or " ended with status " in one.problem for one in each_problem(error))


def _without_named(cases: Sequence[Draft], error: Exception) -> list[Sequence[Draft]]:
    """Return the cases that an error names and the others, or quarters."""
    named = {int(number) for number in re.findall(r"\bk(\d+)_", str(error))}
    if named and len(named) < len(cases):
        others = [case for index, case in enumerate(cases) if index not in named]
        return [*([case] for index, case in enumerate(cases) if index in named), others]
    count = -(-len(cases) // 4)
    return [cases[start : start + count] for start in range(0, len(cases), count)]


def _losses(cases: Sequence[Draft], mode: str, soc: str) -> list[tuple[str, str] | None]:
    """Run cases in one network; return excuse and error of HTP for each, or None."""
    model = _model(cases, mode)
    sample, native = feeds(cases, 0), MODES[mode] == 8
    host = xdlc.run(model, sample, native=native)
    htp = xdlc.run(model, sample, runtime="htp", soc=soc, native=native)
    losses: list[tuple[str, str] | None] = []
    for index, case in enumerate(cases):
        own = [name for name in host if name.startswith(prefix(index))]
        own_losses = [loss for name in own if (loss := _loss(host[name], htp[name], mode))]
        is_close = native and bool(own_losses) and _within_own_loss(case, prefix(index), model, host, htp)
        losses.append(("steps" if is_close else "", own_losses[0]) if own_losses else None)
    return losses


def _model(cases: Sequence[Draft], mode: str) -> Model:
    model = xdlc.convert(network(cases), notify=_ignore)
    bits = MODES[mode]
    if bits is None:
        return model
    samples = [feeds(cases, number) for number in range(SAMPLES)]
    return xdlc.quantize(model, samples, act_bitwidth=bits, notify=_ignore)


def _loss(host: Any, htp: Any, mode: str) -> str | None:
    """Return how far a result is from the host's, if too far."""
    if host.shape != htp.shape:
        return f"shape {htp.shape} for {host.shape}"
    if not host.size:
        return None
    left, right = (array.astype(np.float64) for array in (host, htp))
    off = np.abs(right - left)
    if host.dtype.kind in "biu" and mode == "float":
        share = float((off != 0).mean())
        return f"{share:.2%} of integers differ, by up to {off.max():g}" if share else None
    if host.dtype in (np.uint8, np.int8):
        share = float((off > STEPS).mean())
        return f"{share:.2%} off by more than {STEPS} steps, up to {off.max():g}" if share else None
    if not np.isfinite(right[np.isfinite(left)]).all():
        return "not finite"
    power, noise = float((left**2).sum()), float((off[np.isfinite(left)] ** 2).sum())
    if mode != "float":
        decibels = 10 * np.log10(power / noise) if noise else np.inf
        return f"{decibels:.1f} dB" if decibels < DECIBELS else None
    loss = (noise / power) ** 0.5 if power else noise**0.5
    return f"{loss:.2g}" if loss > FLOAT_LOSS else None


def _within_float16(case: Draft, soc: str) -> bool:
    """Return whether the host's float16 error is a quarter of HTP's or more."""
    sample = feeds([case], 0)
    whole = xdlc.run(xdlc.convert(network([case]), notify=_ignore), sample)
    half_model = xdlc.annotate(xdlc.convert(network([case]), notify=_ignore), float_bitwidth=16)
    half = xdlc.run(half_model, sample)
    htp = xdlc.run(half_model, sample, runtime="htp", soc=soc)
    for name, values in whole.items():
        exact, rounded, found = (each[name].astype(np.float64) for each in (whole, half, htp))
        own = np.linalg.norm((rounded - exact)[np.isfinite(exact)])
        if not np.linalg.norm((found - exact)[np.isfinite(exact)]) <= max(
            4 * own, FLOAT_LOSS * np.linalg.norm(values)
        ):
            return False
    return True


def _is_near_zero(case: Draft, soc: str) -> bool:
    """Return whether a function is off by no more than it is near 0."""
    if case.operators not in NEAR_ZERO:
        return False
    model, sample = _model([case], "float"), feeds([case], 0)
    host, htp = xdlc.run(model, sample), xdlc.run(model, sample, runtime="htp", soc=soc)
    return all(bool((np.abs(htp[name] - host[name]) <= NEAR_ZERO_LOSS).all()) for name in host)


def _within_own_loss(case: Draft, start: str, model: Model, host: Results, htp: Results) -> bool:
    """Return whether HTP's error in fixed point is similar to the host's.

    A step between two operators, which each rounds its own way at a tie, may become several of the result.

    Args:
        start: What its names begin with in the network of several.
        model: That network.
        host: Its results on the host, as they are stored.
        htp: Those on HTP.
    """
    alone = prefix(0)
    floats = xdlc.run(_model([case], "float"), feeds([case], 0))
    for name, exact in floats.items():
        name = start + name.removeprefix(alone)
        encoding = model.main.tensors[name].encoding
        if not isinstance(encoding, ScaleOffset):
            return False
        finite = np.isfinite(exact)
        if not finite.any():
            return False
        own, theirs = (
            np.abs((each[name].astype(np.float64) + encoding.offset) * encoding.scale - exact)[finite]
            for each in (host, htp)
        )
        if np.linalg.norm(own) > OWN_SHARE * np.linalg.norm(exact[finite]):
            return False
        if np.linalg.norm(theirs) > OWN_LOSS * np.linalg.norm(own) or theirs.max() > OWN_LOSS * own.max():
            return False
    return True


def _ignore(line: str) -> None:
    """Leave out a notice."""


def _line(error: Exception) -> str:
    return re.sub(r"\bk\d+_", "", str(error).split("\n")[0])[:300]
