"""Reasons and fixes for log lines of the op validator (SDK 2.51)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdlc.ir import NATIVE_PACKAGE, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import BY_CODE, BY_NAME
from xdlc.opdefs import loader
from xdlc.opdefs.verify import verify_op
from xdlc.options import spell
from xdlc.runtime.vendor_errors import PATTERNS

if TYPE_CHECKING:
    from xdlc.opdefs.model import OpDef, ParamDef


_NOISE = re.compile(
    r"QnnBackend_validateOpConfig failed|Failed to validate op|Op specific validation failed|"
    r"validateNativeOps master op validator|Input tensor \d+ failed common|Op config was not well|"
    r"Please refer to the|None of the combinations match|does not have any dynamic dimensions"
)
_MISSING_FORMAT = re.compile(r"SocModel doesn't support (\w+)")
_DYNAMIC = re.compile(r"can only have static dimensions|has dynamic dimensions")
_ELEMENT = re.compile(r"((?:in|out)\[\d+\]):\s*QNN_DATATYPE_([A-Z0-9_]+)")
_OP_UNKNOWN = 4005
MAX_RANK = 5
_MAX_COMBINATIONS, _MAX_VALUES, _MAX_VIOLATIONS = 8, 16, 3
FIXED_DIMS = "a tensor has dynamic dimensions, but HTP needs fixed dimensions"

_OTHER_VALUE = "change the value, or leave this op to the CPU"
_AXIS_FIX = "insert Transposes around the op, so that the op works along an axis that HTP supports"
_VALUE_FIXES = (
    ("the offset of", "quantize this tensor symmetrically, or with 8 bits"),
    ("'axis'", _AXIS_FIX),
    ("'axes'", _AXIS_FIX),
)


def missing_format(log: Sequence[str]) -> str | None:
    """Return the number format that the SoC lacks (``FP16``), if reported."""
    found = (_MISSING_FORMAT.search(line) for line in log)
    return next((match[1] for match in found if match), None)


def type_name(op: Op) -> str:
    """Return the op's type, with its package where that is not the native one."""
    return op.type if op.package == NATIVE_PACKAGE else f"{op.package}.{op.type}"


def bind_dims() -> str:
    """Return the fix of dynamic dimensions."""
    return f"convert the model again with {spell('input_dims')}, {spell('define_symbol')} or {spell('batch')}"


def explain(op: Op, code: int, log: Sequence[str]) -> tuple[str, str]:
    """Return the reason, with the lines of the log, and the fix for an unsupported op.

    Args:
        op: The op that was validated.
        code: Error code of the validator.
        log: Lines that the validator logged.
    """
    lines = [line for line in log if not _NOISE.search(line)]
    if op.package != NATIVE_PACKAGE:
        return (
            f"HTP has no op package {op.package!r} (QNN error {code})",
            "run this op on the host, or replace the op by native ops before preparing",
        )
    if code == _OP_UNKNOWN or any("OpValidator not found" in line for line in lines):
        return (
            f"HTP has no op {op.type} (QNN error {code})",
            "replace the op by ops that HTP supports, or cut the model at the op",
        )
    if any(line.startswith("Unsupported input/output datatypes") for line in lines):
        return _dtypes(lines)
    if any(map(_DYNAMIC.search, lines)):
        return FIXED_DIMS, bind_dims()
    if not lines:
        return _without_reason(op, code)
    reason, fix = _first_match(op, lines) or (
        "HTP does not support the op",
        "change the types, shapes or values that the log names",
    )
    return f"{reason}; the library logs: {' | '.join(' '.join(line.split()) for line in lines)}", fix


def _first_match(op: Op, lines: Sequence[str]) -> tuple[str, str] | None:
    for pattern, reason, fix in PATTERNS:
        for line in lines:
            match = re.search(pattern, line)
            if match:
                fields = _fields(op, defaultdict(str, match.groupdict(default="")))
                return reason.format_map(fields), fix.format_map(fields)
    return None


