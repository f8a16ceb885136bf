"""Error numbers, names and log lines of the vendor's libraries."""

from __future__ import annotations

import os
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from xdlc.errors import UsageError, nearest_names, problem_table
from xdlc.ir.files import read_bytes
from xdlc.version import DOCUMENTATION

MOST_BYTES, LONGEST_LINE, MOST_READ = 16 << 20, 600, 10_000
"""Limits: bytes of a log file, what is read of a line, and different lines with signs of errors."""
_FASTRPC = 0x8000_0400
_XDLC = r"XD\d{3}"
_NAME = re.compile(r"\bQNN_[A-Z_]*ERROR_[A-Z_]+\b")
_NUMBER = re.compile(
    r"(?:err(?:or)?|fail(?:ed|ure)?|status|code|return(?:s|ed)|result)\b[^0-9\n]{0,24}?\b(0x[0-9a-f]{1,16}|\d{1,10})\b",
    re.I,
)
_SNPE = re.compile(r"error_code=(\d{1,6});(?: *error_message=([^;]*))?.*error_component=")
_RESHAPE = "insert a Reshape before and after the op"
_RECONVERT = "convert the model again: its shapes contradict each other"
_DEFINITION = "correct the op by its definition; `xdlc info --ops` shows the op in the model"
_SIZE = "{tensor} has size {found} along axis {axis}, but the other operands require {wanted}"
_PLACE = r"^(?:Incorrect )?(?P<side>Out|In)(?:put)?[\[ ](?P<index>\d+)[\] ].*"

