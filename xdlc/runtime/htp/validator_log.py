"""Turning what the vendor's validator logs into a reason and a way out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdlc.ir.dtype import BY_NAME
from xdlc.runtime.htp.op_facts import NO_FACTS, OpFacts
from xdlc.runtime.htp.validator_patterns import operation, read

_NOISE = re.compile(
    r"QnnBackend_validateOpConfig failed|Failed to validate op|Op specific validation failed|"
    r"validateNativeOps master op validator|Input tensor \d+ failed common|Op config was not well|"
    r"Please refer to the|None of the combinations match|does not have any dynamic dimensions"
)
_ELEMENT = re.compile(r"((?:in|out)\[\d+\]):\s*QNN_DATATYPE_([A-Z0-9_]+)")
_MOST_SETS = 8
FIXED_EXTENTS = "a tensor has open extents, HTP takes fixed ones only"
BIND_EXTENTS = "convert the model again with --input_dim, --define_symbol or --batch"
_OPEN = ("can only have static dimensions", "has dynamic dimensions")
_OP_UNKNOWN = 4005

_UNSUPPORTED = re.compile(r"SocModel doesn't support (\w+)")


def lacking(log: Sequence[str]) -> str | None:
    """Return the number format that the SoC lacks altogether (``FP16``), if the log says so."""
    found = (_UNSUPPORTED.search(line) for line in log)
    return next((match[1] for match in found if match), None)


def explain(kind: str, code: int, log: Sequence[str], facts: OpFacts = NO_FACTS) -> tuple[str, str]:
    """Return the reason, with the library's own words, and the fix for a refused op.

    Args:
        kind: Type of the op, with its package where that is not the native one.
        code: Error code of the validator.
        log: Lines the validator logged.
        facts: The op.
    """
    lines = [line for line in log if not _NOISE.search(line)]
    if "." in kind:
        return (
            f"HTP knows no op package {kind.rsplit('.', 1)[0]!r} (QNN error {code})",
            "run this op on the host, or replace it by native ops before preparing",
        )
    if code == _OP_UNKNOWN or any("OpValidator not found" in line for line in lines):
        return (
            f"HTP has no op {kind} (QNN error {code})",
            "replace it by ops that HTP has, or cut the model there",
        )
    if any(line.startswith("Unsupported input/output datatypes") for line in lines):
        return _dtypes(lines)
    if any(phrase in line for line in lines for phrase in _OPEN):
        return FIXED_EXTENTS, BIND_EXTENTS
    said = " | ".join(" ".join(line.split()) for line in lines)
    found = read(kind, lines, facts)
    if found is not None:
        return found.reason if found.whole else f"{found.reason}; the library says: {said}", found.fix
    if not lines:
        return _silent(kind, code, facts)
    return f"HTP does not take it; the library says: {said}", "change what the library objects to"


def _silent(kind: str, code: int, facts: OpFacts) -> tuple[str, str]:
    """Return what there is to say where the library says nothing."""
    form = " ".join(filter(None, (kind, operation(kind, facts), facts.types())))
    tables = f"; xdlc's tables of HTP say: {'; '.join(facts.breaches)}" if facts.breaches else ""
    return (
        f"HTP does not take this form of {form} and gives no reason (QNN error {code}){tables}",
        "use another operation, data type or shape for the same result",
    )


def _dtypes(lines: Sequence[str]) -> tuple[str, str]:
    requested = next((line for line in lines if line.startswith("Requested")), "")
    accepted: list[str] = []
    for line in lines:
        if line.startswith("Supported"):
            accepted += [_combination(part) for part in re.split(r"\n\s*\d+:", line)[1:]]
    wanted = set(_combination(requested).split())
    unique = sorted(
        dict.fromkeys(filter(None, accepted)), key=lambda text: -len(wanted.intersection(text.split()))
    )
    shown = "; ".join(unique[:_MOST_SETS]) or "none listed"
    more = f"; and {len(unique) - _MOST_SETS} more" if len(unique) > _MOST_SETS else ""
    return (
        f"HTP does not take the data types {_combination(requested)}; accepted: {shown}{more}",
        "cast or quantize the operands to one of the accepted combinations",
    )


def _combination(text: str) -> str:
    return " ".join(f"{place}={_dtype(name)}" for place, name in _ELEMENT.findall(text))


def _dtype(vendor: str) -> str:
    name = vendor.lower().replace("_point_", "").replace("_", "")
    return name if name in BY_NAME else vendor
