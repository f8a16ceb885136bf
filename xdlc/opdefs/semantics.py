"""Rules of valid definitions beyond the schema, and C++ identifiers.

Inputs count by position.  An **optional input before a mandatory one** is refused: no tensor could
replace it. Among optional ones any may be missing: a source names it with an empty name, the graph holds
None there, so that those after it keep their positions.  A Repeated input goes last and takes the rest; a
mandatory one needs at least one tensor, and hence no optional input before it.  Optional outputs may be
anywhere.

Other choices: a **Repeated** input or output of an op for HTP or DSP is a notice, not an error (see
``lint``): those backends accept such an op once the number is known, as it is in a model.  The default of
an **input** may be one number for every element, as in QNN's own definitions; that of a parameter has the
parameter's rank.  A **string** is a scalar parameter.  Names of **enumerators** may be any words, as
source models spell them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from xdlc.errors import ModelError
from xdlc.opdefs import backends
from xdlc.opdefs.constraint_parser import is_expression
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.loader import all_types
from xdlc.opdefs.model import Collection, OpDef, ParamDef, TensorDef
from xdlc.opdefs.supplements import Problem, repeated_ids, supplement_problems, tensors_of
from xdlc.opdefs.xml_elements import MAX_NAME, Key, near

MAX_PROBLEMS = 100
RESERVED_PACKAGES = ("qti.aisw", "xdlc", "snpe")

KEYWORDS = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
    "catch", "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const",
    "consteval", "constexpr", "constinit", "const_cast", "continue", "co_await", "co_return",
    "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
    "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
))  # fmt: skip
"""Keywords of C++20."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDEXED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[0-9]{1,9}\]")
TITLES = {"input": "input", "output": "output", "param": "parameter"}


def check_collection(collection: Collection, lines: Mapping[Key, str] | None = None) -> list[ModelError]:
    """Return the breaches of the rules; at most ``MAX_PROBLEMS``.

    Args:
        collection: The definitions.  They cannot hold a name of a parameter or supplement twice: readers of
            files report those with ``duplicate``.
        lines: ``file:line`` of the parts, by the keys of ``xml_elements.keys``; a missing part has the
            line of its parent.
    """
    held = lines or {}
    return [
        ModelError(problem.text, where=place(held, problem.key), fix=problem.fix)
        for problem in islice(_problems(collection), MAX_PROBLEMS)
    ]


def duplicate(title: str, name: str, where: str | None = None) -> ModelError:
    """Return the error for a repeated name.

    Args:
        title: Kind of the name, with its parent: ``op 'Blend': parameter``.
        where: ``file:line`` of the second one.
    """
    return ModelError(f"{title} {name!r} is repeated", where=where, fix="rename or remove one definition")


def place(lines: Mapping[Key, str], key: Key) -> str | None:
    """Return the line of a part, or of its closest parent with a line."""
    for length in range(len(key), -1, -1):
        if key[:length] in lines:
            return lines[key[:length]]
    return None


def _problems(collection: Collection) -> Iterator[Problem]:
    named = True
    for problem in _naming(collection):
        named = False
        yield problem
    for index, op in enumerate(collection.opdefs):
        yield from _op(op, ("op", index))
    if named:
        yield from supplement_problems(collection)


def _naming(collection: Collection) -> Iterator[Problem]:
    package = collection.package
    if package in RESERVED_PACKAGES:
        yield Problem(f"package name {package!r} is reserved", ("PackageName",), "choose another name")
    elif reason := identifier_problem(package):
        yield Problem(f"package name {package!r} {reason}", ("PackageName",), "use a C++ identifier")
    if not collection.opdefs:
        yield Problem(f"package {package!r} defines no op", (), "add an <OpDefList> with an <OpDef>")
    seen: set[str] = set()
    for index, op in enumerate(collection.opdefs):
        key: Key = ("op", index)
        if reason := identifier_problem(op.name):
            yield Problem(f"op name {op.name!r} {reason}", (*key, "Name"), "use a C++ identifier")
        if op.name in seen:
            yield Problem(f"op {op.name!r} is repeated", (*key, "Name"), "rename or remove one op")
        seen.add(op.name)
        for problem in _names(op, key):
            yield problem._replace(text=f"op {op.name!r}: {problem.text}")


