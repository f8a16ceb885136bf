r"""Names and texts of a configuration in generated files.

Names of packages and operations are identifiers as they stand, and get a prefix wherever they could meet
a keyword.  Names of inputs, outputs, parameters and enumerators are any text: ``in[0]`` becomes ``in_0``.

Configurations are untrusted input, so a template can print a value only through one of the filters here,
or if the value is harmless wherever it stands (an identifier, a number, the name of a file of ours).

Example:
    >>> print(c_string('a"b\\ \n?'), c_comment("ends with \\"), python(chr(0x2019)), markdown("a|*b"))
    "a\"b\\ \n\?" ends with / '\u2019' a\|\*b
"""

from __future__ import annotations

import errno
import keyword
import re
from collections.abc import Iterable, Sequence
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir.names import FreeNames
from xdlc.opdefs.semantics import KEYWORDS

MAX_LENGTH = 100
"""Names become names of files, with something before and after them, and those have at most 255 bytes."""

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9]+")

_KEYWORDS = KEYWORDS | {
    "constant", "final", "fixed", "global", "half", "import", "kernel", "local", "module", "override",
    "reflexpr", "restrict", "synchronized", "typeof", "vec_step",
}  # fmt: skip
"""Keywords of C++, and words that C and OpenCL C, or some places of C++, have besides."""

_MACROS = re.compile(
    "NULL|EOF|TRUE|FALSE|NAN|INFINITY|DOMAIN|SING|OVERFLOW|UNDERFLOW|PLOSS|TLOSS|HUGE|HUGE_VAL[A-Z0-9_]*|SNAN[A-Z0-9]*"
    "|MAXFLOAT|BUFSIZ|TMP_MAX|RAND_MAX|FILENAME_MAX|FOPEN_MAX|NFDBITS|CHAR_BIT|CLOCKS_PER_SEC|BYTE_ORDER|CSIGNAL"
    "|(BIG|LITTLE|PDP)_ENDIAN|linux|unix|errno|assert|stdin|stdout|stderr|signals|slots|emit|interface|near|far"
    "|small|complex|imaginary|offsetof|alloca|math_errhandling|sched_priority"
    "|W(EOF|NOHANG|CONTINUED|EXITED|NOWAIT|STOPPED|UNTRACED)"
    "|(ADJ|ATOMIC|CLOCK|CLONE|CPU|EXIT|FD|FP|L|LC|M|MATH|MB|MOD|P|PTHREAD|RENAME|SCHED|SEEK|SIG|STA|TIME|TIMER"
    "|FLT|DBL|LDBL|DECIMAL|QNN|SNPE_UDO)_[A-Za-z0-9_]+"
    "|SIG(ABRT|ALRM|BUS|CHLD|CONT|FPE|HUP|ILL|INT|IO|KILL|PIPE|PROF|QUIT|SEGV|STOP|SYS|TERM|TRAP|USR[12])"
    "|U?INT(_?[A-Z0-9]+)*_(MIN|MAX|C|WIDTH)|U?(INT|LONG|LLONG|SHRT|CHAR|SCHAR)_(MIN|MAX|BIT)"
    "|(SIZE|PTRDIFF|WCHAR|WINT)_(MIN|MAX|WIDTH)|[A-Z]+_FASTEST",
)
"""Macros of common headers, and of systems on which packages are built."""

_ERRNO = frozenset(name for name in dir(errno) if name.startswith("E")) | {"EHWPOISON"}
_OURS = frozenset(("udo", "std", "Inputs", "Outputs", "Params", "Binding", "Storage"))

_HARMLESS = re.compile(r"[A-Za-z0-9_./+-]*", re.ASCII)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "?": "\\?"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~&$-])")


def check_name(name: str, what: str, where: str | None = None) -> None:
    """Check a name that files and symbols are called by.

    Raises:
        ModelError: If it is not an identifier, or too long.
    """
    if not _LEGAL.fullmatch(name):
        raise ModelError(
            f"the {what} {name!r} is not a C++ identifier",
            where=where,
            fix="use letters, digits and underscores, and begin with a letter",
        )
    if len(name) > MAX_LENGTH:
        raise ModelError(
            f"the {what} {name[:20]!r}... has {len(name)} characters; at most {MAX_LENGTH} are possible",
            where=where,
            fix="shorten the name, because files have this name too",
        )


def identifier(name: str) -> str:
    """Return an identifier of C, C++ and Python that reads like a name.

    Example:
        >>> [identifier(name) for name in ("in[0]", "int", "3d", "__FILE__", "EOF")]
        ['in_0', 'int_', 'x3d', 'FILE', 'EOF_']
    """
    word = _OTHER.sub("_", name).strip("_")[:MAX_LENGTH] or "x"
    if word[0].isdigit():
        word = f"x{word}"
    known = word in _OURS | _KEYWORDS | _ERRNO or keyword.iskeyword(word)
    reserved = known or _MACROS.fullmatch(word)
    return f"{word}_" if reserved else word


def identifiers(names: Sequence[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a unique identifier for each name; equal identifiers get a number.

    Example:
        >>> identifiers(["in[0]", "in_0", "class"])
        ('in_0', 'in_0_2', 'class_')
    """
    used, unique = set(taken), list[str]()
    free_name = FreeNames(used, first=2)
    for name in names:
        unique.append(free_name(identifier(name)))
        used.add(unique[-1])
    return tuple(unique)


def camel(name: str) -> str:
    """Return a name in CamelCase, for the names of types.

    Example:
        >>> camel("rounding_mode"), camel("mode")
        ('RoundingMode', 'Mode')
    """
    return "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))


class Quoted(str):
    """Text that is already escaped for its target file."""

    __slots__ = ()


def finalize(value: Any) -> Any:
    """Return a value for a template; refuse a text that needs escaping.

    Raises:
        ModelError: If it is text that no filter has quoted and that could mean something in code.
    """
    if isinstance(value, str) and not isinstance(value, Quoted) and not _HARMLESS.fullmatch(value):
        raise ModelError(
            f"generated code cannot contain the text {value!r}",
            fix="use letters, digits and underscores",
        )
    return value


def c_string(text: str) -> Quoted:
    """Return a C string literal in ASCII; other characters are octal UTF-8."""
    return Quoted('"' + "".join(_c_character(character) for character in text) + '"')


def _c_character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if " " <= character <= "~":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="replace"))


def c_comment(text: str) -> Quoted:
    """Return text for the rest of a comment line in C, C++, Python or make."""
    line = (
        " ".join(text.split())
        .replace("\\", "/")
        .replace("*/", "* /")
        .replace("/*", "/ *")
        .replace("??", "? ?")
    )
    return Quoted("".join(character if character.isprintable() else "?" for character in line))


def python(value: Any) -> Quoted:
    """Return a literal of Python in ASCII."""
    return Quoted(ascii(value))


def markdown(text: str) -> Quoted:
    """Return text for a line of Markdown, with its markup escaped."""
    return Quoted(_MARKDOWN.sub(r"\\\1", str(c_comment(text))))


def rendered(text: str) -> Quoted:
    """Return the output of a macro of ours, which ``finalize`` has quoted."""
    return Quoted(text.rstrip("\n"))


FILTERS = {
    "c_string": c_string,
    "c_comment": c_comment,
    "python": python,
    "markdown": markdown,
    "rendered": rendered,
}
