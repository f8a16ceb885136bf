"""Reader of the op trace that libQnnHtp writes when it compiles a graph.

The text (SDK 2.47 to 2.51) looks like Python.  Four of its tables are read; the others are skipped::

    bandwidth_information = [
    {"opid" : 0x0000411100000002 , "dram_read": 12288 , "dram_write": 0 , "vtcm_read": 0 , ...
    graph_res_flags0 = { # :::BEGIN:graph_flag0:::
            0x41be0000001a: {
                    'flags': ('uses_hmx',),
    qnn_name_translations = {
    0x000000000000001a: '12',
    opdesc_map ={
      '#1': opdesc( 0x411100000002, "q::*InputSlice", ptr=0x5564a7476d50, runlist_pos = 0,
    tcm_block_info = {
        35: (0xaa800, 0x3000),

The low 32 bits of a kernel's id are the id of the QNN op that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from xdlc.errors import BackendError

LONGEST = 1 << 31
"""Most bytes of a trace; one of 15,000 kernels has 40 MB."""
_LINE = 1 << 22
MOST_KERNELS = 1 << 20
ENGINES = {"uses_hmx": "HMX", "uses_hvx": "HVX", "uses_dma": "DMA"}
"""Engine by flag of the trace; a kernel without one runs on the scalar unit."""
SCALAR = "scalar"
SPILL, FILL = "@Spill", "@Fill"
"""Kernels that write values for which VTCM has no room to DRAM, and read them again."""

_TABLES = {
    "bandwidth_information",
    "graph_res_flags0",
    "qnn_name_translations",
    "opdesc_map",
    "tcm_block_info",
}
_ROW = re.compile(
    r'\{"opid" : 0x([0-9a-f]{1,16}) , "dram_read": (\d{1,15}) , "dram_write": (\d{1,15}) , '
    r'"vtcm_read": (\d{1,15}) , "vtcm_write": (\d{1,15}), "is_dma": [01]\},?'
)
_FLAGGED = re.compile(r"\s*0x([0-9a-f]{1,16}): \{(?:'flags' : \(\)\},)?")
_FLAGS = re.compile(r"\s*'flags': \(((?:'\w+',)*)\),")
_NAME = re.compile(r"0x([0-9a-f]{1,16}): '(\d{1,9})',")
_KERNEL = re.compile(r"""  '#\d+': opdesc\( 0x([0-9a-f]{1,16}), "([^"\\]{1,200})",.*""")
_BLOCK = re.compile(r"\s*\d+: \(0x([0-9a-f]{1,16}), 0x([0-9a-f]{1,16})\),")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that are moved.

    Attributes:
        dram_read: Bytes read from DRAM.
        dram_write: Bytes written to DRAM.
        vtcm_read: Bytes read from VTCM.
        vtcm_write: Bytes written to VTCM.
    """

    dram_read: int = 0
    dram_write: int = 0
    vtcm_read: int = 0
    vtcm_write: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Traffic)))

    @property
    def dram(self) -> int:
        """Bytes read from DRAM and written to it."""
        return self.dram_read + self.dram_write

    @property
    def vtcm(self) -> int:
        """Bytes read from VTCM and written to it."""
        return self.vtcm_read + self.vtcm_write


@dataclass(frozen=True, slots=True)
class Kernel:
    """An op of the compiled graph that moves bytes.

    Attributes:
        op: Number of the op that it comes from, in the graph that was compiled; None for copies of inputs
            and outputs.
        operation: The library's name of it, like ``ConvLayer.fp16.s2.tcm``.
        engine: ``HMX``, ``HVX``, ``DMA`` or ``scalar``.
        traffic: Bytes that it moves.
    """

    op: int | None
    operation: str
    engine: str
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class Schematic:
    """Content of an op trace.

    Attributes:
        kernels: Kernels that move bytes, in order.
        vtcm_peak: Bytes of VTCM up to the last block in use.
    """

    kernels: tuple[Kernel, ...]
    vtcm_peak: int


def read_schematic(path: Path, build: str) -> Schematic:
    """Return the content of an op trace.

    Args:
        build: Build of the library that wrote it, for messages.

    Raises:
        BackendError: If it is not of the known format, naming the line.
    """
    lines = _Lines(path, build)
    rows: dict[int, Traffic] = {}
    flags: dict[int, str] = {}
    numbers: dict[int, int] = {}
    operations: dict[int, str] = {}
    peak, tables = 0, set[str]()
    for line in lines:
        table = line.split(" =", 1)[0] if "= {" in line or "={" in line or "= [" in line else ""
        match table:
            case "bandwidth_information":
                for match in lines.rows(_ROW, "]"):
                    key, *counts = match.groups()
                    if int(key, 16) in rows or len(rows) >= MOST_KERNELS:
                        raise lines.error(f"has the kernel 0x{key} twice, or more than {MOST_KERNELS:,}")
                    rows[int(key, 16)] = Traffic(*map(int, counts))
            case "graph_res_flags0":
                flags = dict(_flags(lines))
            case "qnn_name_translations":
                numbers = {int(match[1], 16): int(match[2]) for match in lines.rows(_NAME, "}")}
            case "opdesc_map":
                operations = dict(_operations(lines))
            case "tcm_block_info":
                for match in lines.rows(_BLOCK, "}"):
                    peak = max(peak, int(match[1], 16) + int(match[2], 16))
            case _:
                continue
        tables.add(table)
    lacking = _TABLES - tables
    if lacking:
        raise lines.error(f"lacks {', '.join(sorted(lacking))}")
    unknown = rows.keys() - operations.keys() or rows.keys() - flags.keys()
    if unknown:
        raise lines.error(f"does not describe the kernel 0x{min(unknown):x}")
    kernels = (
        Kernel(numbers.get(key & 0xFFFFFFFF), operations[key].removeprefix("q::"), flags[key], traffic)
        for key, traffic in rows.items()
    )
    return Schematic(tuple(kernels), peak)


class _Lines:
    """Lines of a trace, with their number for errors."""

    def __init__(self, path: Path, build: str) -> None:
        self._path, self._build, self._number = path, build, 0
        self._lines = self._read()

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def _read(self) -> Iterator[str]:
        with open(self._path, encoding="latin-1", newline="\n") as file:
            if self._path.stat().st_size > LONGEST:
                raise self.error(f"is larger than {LONGEST:,} bytes")
            while line := file.readline(_LINE):
                self._number += 1
                if len(line) == _LINE:
                    raise self.error(f"has a line of more than {_LINE:,} bytes")
                yield line.rstrip("\n")

    def rows(self, pattern: re.Pattern[str], end: str) -> Iterator[re.Match[str]]:
        """Yield the matches of the lines of a table up to its end."""
        for line in self._lines:
            if line.startswith(end):
                return
            match = pattern.fullmatch(line)
            if match is None:
                raise self.error(f"has the line {line.strip()[:60]!r}, which is not known")
            yield match
        raise self.error("ends within a table")

    def error(self, problem: str) -> BackendError:
        """Return the error of an unknown format."""
        return BackendError(
            f"the op trace {problem}",
            where=f"libQnnHtp {self._build}: line {self._number}",
            fix="use a release of onnxruntime-qnn that xdlc platform-check knows",
        )


def _flags(lines: _Lines) -> Iterator[tuple[int, str]]:
    """Yield the engine of each kernel by its id."""
    key = None
    for line in lines:
        if line.startswith("}"):
            return
        if match := _FLAGGED.fullmatch(line):
            key = int(match[1], 16)
            yield key, SCALAR
        elif (match := _FLAGS.fullmatch(line)) and key is not None:
            words = [word.strip("'") for word in match[1].split(",") if word]
            yield key, next((engine for word, engine in ENGINES.items() if word in words), SCALAR)
        elif line.strip() not in ("'graph': {", "},", "}"):
            raise lines.error(f"has the line {line.strip()[:60]!r}, which is not known")
    raise lines.error("ends within a table")


def _operations(lines: _Lines) -> Iterator[tuple[int, str]]:
    """Yield the name of each kernel by its id."""
    for line in lines:
        if line.startswith("}"):
            return
        if line.startswith("  '#"):
            match = _KERNEL.fullmatch(line)
            if match is None:
                raise lines.error(f"has the line {line.strip()[:60]!r}, which is not known")
            yield int(match[1], 16), match[2]
    raise lines.error("ends within a table")
