"""``compile_c``: kernels of plugins from C source, with formats around them.

Arguments of a kernel are letters of their kinds, and their values:

====== ==============================
Letter Value
====== ==============================
``i``  integer of 64 bits
``f``  real number
``s``  string
``o``  tensor: an array
====== ==============================

Parentheses group letters as a tuple groups values: ``"(i,i,i,i), s, i"`` takes ``(1, 3, 8, 8), "SUM", 1``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from xdlc.errors import StorageError, UsageError
from xdlc.ir.data import TensorData
from xdlc.ir.files import read_bytes
from xdlc.opdefs.op_view import OpView
from xdlc.opdefs.source_match import Kernel
from xdlc.udo.plugin.compiler import compile_library, find_compiler, machine
from xdlc.udo.plugin.formats import find_format

LETTERS = "ifso"
MAX_TEXT, MAX_DEPTH = 1 << 14, 32
Pattern = list[Any]  # letters, and lists of them

SOURCE = Path(__file__).parent / "native" / "packed.c"
_NUMBERS = {"NC1HWC0": 1}
"""Packed formats of activations that ``packed.c`` knows; 0 denotes all that move nothing there."""


def flattened(placeholders: str, values: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return letters and values in one row.

    Args:
        placeholders: The letters, with commas between them and parentheses around groups.
        values: The values, grouped as the letters are, or all in one row.

    Raises:
        UsageError: If the letters cannot be read, or the values do not suit them.

    Example:
        >>> flattened("(i,i), s, f", ((1, 2), "SUM", 1))
        ('iisf', (1, 2, 'SUM', 1.0))
        >>> flattened("(i,i), s", (1, 2, "SUM"))
        ('iis', (1, 2, 'SUM'))
    """
    pattern = _parsed(placeholders)
    letters = "".join(_row(pattern))
    given = list(values)
    grouped = any(isinstance(value, (tuple, list)) for value in given)
    row = _matched(pattern, given, "arguments") if grouped else given
    if len(row) != len(letters):
        raise UsageError(
            f"{placeholders!r} has {len(letters)} letters, but the number of values is {len(row)}",
            fix="give one value for each letter",
        )
    pairs = zip(letters, row, strict=True)
    return letters, tuple(_checked(letter, value, place) for place, (letter, value) in enumerate(pairs))


def _parsed(text: str) -> Pattern:
    """Return the letters in nested lists; the text is JSON but for brackets."""
    known = isinstance(text, str) and len(text) <= MAX_TEXT and set(text) <= set(f"{LETTERS}(), \n\t")
    if known and max(accumulate((c == "(") - (c == ")") for c in text), default=0) <= MAX_DEPTH:
        listed = re.sub(f"[{LETTERS}]", r'"\g<0>"', text.translate(str.maketrans("()", "[]")))
        with suppress(ValueError):
            return list(json.loads(f"[{listed}]"))
    raise UsageError(
        f"arguments {str(text)[:60]!r} cannot be read",
        fix="write letters i, f, s and o with commas between them, groups in parentheses",
    )


def _row(pattern: Pattern) -> list[str]:
    return [letter for item in pattern for letter in (_row(item) if isinstance(item, list) else [item])]


def _matched(pattern: Pattern, values: Sequence[Any], what: str) -> list[Any]:
    if len(pattern) != len(values):
        raise UsageError(
            f"the letters name {len(pattern)} {what}, but the number of values is {len(values)}",
            fix="give one value for each letter",
        )
    row: list[Any] = []
    for place, (item, value) in enumerate(zip(pattern, values, strict=True)):
        if isinstance(item, list):
            if not isinstance(value, (tuple, list)):
                raise UsageError(
                    f"argument {place} is a group of {len(item)} values, but its value is {value!r}",
                    fix=f"give a tuple of {len(item)} values",
                )
            row += _matched(item, value, f"items of argument {place}")
        else:
            row.append(value)
    return row


def _checked(letter: str, value: Any, place: int) -> Any:
    import numpy

    if letter == "i" and isinstance(value, (int, numpy.integer)) and -(2**63) <= int(value) < 2**63:
        return int(value)
    if letter == "f" and isinstance(value, (int, float, numpy.integer, numpy.floating)):
        return float(value)
    if letter == "s" and isinstance(value, str) and "\0" not in value:
        return value
    if letter == "o" and isinstance(value, (numpy.ndarray, TensorData)):
        return value.numpy() if isinstance(value, TensorData) else numpy.ascontiguousarray(value)
    kinds = {"i": "an integer of 64 bits", "f": "a number", "s": "a string", "o": "an array"}
    raise UsageError(
        f"argument {place} has the letter {letter!r}, which means {kinds[letter]}, but its value is "
        f"{repr(value)[:60]}",
        fix="correct the letter or the value",
    )


def outer_name(entry: str) -> str:
    """Return the name of the kernel around a kernel."""
    return f"{entry}_packed"


def needs_packing(formats: Sequence[str]) -> bool:
    """Return whether any of the formats moves elements."""
    return any(find_format(name).is_packed for name in formats)


