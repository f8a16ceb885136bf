"""Patterns of the op validator's lines, with reason and fix (SDK 2.51)."""

from __future__ import annotations

_RESHAPE = "reshape around the op"
_RECONVERT = "convert the model again: its shapes contradict each other"
_DEFINITION = "write the op as its definition requires; xdlc-info shows what it has"
_SIZE = (
    "{tensor} has size {found} along axis {axis}, HTP accepts {wanted}, which follows from the other operands"
)
_PLACE = r"^(?:Incorrect )?(?P<side>Out|In)(?:put)?[\[ ](?P<index>\d+)[\] ].*"

PATTERNS = (
    (
        r"has incorrect Value (?P<found>\d+), expected >= (?P<arch>6[89]|[7-9]\d)(?!\d)",
        "this form of {kind} needs architecture v{arch}, the SoC has v{found}",
        "quantize the float model with this SoC as target, which decides what has 8 bits, or omit this SoC",
    ),
    (
        r"^(?:(?P<side>Input|Output)\[(?P<index>\d+)\] |\[\d+\] )has incorrect Rank (?P<rank>\d+)",
        "{ranked} has rank {rank}, {kind} of HTP accepts {ranks}",
        _RESHAPE,
    ),
    (
        r"^Param\[(?P<param>\d+)\] has incorrect Rank (?P<rank>\d+)",
        "{parameter} has rank {rank}, HTP accepts {parameter_rank}",
        _DEFINITION,
    ),
    (
        r"^Param\[(?P<param>\d+)\] has incorrect Value (?P<value>\S+?)\.?$",
        "{parameter} is {value}, HTP accepts {values}",
        "change {parameter} to a value that HTP accepts",
    ),
    (
        r"^\[\d+\] has incorrect Value (?P<value>\S+), expected (?P<wanted>.+?)\.?$",
        "{holders} is {value}, {kind} of HTP accepts {wanted}",
        "{value_fix}",
    ),
    (
        r"^Received NULL for mandatory Param at index (?P<param>\d+)",
        "{parameter} is missing, {kind} of HTP requires it",
        "give {parameter} a value",
    ),
    (
        r"^Wrong number of Inputs (?P<found>\d+)",
        "has {found} inputs, HTP accepts {inputs}",
        _DEFINITION,
    ),
    (
        r"^(?:Wrong number of Parameters|\w+ doesn.t support any parameters, found|"
        r"Found incorrect number of found Parameters\. Found) (?P<found>\d+)",
        "has {present}, HTP accepts {params}",
        _DEFINITION,
    ),
    (
        r"^Tensor (?P<first>\d+) and (?P<second>\d+) have mismatching datatypes\. "
        r"(?P<code>0x\w+) != (?P<other_code>0x\w+)",
        "{mismatch}, {kind} of HTP requires one data type for both",
        "cast one to the type of the other",
    ),
    (
        r"^(?P<side>input|output)\[(?P<index>\d+)\] has incorrect Datatype (?P<code>0x\w+) which is not "
        r"supported by (?P<group>\w+) Operations",
        "{tensor} is {dtype}, {group} operations of HTP accept {group_dtypes}",
        "cast the operand, or use the operation for its type",
    ),
    (
        r"^(?P<side>Input|Output)\[(?P<index>\d+)\] has incorrect Datatype (?P<code>0x\w+)",
        "{tensor} is {dtype}, HTP accepts {dtypes}",
        "cast or quantize it to a type that HTP accepts",
    ),
    (
        r"^Dimension at index (?P<axis>\d+) cannot be broadcast between "
        r"in(?:put)?\[(?P<first>\d+)\] \((?P<size>\d+)\) and "
        r"in(?:put)?\[(?P<second>\d+)\] \((?P<other>\d+)\)",
        "{first_input} has {size} elements along axis {axis} and {second_input} {other}, "
        "HTP accepts equal numbers or 1 in one of them",
        _RECONVERT,
    ),
    (
        _PLACE
        + r"\b(?:index|axis dim) (?P<axis>\d+)\. "
        + r"Expected (?P<wanted>\S+) (?:but|and) got (?P<found>\S+?)\.?$",
        _SIZE,
        _RECONVERT,
    ),
    (
        _PLACE + r"\bindex (?P<axis>\d+)\. Got (?P<found>\S+) but expected (?P<wanted>\S+?)\.?$",
        _SIZE,
        _RECONVERT,
    ),
    (
        r"^Channel in (?P<channels>\d+) is not divisible by groups (?P<groups>\d+)",
        "{first_input} has {channels} channels in {groups} groups, "
        "HTP accepts a number of groups that divides them",
        "choose another number of groups",
    ),
    (
        r"dimension|shape|rank|[Ee]xpected|match|divisible|exceeds|larger than",
        "HTP does not support these shapes",
        _RECONVERT,
    ),
    (
        r"must be|was provided when|is zero|repeated value|are invalid|not in range|out of range|"
        r"Duplicate value",
        "HTP does not support these parameters",
        _DEFINITION,
    ),
)
"""Pattern of a line, the reason and the fix; the first that matches any line counts.

Fields of the texts are the groups of the pattern and what ``validator_log`` computes of the op.
"""