def _names(op: OpDef, key: Key) -> Iterator[Problem]:
    """Yield bad names of inputs, outputs and parameters, one C++ scope."""
    places: dict[str, Key] = {}
    for side, tensor, where in tensors_of(op, key):
        kind = TITLES[side]
        if reason := identifier_problem(tensor.name, indexed=side != "param"):
            yield Problem(f"{kind} name {tensor.name!r} {reason}", (*where, "Name"), "use a C++ identifier")
        first = places.setdefault(tensor.name, where)
        if first is not where:
            kinds = dict.fromkeys((TITLES[str(first[2])], kind))
            words = f"name {tensor.name!r} is repeated, as {' and as '.join(kinds)}"
            yield Problem(words, (*where, "Name"), "rename one tensor")


def _op(op: OpDef, key: Key) -> Iterator[Problem]:
    title = f"op {op.name!r}"
    if op.use_default_translation and op.name not in all_types():
        fix = f"{near(op.name, all_types())}; or set UseDefaultTranslation to false".removeprefix("; or ")
        yield Problem(
            f"{title}: UseDefaultTranslation is true, but QNN has no operation of this name",
            (*key, "UseDefaultTranslation"),
            fix,
        )
    for side, tensor, where in tensors_of(op, key):
        for problem in _tensor(side, tensor, where):
            yield problem._replace(text=f"{title}: {TITLES[side]} {tensor.name!r} {problem.text}")
    for problem in _order(op.inputs, (*key, "input")):
        yield problem._replace(text=f"{title}: {problem.text}")
    for side, tensors in (("input", op.inputs), ("output", op.outputs)):
        if not tensors:
            yield Problem(f"{title} has no {side}, expected at least one", key, f"add an {side}")
        for problem in _repeated(side, tensors, (*key, side)):
            yield problem._replace(text=f"{title}: {problem.text}")
    for problem in _backends(op, key):
        yield problem._replace(text=f"{title} {problem.text}")


def _tensor(side: str, tensor: TensorDef, key: Key) -> Iterator[Problem]:
    if any(dtype.kind == "string" for dtype in tensor.dtypes) and (side != "param" or tensor.rank != 0):
        scalar = "a scalar (Rank SCALAR, in JSON one of scalar_params)"
        fix = f"make it {scalar}" if side == "param" else f"make it a parameter, and {scalar}"
        yield Problem("is a tensor of strings, expected numbers", (*key, "Datatype"), fix)
    if side != "param" and tensor.rank == 0:
        yield Problem("is SCALAR, expected rank 1 or more", (*key, "Rank"), "make it a parameter, or 1D")
    yield from _shape(tensor, key)
    yield from repeated_ids(tensor.constraints, key)
    sound = True
    if isinstance(tensor, ParamDef):
        for problem in _enumeration(tensor, key):
            sound = False
            yield problem
    if tensor.default is not None and sound:
        yield from _default(side, tensor, key)


def _shape(tensor: TensorDef, key: Key) -> Iterator[Problem]:
    dims = tensor.shape
    if not tensor.rank:
        return
    if tensor.layout == "NHCW" and tensor.rank != 4:
        yield Problem(
            f"is {tensor.rank}D, but NHCW is an order of 4 axes", (*key, "Layout"), "correct Rank or Layout"
        )
    if dims and len(dims) != tensor.rank and all(map(is_expression, dims)):
        count = f"{len(dims)} dimension{'s' if len(dims) > 1 else ''}"
        yield Problem(f"is {tensor.rank}D, but its Text has {count}", (*key, "Text"), "correct Rank or Text")