def formats_header(entry: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Return the text of ``formats.h`` for the kernel around a kernel.

    Args:
        entry: Function of the inner kernel.
        inputs: Formats of the inputs; ``ND`` where they come as they are stored.
        outputs: Formats of the outputs.

    Raises:
        UsageError: If activations do not come in a format.
    """
    names = (*inputs, *outputs)
    for name in names:
        if find_format(name).for_weights_only:
            raise UsageError(f"format {name} is only for weights", fix="use weight_formats")
    numbers = ", ".join(str(_NUMBERS[name] if find_format(name).is_packed else 0) for name in names)
    return "\n".join(
        (
            *(f"#define XDLC_{name} {number}" for name, number in _NUMBERS.items()),
            f"#define XDLC_INNER {entry}",
            f"#define XDLC_OUTER {outer_name(entry)}",
            f"#define XDLC_NUM_INPUTS {len(inputs)}",
            f"#define XDLC_NUM_OUTPUTS {len(outputs)}",
            f"static const unsigned char FORMATS[] = {{{numbers}}};",
            "",
        )
    )


MAX_SOURCE = 8 << 20
PACKED = "xdlc_packed.c"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_PROTOTYPE = """#include "xdlc_udo.h"
xdlc_udo_status {entry}(uint32_t, const xdlc_udo_tensor *, uint32_t, const xdlc_udo_tensor *, uint32_t,
                        const xdlc_udo_argument *);
"""


@dataclass(frozen=True, slots=True)
class BuildView(OpView):
    """View of an op for ``build_kernel``, with the formats of inputs and outputs.

    Attributes:
        input_formats: Format of each input, as the kernel gets it.
        output_formats: Format of each output.
        notify: Called with what the compiler warns of.
        built: Libraries of this conversion that were made already.
    """

    input_formats: tuple[str, ...] = ()
    output_formats: tuple[str, ...] = ()
    notify: Callable[[str], None] | None = None
    built: dict[Any, bytes] = field(default_factory=dict)


def compile_c(
    op: OpView,
    source: str | Path,
    *,
    entry: str,
    arguments: str = "",
    values: Sequence[Any] = (),
    name: str = "",
    flags: Sequence[str] = (),
    timeout: float = 60.0,
) -> Kernel:
    """Return a kernel for this machine, compiled from C source.

    Args:
        op: The op that ``build_kernel`` was called with; it knows the formats of the plugin.
        source: C text, or the path of a ``.c`` file, whose folder may hold headers of its own.
        entry: Function of type ``xdlc_udo_kernel`` (see ``xdlc_udo.h``, which is declared before the source).
        arguments: Letter of each argument, like ``"(i,i,i,i), s, f"``: i integer, f real, s string, o tensor.
        values: The arguments, grouped as their letters are, or in one row.
        name: Name of the kernel; default: that of the function.
        flags: Further options of the compiler, like ``-fopenmp``.
        timeout: Seconds that the compiler may take.

    Raises:
        UsageError: If an argument is wrong, or the compiler refuses the source.
        StorageError: If the file cannot be read.
        BackendError: If there is no compiler, or it takes too long.
    """
    if not entry.isidentifier() or not entry.isascii():
        raise UsageError(f"{entry!r} is not a C function name", fix="give the name of your kernel function")
    if isinstance(flags, str):
        raise UsageError(f"flags is the string {flags!r}", fix=f"write flags=({flags!r},)")
    if timeout <= 0:
        raise UsageError(f"timeout is {timeout:g} s", fix="give seconds above 0")
    letters, row = flattened(arguments, values)
    file, text, folder = _source(source)
    files: dict[str, str | bytes] = {file: text, "xdlc_entry.h": _PROTOTYPE.format(entry=entry)}
    outer = entry
    inputs = op.input_formats if isinstance(op, BuildView) else ()
    outputs = op.output_formats if isinstance(op, BuildView) else ()
    if needs_packing((*inputs, *outputs)):
        files |= {PACKED: SOURCE.read_bytes(), "formats.h": formats_header(entry, inputs, outputs)}
        outer = outer_name(entry)
    compiler = find_compiler()
    # headers beside the source may change between two conversions, not within one
    key = (compiler, outer, tuple(flags), str(folder), _digest(files))
    built: dict[Any, bytes] = op.built if isinstance(op, BuildView) else {}
    if key not in built:
        binary, warned = compile_library(
            files, outer, compiler=compiler, flags=flags, include=folder, timeout=timeout
        )
        built[key] = binary
        if warned and isinstance(op, BuildView) and op.notify is not None:
            op.notify(f"{compiler.tool} on {file}:\n{warned.rstrip()}")
    return Kernel(name or entry, outer, letters, row, machine(), compiler.tool, built[key])


def _source(source: str | Path) -> tuple[str, bytes, Path | None]:
    """Return name and text of a source, and its folder."""
    if isinstance(source, str):
        return "kernel.c", source.encode(), None
    try:
        text = read_bytes(source, MAX_SOURCE)
    except StorageError as error:
        error.fix = "name the file relative to the plugin: Path(__file__).with_name(...)"
        raise
    if len(text) > MAX_SOURCE:
        raise UsageError(f"is larger than {MAX_SOURCE >> 20} MiB", where=str(source), fix="name a C file")
    if source.suffix != ".c" or source.name == PACKED or not _FILE.fullmatch(source.name):
        raise UsageError("the name is not a C file's name", where=str(source), fix="use a name like kernel.c")
    return source.name, text, source.resolve().parent


def _digest(files: dict[str, str | bytes]) -> str:
    state = hashlib.sha256()
    for name, content in sorted(files.items()):
        data = content.encode() if isinstance(content, str) else content
        state.update(f"{name}:{len(data)}:".encode() + data)
    return state.hexdigest()