def _without_reason(op: Op, code: int) -> tuple[str, str]:
    """Return reason and fix for an unsupported op if the library logs nothing."""
    operation, chosen = _params(op.type).get("operation"), _numbers(op).get("operation", ())
    names = operation.enumeration if operation is not None else ()
    form = f"{op.type} {names[int(chosen[0])]}" if chosen and 0 <= chosen[0] < len(names) else op.type
    if op.outputs:
        inputs = ", ".join(tensor.dtype.name for tensor in op.inputs if tensor is not None) or "nothing"
        form += f" from {inputs} to {', '.join(tensor.dtype.name for tensor in op.outputs)}"
    found = verify_op(op, backend="htp")[:_MAX_VIOLATIONS]
    tables = f"; by xdlc's tables of HTP: {'; '.join(found)}" if found else ""
    return (
        f"HTP does not support this form of {form} and logs no reason (QNN error {code}){tables}",
        "compute the result with another operation, data type or shape",
    )


def _fields(op: Op, line: dict[str, str]) -> dict[str, str]:
    """Return the fields of the texts: groups of a line, and facts of the op."""
    definition, params = loader.find(op.type), _numbers(op)
    side = "output" if line["side"].lower().startswith("out") else "input"
    index, rank = int(line["index"] or 0), int(line["rank"] or -1)
    operands = [] if definition is None else definition.outputs if side == "output" else definition.inputs
    operand = operands[index] if index < len(operands) else None
    of_rank = [_named(place, tensor) for place, tensor in _tensors(op).items() if tensor.rank == rank]
    code, other_code = _dtype(line["code"]), _dtype(line["other_code"])
    first, second = (
        [
            _named(place, tensor)
            for place, tensor in _tensors(op).items()
            if tensor.dtype.name == dtype and place.endswith(line[end])
        ]
        for dtype, end in ((code, "first"), (other_code, "second"))
    )
    holders, condition = _holders(op, line["value"]), line["wanted"].replace("equal to", "only")
    return {
        **line,
        **_parameter_fields(op, line),
        "kind": op.type,
        "tensor": _at(op, side, index),
        "ranked": _at(op, side, index) if line["side"] else " or ".join(of_rank) or "a tensor",
        "ranks": _ranks(side if line["side"] else "", None if operand is None else operand.rank, rank),
        "holders": " or ".join(holders[:3]) or "a parameter, a rank or an encoding offset",
        "wanted": condition.replace("not only", "all values except").replace(" & ", " and "),
        "value_fix": next((fix for word, fix in _VALUE_FIXES if word in " ".join(holders)), _OTHER_VALUE),
        "inputs": _input_count(definition),
        "present": f"the parameters {', '.join(params)}" if params else "no parameters",
        "mismatch": f"{(first or ['a tensor'])[0]} is {code} and "
        f"{(second or ['another'])[-1]} is {other_code}",
        "dtype": code,
        "dtypes": ", ".join(dtype.name for dtype in operand.dtypes) if operand else "another data type",
        "group": line["group"].lower(),
        "group_dtypes": "bool8" if line["group"] == "Logical" else "numbers, not bool8",
        "first_input": _at(op, "input", int(line["first"] or 0)),
        "second_input": _at(op, "input", int(line["second"] or 0)),
    }


def _parameter_fields(op: Op, line: dict[str, str]) -> dict[str, str]:
    """Return the fields on the parameter of a line, and on all parameters."""
    definitions, params, value = _params(op.type), _numbers(op), _number(line["value"])
    name = dict(enumerate(definitions)).get(int(line["param"] or 0), "")
    shown = f"parameter {name!r}" if name else f"parameter {line['param']}"
    rank = f"rank {definitions[name].rank}" if name else "another rank"
    if name in params and value is not None and value not in params[name]:  # the line names another one
        found = [f"parameter {other!r}" for other, values in params.items() if value in values]
        shown, name = (" or ".join(found), "") if found else (shown, name)
    accepted = "other values, or another combination"
    if name:
        rules = [rule.text for rule in definitions[name].constraints if rule.type in ("Value", "Number")]
        accepted = f"values {' and '.join(rules)}" if rules else "other values, or other shapes"
        depth = next((tensor.rank for tensor in _tensors(op).values()), 0)
        if definitions[name].enumeration:
            accepted = (
                f"only {', '.join(f'{n} {word}' for n, word in enumerate(definitions[name].enumeration))}"
            )
        elif name in ("axis", "axes", "perm") and depth:
            accepted = f"0 to {depth - 1}, because input 0 has rank {depth}"
    odd = [each for each in params if each not in definitions]
    missing = [each for each, param in definitions.items() if param.mandatory and each not in params]
    more = f"; {', '.join(odd)} unknown" if odd else ""
    more = more or (f"; {', '.join(missing)} is missing" if missing else "")
    return {
        "parameter": shown,
        "parameter_rank": rank,
        "values": accepted,
        "params": f"{', '.join(definitions) or 'none'}{more}",
    }