def _enumeration(param: ParamDef, key: Key) -> Iterator[Problem]:
    if not param.enumeration:
        return
    where = (*key, "Enumeration")
    odd = [dtype.name for dtype in param.dtypes if not dtype.is_integer]
    if odd:
        words = f"is an enumeration of {odd[0]}, expected an integer type"
        yield Problem(words, (*key, "Datatype"), "use UINT_32")
    elif "" in param.enumeration:
        yield Problem("has an <Enum> without a name", (*where, ""), "name it or remove it")
    else:
        twice = [name for name, count in Counter(param.enumeration).items() if count > 1]
        if twice:
            yield Problem(
                f"has enumerator {twice[0]!r} twice", (*where, twice[0]), "rename or remove one enumerator"
            )


def _default(side: str, tensor: TensorDef, key: Key) -> Iterator[Problem]:
    where = (*key, "Default")
    if side == "output":
        yield Problem("has a default value, which outputs cannot have", where, "remove the default")
    elif tensor.mandatory:
        yield Problem(
            "is mandatory and has a default value", where, "set Mandatory to false, or remove the default"
        )
    else:
        try:
            default_value(tensor)
        except ValueError as error:
            yield Problem(f"has the default {error}", where, "correct the default")


def _order(inputs: Sequence[TensorDef], key: Key) -> Iterator[Problem]:
    optional = None
    for index, tensor in enumerate(inputs):
        if not tensor.mandatory:
            optional = optional or tensor
        elif optional is not None:
            yield Problem(
                f"optional input {optional.name!r} precedes mandatory input {tensor.name!r}",
                (*key, index),
                "put mandatory inputs first",
            )
            return


def _repeated(side: str, tensors: Sequence[TensorDef], key: Key) -> Iterator[Problem]:
    repeated = [index for index, tensor in enumerate(tensors) if tensor.repeated]
    if len(repeated) > 1:
        names = " and ".join(repr(tensors[index].name) for index in repeated[:2])
        yield Problem(
            f"{side}s {names} are both Repeated",
            (*key, repeated[1], "Repeated"),
            f"let one {side} be Repeated, the last",
        )
    elif repeated and repeated[0] != len(tensors) - 1:
        yield Problem(
            f"{side} {tensors[repeated[0]].name!r} is Repeated, but not the last {side}",
            (*key, repeated[0], "Repeated"),
            f"put it after the other {side}s",
        )


def _backends(op: OpDef, key: Key) -> Iterator[Problem]:
    for name, fix in backends.unknown(op.backends):
        yield Problem(f"names unknown backend {name!r}", (*key, "SupportedBackend", name), fix)
    for name, count in Counter(op.backends).items():
        if count > 1:
            yield Problem(
                f"names backend {name!r} twice", (*key, "SupportedBackend", name), "remove one entry"
            )


def identifier_problem(name: str, *, indexed: bool = False) -> str | None:
    """Return why a name is not a C++ identifier; None if it is one.

    Args:
        indexed: Whether the form ``in[0]`` is accepted too.

    Example:
        >>> identifier_problem("in[0]", indexed=True), identifier_problem("in[0]")
        (None, "has '[', expected letters, digits and underscores")
        >>> identifier_problem("2x"), identifier_problem("class")
        ('begins with a digit', 'is a keyword of C++')
    """
    if len(name) > MAX_NAME:
        return f"is {len(name)} characters long, expected at most {MAX_NAME}"
    match = _INDEXED.fullmatch(name) if indexed else None
    stem = match[1] if match else name
    if stem in KEYWORDS:
        return "is a keyword of C++"
    if _IDENTIFIER.fullmatch(stem):
        return None
    if not name:
        return "is empty"
    if name[0].isdigit():
        return "begins with a digit"
    bad = next(char for char in name if not (char.isascii() and (char.isalnum() or char == "_")))
    return f"has {bad!r}, expected letters, digits and underscores"
