"""What the lines mean that the vendor's validator logs: the rule, what it found, what it takes.

The wordings are those of SDK 2.51, as it answers to ops that are wrong in one way each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from xdlc import opdefs
from xdlc.ir.dtype import BY_CODE
from xdlc.runtime.htp.op_facts import OpFacts

if TYPE_CHECKING:
    from xdlc.opdefs.model import ParamDef

HIGHEST_RANK = 5
_ARCHITECTURES = range(68, 100)
_RANKS = {
    0: "rank 1 or more",
    **dict.fromkeys(range(1, HIGHEST_RANK + 1), "other ranks, of many ops up to 4 only"),
}
_OTHER_RANKS = f"at most rank {HIGHEST_RANK}"
_RANK_FIX = "reshape around the op"
_SHAPE_FIX = "convert the model again: its shapes contradict each other"
_DEFINITION_FIX = "write the op as its definition asks; see what xdlc-info says of it"


class Reading(NamedTuple):
    """What a line means: the reason in words, the fix, and whether the line says no more than the reason."""

    reason: str
    fix: str
    whole: bool = False


class _Asked(NamedTuple):
    """The op that a line is about."""

    kind: str
    facts: OpFacts


_Reader = Callable[[re.Match[str], _Asked], Reading | None]
_READERS: list[tuple[re.Pattern[str], _Reader]] = []


def _reads(pattern: str) -> Callable[[_Reader], _Reader]:
    def register(reader: _Reader) -> _Reader:
        _READERS.append((re.compile(pattern), reader))
        return reader

    return register


def read(kind: str, lines: Iterable[str], facts: OpFacts) -> Reading | None:
    """Return what the first line means that is known; lines that say more come first.

    Args:
        kind: Type of the op.
        lines: What was logged about it.
        facts: The op.
    """
    listed = list(lines)
    for pattern, reader in _READERS:
        for line in listed:
            match = pattern.search(line)
            found = reader(match, _Asked(kind, facts)) if match else None
            if found is not None:
                return found
    return None


def _param_of(kind: str, index: int) -> tuple[str, ParamDef | None]:
    definition = opdefs.find(kind)
    names = list(definition.params) if definition is not None else []
    if definition is None or index >= len(names):
        return f"parameter {index}", None
    return f"parameter {names[index]!r}", definition.params[names[index]]


def operation(kind: str, facts: OpFacts) -> str:
    """Return the name of the operation that parameter ``operation`` chooses, or nothing."""
    definition = opdefs.find(kind)
    names = (
        definition.params["operation"].enumeration if definition and "operation" in definition.params else ()
    )
    chosen = facts.params.get("operation", ())
    return names[int(chosen[0])] if chosen and 0 <= chosen[0] < len(names) else ""


@_reads(r"has incorrect Value (\d+), expected >= (\d+)")
def _architecture(line: re.Match[str], op: _Asked) -> Reading | None:
    if int(line[2]) not in _ARCHITECTURES:
        return None
    return Reading(
        f"this form of {op.kind} needs architecture v{line[2]}, the SoC has v{line[1]}",
        "quantize the float model with --target and the name of this SoC, which then decides what has 8 bits "
        "(Python: target=), or leave this SoC out",
        whole=True,
    )


@_reads(r"^(?:(Input|Output)\[(\d+)\] |\[\d+\] )has incorrect Rank (\d+)")
def _rank(line: re.Match[str], op: _Asked) -> Reading:
    rank = int(line[3])
    found = [str(tensor) for tensor in op.facts.of_rank(rank)]
    which = op.facts.at(line[1].lower(), int(line[2])) if line[1] else " or ".join(found) or "a tensor"
    index = int(line[2]) if line[1] else -1
    definition = opdefs.find(op.kind)
    side = () if definition is None else definition.inputs if line[1] == "Input" else definition.outputs
    exact = side[index].rank if 0 <= index < len(side) else None
    taken = f"rank {exact}" if exact is not None else _RANKS.get(rank, _OTHER_RANKS)
    if line[1] == "Output":
        taken = "the rank that follows from its inputs and parameters"
    return Reading(f"{which} has rank {rank}, {op.kind} of HTP takes {taken}", _RANK_FIX)


@_reads(r"^Param\[(\d+)\] has incorrect Rank (\d+)")
def _param_rank(line: re.Match[str], op: _Asked) -> Reading:
    name, definition = _param_of(op.kind, int(line[1]))
    taken = f"rank {definition.rank}" if definition is not None else "another one"
    return Reading(f"{name} has rank {line[2]}, HTP takes {taken}", _DEFINITION_FIX)


@_reads(r"^Param\[(\d+)\] has incorrect Value (\S+?)\.?$")
def _param_value(line: re.Match[str], op: _Asked) -> Reading:
    name, definition = _param_of(op.kind, int(line[1]))
    held = op.facts.params.get(name.split("'")[1]) if "'" in name else None
    value = float(line[2]) if re.fullmatch(r"-?[\d.]+", line[2]) else None
    if value is not None and held is not None and value not in held:
        matching = [what for what in op.facts.holding(value) if what.startswith("parameter")]
        name, definition = (" or ".join(matching), None) if matching else (name, definition)
    taken = _accepted(definition, op.facts)
    return Reading(f"{name} is {line[2]}, HTP takes {taken}", f"change {name} to a value that HTP takes")


def _accepted(definition: ParamDef | None, facts: OpFacts) -> str:
    if definition is None:
        return "other values, or not in this combination"
    if definition.enumeration:
        names = ", ".join(f"{index} {name}" for index, name in enumerate(definition.enumeration))
        return f"some of {names}"
    rank = next((len(tensor.shape) for tensor in facts.tensors), None)
    if definition.name in ("axis", "axes", "perm") and rank:
        return f"0 to {rank - 1}, for input 0 has rank {rank}"
    rules = [rule.text for rule in definition.constraints if rule.type in ("Value", "Number")]
    return f"values {' and '.join(rules)}" if rules else "other values, or not with these shapes"


@_reads(r"^\[\d+\] has incorrect Value (\S+), expected (.+?)\.?$")
def _value(line: re.Match[str], op: _Asked) -> Reading:
    value = float(line[1]) if re.fullmatch(r"-?[\d.]+", line[1]) else None
    holders = op.facts.holding(value) if value is not None else []
    ranks = (
        [f"the rank of {tensor}" for tensor in op.facts.of_rank(int(value))] if value and value > 0 else []
    )
    which = " or ".join(holders[:3] or ranks[:3]) or "a parameter, a rank or an encoding offset"
    wanted = line[2].replace("equal to", "only").replace("not only", "anything but").replace(" & ", " and ")
    fix = "change it, or leave this op to the CPU"
    if any(holder.startswith("the offset") for holder in holders):
        fix = "quantize this tensor symmetrically, or with 8 bits"
    elif "'axis'" in which or "'axes'" in which:
        fix = "transpose around the op, so that it works along the axis that HTP takes"
    return Reading(f"{which} is {line[1]}, {op.kind} of HTP takes {wanted}", fix)


@_reads(r"^Received NULL for mandatory Param at index (\d+)")
def _missing_param(line: re.Match[str], op: _Asked) -> Reading:
    name, _ = _param_of(op.kind, int(line[1]))
    return Reading(f"{name} is left out, HTP takes {op.kind} with it only", f"give {name} a value")


@_reads(r"^Wrong number of Inputs (\d+)")
def _inputs(line: re.Match[str], op: _Asked) -> Reading:
    definition = opdefs.find(op.kind)
    taken = "another number"
    if definition is not None:
        least, most = sum(held.mandatory for held in definition.inputs), len(definition.inputs)
        taken = f"{least}" if least == most else f"{least} to {most}"
        taken = f"{least} or more" if any(held.repeated for held in definition.inputs) else taken
    return Reading(f"has {line[1]} inputs, HTP takes {taken}", _DEFINITION_FIX)


@_reads(r"^(?:Wrong number of Parameters|\w+ doesn.t support any parameters, found) (\d+)")
@_reads(r"^Found incorrect number of found Parameters\. Found (\d+) expected \d+")
def _params(line: re.Match[str], op: _Asked) -> Reading:
    definition = opdefs.find(op.kind)
    known = [] if definition is None else list(definition.params)
    odd = [name for name in op.facts.params if name not in known]
    lacks = [] if definition is None else [n for n, p in definition.params.items() if p.mandatory]
    lacks = [name for name in lacks if name not in op.facts.params]
    given = f"the parameters {', '.join(op.facts.params)}" if op.facts.params else "no parameters"
    more = (
        f"; {', '.join(odd)} is none of them" if odd else f"; {', '.join(lacks)} is left out" if lacks else ""
    )
    return Reading(f"has {given}, HTP takes {', '.join(known) or 'none'}{more}", _DEFINITION_FIX)


@_reads(r"^Tensor (\d+) and (\d+) have mismatching datatypes\. (0x\w+) != (0x\w+)")
def _two_types(line: re.Match[str], op: _Asked) -> Reading:
    one, other = (_dtype(line[number]) for number in (3, 4))
    first = [str(held) for held in op.facts.tensors if held.dtype == one and held.place.endswith(line[1])]
    second = [str(held) for held in op.facts.tensors if held.dtype == other and held.place.endswith(line[2])]
    which = (
        f"{first[0] if first else 'a tensor'} is {one} and {second[-1] if second else 'another'} is {other}"
    )
    return Reading(
        f"{which}, HTP takes {op.kind} with one data type for both", "cast one to the type of the other"
    )


@_reads(r"^(input|output)\[(\d+)\] has incorrect Datatype (0x\w+) which is not supported by (\w+) Operations")
def _operation_type(line: re.Match[str], op: _Asked) -> Reading:
    taken = "bool8" if line[4] == "Logical" else "numbers, not bool8"
    return Reading(
        f"{op.facts.at(line[1], int(line[2]))} is {_dtype(line[3])}, "
        f"{line[4].lower()} operations of HTP take {taken}",
        "cast the operand, or take the operation that is for its type",
    )


@_reads(r"^(Input|Output)\[(\d+)\] has incorrect Datatype (0x\w+)")
def _type(line: re.Match[str], op: _Asked) -> Reading:
    definition = opdefs.find(op.kind)
    index, sides = (
        int(line[2]),
        (definition.inputs, definition.outputs) if definition is not None else ((), ()),
    )
    side = sides[line[1] == "Output"]
    dtypes = side[index].dtypes if index < len(side) else ()
    taken = ", ".join(dtype.name for dtype in dtypes) or "another data type"
    return Reading(
        f"{op.facts.at(line[1].lower(), index)} is {_dtype(line[3])}, HTP takes {taken}",
        "cast or quantize it to a type that HTP takes",
    )


def _dtype(code: str) -> str:
    found = BY_CODE.get(int(code, 16))
    return found.name if found is not None else code


@_reads(
    r"^Dimension at index (\d+) cannot be broadcast between "
    r"in(?:put)?\[(\d+)\] \((\d+)\) and in(?:put)?\[(\d+)\] \((\d+)\)"
)
def _broadcast(line: re.Match[str], op: _Asked) -> Reading:
    one, other = op.facts.at("input", int(line[2])), op.facts.at("input", int(line[4]))
    return Reading(
        f"{one} has {line[3]} elements along axis {line[1]} and {other} {line[5]}, "
        "HTP takes equal numbers or 1 in one of them",
        _SHAPE_FIX,
    )


@_reads(r"^(Out|Output|In|Input)\[(\d+)\].*\bindex (\d+)\. Expected (\S+) (?:but|and) got (\S+?)\.?$")
@_reads(r"^(Output) (\d+) .*\bindex (\d+)\. Expected (\S+) (?:but|and) got (\S+?)\.?$")
@_reads(
    r"^Incorrect (Output|Input)\[(\d+)\] dimension at index (\d+)\. Expected (\S+) (?:but|and) got (\S+?)\.?$"
)
@_reads(r"^(Out|Output|In|Input)\[(\d+)\].*\baxis dim (\d+)\. Expected (\S+) (?:but|and) got (\S+?)\.?$")
def _extent(line: re.Match[str], op: _Asked) -> Reading:
    which = op.facts.at("output" if line[1].startswith("Out") else "input", int(line[2]))
    return Reading(
        f"{which} has extent {line[5]} along axis {line[3]}, HTP takes {line[4]}, "
        "which follows from the other operands",
        _SHAPE_FIX,
    )


@_reads(r"^(Out|Output)\[(\d+)\].*\bindex (\d+)\. Got (\S+) but expected (\S+?)\.?$")
def _extent_turned(line: re.Match[str], op: _Asked) -> Reading:
    return Reading(
        f"{op.facts.at('output', int(line[2]))} has extent {line[4]} along axis {line[3]}, "
        f"HTP takes {line[5]}, which follows from the other operands",
        _SHAPE_FIX,
    )


@_reads(r"^Channel in (\d+) is not divisible by groups (\d+)")
def _groups(line: re.Match[str], op: _Asked) -> Reading:
    return Reading(
        f"{op.facts.at('input', 0)} has {line[1]} channels in {line[2]} groups, "
        "HTP takes a number of groups that divides them",
        "choose another number of groups",
    )


@_reads(r"(?:dimension|dimensions|shape|rank|Expected|expected|match|divisible|exceeds|larger than)")
def _shape_in_its_words(line: re.Match[str], op: _Asked) -> Reading:
    return Reading("HTP does not take these shapes", _SHAPE_FIX)


@_reads(
    r"must be|was provided when|is zero|repeated value|are invalid|not in range|out of range|Duplicate value"
)
def _value_in_its_words(line: re.Match[str], op: _Asked) -> Reading:
    return Reading("HTP does not take these parameters", _DEFINITION_FIX)