def _holders(op: Op, text: str) -> list[str]:
    """Return the places of a value: offsets and parameters, or else ranks."""
    value = _number(text)
    if value is None:
        return []
    places = [
        f"the offset of {_named(place, tensor)}"
        for place, tensor in _tensors(op).items()
        if isinstance(tensor.encoding, ScaleOffset) and tensor.encoding.offset == value
    ]
    places += [f"parameter {name!r}" for name, values in _numbers(op).items() if value in values]
    ranked = [
        _named(place, tensor) for place, tensor in _tensors(op).items() if tensor.rank == int(value) > 0
    ]
    return places or [f"the rank of {tensor}" for tensor in ranked]


def _ranks(side: str, exact: int | None, rank: int) -> str:
    if side == "output":
        return "the rank that follows from its inputs and parameters"
    if side and exact is not None:
        return f"rank {exact}"
    if rank > MAX_RANK:
        return f"at most rank {MAX_RANK}"
    return "other ranks; many ops support ranks up to 4" if rank else "rank 1 or more"


def _input_count(definition: OpDef | None) -> str:
    if definition is None:
        return "another number"
    least, most = sum(each.mandatory for each in definition.inputs), len(definition.inputs)
    if any(each.repeated for each in definition.inputs):
        return f"{least} or more"
    return f"{least}" if least == most else f"{least} to {most}"


def _tensors(op: Op) -> dict[str, Tensor]:
    """Return the inputs and outputs by place, like ``input 0``."""
    sides = (("input", op.inputs), ("output", op.outputs))
    return {
        f"{side} {index}": tensor
        for side, tensors in sides
        for index, tensor in enumerate(tensors)
        if tensor is not None
    }


def _at(op: Op, side: str, index: int) -> str:
    tensor = _tensors(op).get(f"{side} {index}")
    return f"{side} {index}" if tensor is None else _named(f"{side} {index}", tensor)


def _named(place: str, tensor: Tensor) -> str:
    return f"{place} ({tensor.name!r})"


def _params(kind: str) -> Mapping[str, ParamDef]:
    definition = loader.find(kind)
    return {} if definition is None else definition.params


def _numbers(op: Op) -> dict[str, list[float]]:
    """Return the numbers of each parameter; of a tensor only the first ones."""
    numbers = {}
    for name, param in op.params.items():
        values = (
            param.numpy().reshape(-1)[:_MAX_VALUES].tolist() if isinstance(param, Tensor) else [param.value]
        )
        numbers[name] = [value for value in values if isinstance(value, int | float)]
    return numbers


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?[\d.]+", text) else None


def _dtype(code: str) -> str:
    found = BY_CODE.get(int(code or "0", 16))
    return found.name if found is not None else code


def _dtypes(lines: Sequence[str]) -> tuple[str, str]:
    requested = _combination(next((line for line in lines if line.startswith("Requested")), ""))
    accepted = [
        _combination(entry)
        for line in lines
        if line.startswith("Supported")
        for entry in re.split(r"\n\s*\d+:", line)[1:]
    ]
    wanted = set(requested.split())
    unique = sorted(
        dict.fromkeys(filter(None, accepted)), key=lambda text: -len(wanted.intersection(text.split()))
    )
    shown = "; ".join(unique[:_MAX_COMBINATIONS]) or "none listed"
    more = f"; and {len(unique) - _MAX_COMBINATIONS} more" if len(unique) > _MAX_COMBINATIONS else ""
    return (
        f"HTP does not support the data types {requested}; accepted: {shown}{more}",
        "cast or quantize the operands to one of the accepted combinations",
    )


def _combination(text: str) -> str:
    return " ".join(f"{place}={_dtype_name(name)}" for place, name in _ELEMENT.findall(text))


def _dtype_name(vendor: str) -> str:
    name = vendor.lower().replace("_point_", "").replace("_", "")
    return name if name in BY_NAME else vendor