PATTERNS = (
    (
        r"has incorrect Value (?P<found>\d+), expected >= (?P<arch>6[89]|[7-9]\d)(?!\d)",
        "this {kind} needs architecture v{arch}, but the SoC has v{found}",
        "quantize the float model again with this SoC as target, or omit this SoC",
    ),
    (
        r"^(?:(?P<side>Input|Output)\[(?P<index>\d+)\] |\[\d+\] )has incorrect Rank (?P<rank>\d+)",
        "{ranked} has rank {rank}, but {kind} of HTP accepts {ranks}",
        _RESHAPE,
    ),
    (
        r"^Param\[(?P<param>\d+)\] has incorrect Rank (?P<rank>\d+)",
        "{parameter} has rank {rank}, but HTP accepts {parameter_rank}",
        _DEFINITION,
    ),
    (
        r"^Param\[(?P<param>\d+)\] has incorrect Value (?P<value>\S+?)\.?$",
        "{parameter} is {value}, but HTP accepts {values}",
        "change {parameter} to a value that HTP accepts",
    ),
    (
        r"^\[\d+\] has incorrect Value (?P<value>\S+), expected (?P<wanted>.+?)\.?$",
        "{holders} is {value}, but {kind} of HTP accepts {wanted}",
        "{value_fix}",
    ),
    (
        r"^Received NULL for mandatory Param at index (?P<param>\d+)",
        "{parameter} is missing, but {kind} of HTP requires this parameter",
        "give {parameter} a value",
    ),
    (
        r"^Wrong number of Inputs (?P<found>\d+)",
        "has {found} inputs, but HTP accepts {inputs}",
        _DEFINITION,
    ),
    (
        r"^(?:Wrong number of Parameters|\w+ doesn.t support any parameters, found|"
        r"Found incorrect number of found Parameters\. Found) (?P<found>\d+)",
        "has {present}, but HTP accepts {params}",
        _DEFINITION,
    ),
    (
        r"^Tensor (?P<first>\d+) and (?P<second>\d+) have mismatching datatypes\. "
        r"(?P<code>0x\w+) != (?P<other_code>0x\w+)",
        "{mismatch}, but {kind} of HTP requires one data type for both",
        "cast one tensor to the type of the other tensor",
    ),
    (
        r"^(?P<side>input|output)\[(?P<index>\d+)\] has incorrect Datatype (?P<code>0x\w+) which is not "
        r"supported by (?P<group>\w+) Operations",
        "{tensor} is {dtype}, but {group} operations of HTP accept {group_dtypes}",
        "cast the operand, or use the operation for its type",
    ),
    (
        r"^(?P<side>Input|Output)\[(?P<index>\d+)\] has incorrect Datatype (?P<code>0x\w+)",
        "{tensor} is {dtype}, but HTP accepts {dtypes}",
        "cast or quantize the tensor to a type that HTP accepts",
    ),
    (
        r"^Dimension at index (?P<axis>\d+) cannot be broadcast between "
        r"in(?:put)?\[(?P<first>\d+)\] \((?P<size>\d+)\) and "
        r"in(?:put)?\[(?P<second>\d+)\] \((?P<other>\d+)\)",
        "{first_input} has {size} elements along axis {axis} and {second_input} {other}, "
        "but HTP accepts equal numbers, or 1 in one input",
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
        "but HTP only accepts a number of groups that divides the channels",
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
"""Log lines of the op validator, with reason and fix (SDK 2.51)."""
_VALIDATOR = re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", each[0]) for each in PATTERNS[:-2]))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Meaning of an error of the vendor's libraries.

    Attributes:
        subject: The number with its name, or the text of the line.
        component: The part that reports it.
        line: Line of the file where it is first, from 1; 0 if no file was read.
        count: How often the file has it.
        example: A call that may end with it; empty for the vendor's errors.
        page: Page of the documentation that shows how to solve it; empty for the vendor's errors.
    """

    subject: str
    component: str
    cause: str
    fix: str
    line: int = 0
    count: int = 1
    example: str = ""
    page: str = ""


def explain(subject: str | int | os.PathLike[str]) -> list[Explanation]:
    """Return the meaning of an error number, its name, a log line, or a log file.

    Args:
        subject: A code of xdlc (``"XD104"``), a decimal or hexadecimal number (``5005``, ``"0x138d"``), a
            name (``"QNN_GRAPH_ERROR_FINALIZE_FAILED"``), a line of a log, or the path of a log file.  If a
            file repeats an error, xdlc lists the error once.

    Returns:
        The explanations in the order of the lines.  The list is empty if xdlc finds no known error.

    Raises:
        UsageError: If xdlc does not know a name, or a file is too large.
        StorageError: If a file cannot be read.
    """
    if isinstance(subject, int):
        return [_of_number(subject)]
    if not isinstance(subject, str | os.PathLike):
        problem = f"xdlc cannot explain a {type(subject).__name__}"
        raise UsageError(problem, fix="give a number, a text or the path of a file")
    text = os.fspath(subject).strip()
    is_path = not isinstance(subject, str) or re.fullmatch(r"\S+\.(?:log|txt)|\S*/\S+", text)
    if is_path or os.path.isfile(text):
        return _of_file(Path(text))
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|-?\d{1,20}", text):
        return [_of_number(int(text, 0 if text[1:2] in "xX" else 10))]
    if re.fullmatch(_XDLC, text.upper()):
        return [_of_code(text.upper())]
    if re.fullmatch(r"\w+", text) and "ERROR" in text.upper():
        return [_of_number(_number_of(text))]
    return _grouped(text[: LONGEST_LINE * 100].splitlines())


@cache
def _table() -> dict[str, Any]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    words = table["names"].split()
    table["names"] = {
        int(number): f"QNN_{name}" for number, name in zip(words[::2], words[1::2], strict=True)
    }
    table["lines"] = [(re.compile(each[0]), *each[1:]) for each in table["lines"]["table"]]
    return table


def _of_number(number: int) -> Explanation:
    """Return the explanation of a number, by its range if unknown."""
    table = _table()
    number &= 0xFFFF_FFFF if number < 0 else number
    shown, code = f"{number} (0x{number:x})", number & 0xFFFF
    if number & 0xFFFF_FF00 == _FASTRPC:
        return Explanation(
            shown, "FastRPC", *table["fastrpc"].get(f"0x{number & 0xFF:02x}", table["fastrpc"]["other"])
        )
    if number >> 16:
        if code not in table["names"]:
            return Explanation(shown, "unknown", *table["codes"]["other"])
        shown += f", whose low 16 bits are the code {code}"
    starts = sorted(map(int, table["ranges"]))
    place = max(bisect_right(starts, code) - 1, 0)
    component, fix = table["ranges"][str(starts[place])]
    name = table["names"].get(code, "")
    shown = f"{shown} {name}".strip()
    if str(code) in table["codes"]:
        return Explanation(shown, component, *table["codes"][str(code)])
    if name:
        return Explanation(shown, component, name.partition("_ERROR_")[2].replace("_", " ").lower(), fix)
    end = [*starts, 0x10000][place + 1] - 1
    near = min(
        (each for each in table["names"] if starts[place] <= each <= end),
        key=lambda n: abs(n - code),
        default=0,
    )
    hint = f"; nearest is {near}, {table['names'][near]}" if near else ""
    return Explanation(shown, component, f"not known; {component} has {starts[place]} to {end}{hint}", fix)


def _of_code(code: str) -> Explanation:
    """Return the explanation of a code of xdlc."""
    kinds = problem_table()["problems"]
    if code not in kinds:
        raise UsageError(f"there is no code {code}", fix=f"use one of {', '.join(kinds)}")
    entry = kinds[code]
    page = f"{DOCUMENTATION}/{entry['page'].removesuffix('.md')}.html"
    title = f"{code} {entry['title']}"
    return Explanation(title, "xdlc", entry["why"], entry["fix"], example=entry["example"], page=page)


def _number_of(name: str) -> int:
    """Return the number of a name, with or without ``QNN_``."""
    names = {known: number for number, known in _table()["names"].items()}
    full = name.upper() if name.upper().startswith("QNN_") else f"QNN_{name.upper()}"
    rest = full.partition("_ERROR_")[2].replace("UNSUPPORTED_FEATURE", "NOT_SUPPORTED")
    for found in (full, f"QNN_COMMON_ERROR_{rest}"):
        if found in names:
            return int(names[found])
    raise UsageError(f"there is no error {name}", fix=nearest_names(full, names) or "give the error's number")


def _of_line(text: str) -> Iterator[Explanation]:
    """Yield explanations of a line: of a known text, and of its first error."""
    own = re.search(rf"\[({_XDLC})\]", text)
    if own and own[1] in problem_table()["problems"]:
        yield _of_code(own[1])
        return
    table, shown = _table(), text.strip()[:160]
    small = text.lower()
    row = next((rest for pattern, *rest in table["lines"] if pattern.search(small)), None)
    snpe = _SNPE.search(text)
    if row is None and _VALIDATOR.search(text.rpartition("<E>")[2].strip()):
        row = table["validator"]
    if row is None and snpe:
        found = replace(_of_number(int(snpe[1]) if int(snpe[1]) < 1000 else 999), subject=shown)
        is_known = not snpe[2] or not found.cause.startswith("not known")
        yield found if is_known else replace(found, cause=snpe[2].strip()[:160])
    if row is not None:
        yield Explanation(shown, *row)
    names = set(_NAME.findall(text)).intersection(table["names"].values())
    if names:
        yield _of_number(_number_of(min(names, key=text.index)))
        return
    for held in () if snpe else _NUMBER.finditer(text):
        number = int(held[1], 16 if held[1][:2] in ("0x", "0X") else 10)
        code = number & 0xFFFF
        is_known = code in table["names"] or (code >= 1000 and str(code) in table["codes"])
        if is_known or number & 0xFFFF_FF00 == _FASTRPC:
            yield _of_number(number)
            return


def _grouped(lines: Iterable[str], where: str = "") -> list[Explanation]:
    """Return each cause in lines once; lines that differ only in time are equal."""
    signs, causes = _table()["signs"], dict[tuple[str, str], Explanation]()
    read: dict[str, list[Explanation]] = {}
    for number, text in enumerate(lines, 1):
        small = text.lower()
        if not any(map(small.__contains__, signs)):
            continue
        key = small.lstrip("0123456789-:. []ms")
        if key not in read:
            if len(read) == MOST_READ:
                _refuse(where, f"the file has more than {MOST_READ} different lines with errors")
            read[key] = list(_of_line(text))
        for each in read[key]:
            first = causes.setdefault(
                (each.cause, each.fix), replace(each, line=number if where else 0, count=0)
            )
            causes[each.cause, each.fix] = replace(first, count=first.count + 1)
    return list(causes.values())


def _of_file(path: Path) -> list[Explanation]:
    data = read_bytes(path, MOST_BYTES)
    if len(data) > MOST_BYTES:
        _refuse(str(path), f"the file has more than {MOST_BYTES} bytes, the limit of xdlc")
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    lines = data.decode("utf-16" if wide else "utf-8-sig", "replace").splitlines()
    return _grouped((line[:LONGEST_LINE] for line in lines), str(path))


def _refuse(where: str, problem: str) -> NoReturn:
    raise UsageError(
        problem, where=where or None, fix="give the part with the first errors, like: head -n 20000"
    )
