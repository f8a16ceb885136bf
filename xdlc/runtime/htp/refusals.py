"""Turning what the vendor's validator logs into a reason and a way out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdlc.ir.dtype import BY_NAME

_NOISE = re.compile(
    r"QnnBackend_validateOpConfig failed|Failed to validate op|Op specific validation failed|"
    r"validateNativeOps master op validator|Input tensor \d+ failed common|Op config was not well"
)
_EXPECTED = re.compile(r"has incorrect Value (\S+), expected equal to (\S+?)\.?$")
_AT_LEAST = re.compile(r"has incorrect Value (\d+), expected >= (\d+)")
_RANK = re.compile(r"(?:(Input|Output)\[(\d+)\] |.*)has incorrect Rank (\d+)")
_ELEMENT = re.compile(r"((?:in|out)\[\d+\]):\s*QNN_DATATYPE_([A-Z0-9_]+)")
_MOST_SETS = 8
FIXED_EXTENTS = "a tensor has open extents, HTP takes fixed ones only"
BIND_EXTENTS = "convert the model again with --input_dim, --define_symbol or --batch"
_OP_UNKNOWN = 4005
_ARCHITECTURES = range(68, 100)


_UNSUPPORTED = re.compile(r"SocModel doesn't support (\w+)")


def lacking(log: Sequence[str]) -> str | None:
    """Return the number format that the SoC lacks altogether (``FP16``), if the log says so."""
    found = (_UNSUPPORTED.search(line) for line in log)
    return next((match[1] for match in found if match), None)


def explain(kind: str, code: int, log: Sequence[str]) -> tuple[str, str]:
    """Return the reason, with the library's own words, and the fix for a refused op.

    Args:
        kind: Type of the op, with its package where that is not the native one.
        code: Error code of the validator.
        log: Lines the validator logged.
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
    if any("can only have static dimensions" in line or "has dynamic dimensions" in line for line in lines):
        return FIXED_EXTENTS, BIND_EXTENTS
    said = " | ".join(" ".join(line.split()) for line in lines) or f"nothing but QNN error {code}"
    for line in lines:
        rank = _RANK.search(line)
        if rank:
            which = f"{rank[1].lower()} {rank[2]}" if rank[1] else "a tensor"
            return (
                f"{which} has rank {rank[3]}, which HTP does not take here; the library says: {said}",
                "reshape around the op: HTP takes ranks 1 to 5, and some ops fewer",
            )
        least = _AT_LEAST.search(line)
        if least and int(least[2]) in _ARCHITECTURES:
            return (
                f"this form of {kind} needs architecture v{least[2]}, the SoC has v{least[1]}; "
                f"the library says: {said}",
                "use 8-bit operands where both are 16-bit, or leave this SoC out",
            )
        value = _EXPECTED.search(line)
        if value:
            return (
                f"a parameter or an encoding offset is {value[1]} where HTP takes only {value[2]}; "
                f"the library says: {said}",
                "change the parameter; for an offset, give input and output the same encoding, "
                "or the tensor a symmetric one",
            )
    if not lines:
        return (
            f"HTP does not take this form of {kind} and gives no reason (QNN error {code})",
            "use another operation, data type or shape for the same result",
        )
    return f"HTP does not take it; the library says: {said}", "change what the library objects to"


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
