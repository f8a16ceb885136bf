"""Any collection survives writing and reading; texts only raise errors."""

import contextlib

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xdlc.ir.dtype import BY_NAME, FLOAT32, UFIXED8, UNDEFINED
from xdlc.opdefs.constraint_check import check
from xdlc.opdefs.constraint_eval import UnknownError, evaluate
from xdlc.opdefs.constraint_parser import NotAnExpressionError, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.defaults import parse_default
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    DescriptionPart,
    OpDef,
    ParamDef,
    Reference,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.supplements import tensors_of
from xdlc.opdefs.xml_elements import collection as built
from xdlc.opdefs.xml_reader import values_of
from xdlc.opdefs.xml_writer import write_collection

CHARS = st.characters(exclude_categories=("Cs", "Cc", "Cn"), include_characters="\n\t")
TEXT = st.text(CHARS, max_size=12).map(str.strip)
WORDS = TEXT.filter(bool)
ATTRIBUTE = st.text(CHARS, max_size=8)
NAME = st.text("abcXYZ_09[]", min_size=1, max_size=6)
DTYPES = st.lists(
    st.sampled_from([d for d in BY_NAME.values() if d is not UNDEFINED]), max_size=3, unique=True
).map(tuple)
LAYOUT = st.sampled_from(values_of("layout"))
RULE = st.builds(Constraint, TEXT, st.sampled_from(values_of("constraintType")), WORDS)
RULES = st.lists(RULE, max_size=2).map(tuple)
PARTS = st.lists(
    st.builds(DescriptionPart, st.text(CHARS, min_size=1, max_size=8).filter(str.strip), st.booleans()),
    max_size=3,
).map(tuple)
FIELDS = {
    "name": NAME,
    "mandatory": st.booleans(),
    "dtypes": DTYPES,
    "rank": st.sampled_from((None, 0, 1, 2, 3, 4)),
    "text": TEXT,
    "layout": LAYOUT,
    "constraints": RULES,
    "description": PARTS,
}
DEFAULT = st.none() | WORDS
INPUT = st.builds(TensorDef, **FIELDS, default=DEFAULT, repeated=st.booleans(), is_static=st.booleans())
OUTPUT = st.builds(TensorDef, **FIELDS, repeated=st.booleans())
PARAM = st.builds(ParamDef, **FIELDS, default=DEFAULT, enumeration=st.lists(WORDS, max_size=3).map(tuple))
ADDED = st.builds(SupplementTensor, NAME, DTYPES, RULES, st.booleans(), LAYOUT, TEXT)


def by_name(values):
    return st.lists(values, max_size=2, unique_by=lambda one: one.name).map(
        lambda held: {one.name: one for one in held}
    )


REFERENCE = st.builds(Reference, ATTRIBUTE, ATTRIBUTE, TEXT).filter(
    lambda one: one.source or one.url or one.text
)
OP = st.builds(
    OpDef,
    NAME,
    st.just("Pkg"),
    st.lists(INPUT, max_size=2).map(tuple),
    st.lists(OUTPUT, max_size=2).map(tuple),
    by_name(PARAM),
    PARTS,
    st.lists(REFERENCE, max_size=2).map(tuple),
    st.lists(WORDS, max_size=2).map(tuple),
    st.booleans(),
)
ROW = st.builds(SupplementOp, NAME, by_name(ADDED), by_name(ADDED), by_name(ADDED))
TABLE = st.builds(
    SupplementTable,
    WORDS,
    st.frozensets(WORDS, max_size=2),
    by_name(ROW).map(lambda rows: {name: (row,) for name, row in rows.items()}),
)
COLLECTION = st.builds(
    Collection,
    st.just("Pkg"),
    ATTRIBUTE,
    ATTRIBUTE.filter(str.strip),  # a blank version is that of who states none
    st.lists(OP, min_size=1, max_size=2).map(tuple),
    st.lists(TABLE, max_size=2).map(tuple),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COLLECTION)
def test_reading_gives_what_was_written(collection):
    from xml.etree import ElementTree

    from lxml import etree

    data = write_collection(collection).encode()
    assert built(ElementTree.fromstring(data)) == collection
    assert built(etree.fromstring(data)) == collection


@settings(max_examples=300, deadline=None)
@given(st.text("abin xrank()shape[]{}0123.,+-*/%<>=!'\"ofdtype \u2264", max_size=60))
def test_any_text_is_an_expression_or_words(text):
    with contextlib.suppress(NotAnExpressionError):
        assert parse(text).source is not None


TOKENS = st.sampled_from(
    "in[0] in[1] in[7] out[0] x rest rest[0] axis mode pads label flag N A FLOAT_32 rank shape size value "
    "number datatype inputs rank(x) shape(rest) size(x) datatype(x) number(rest) dim(x,0) broadcast(x,rest) "
    "'a' 0 1 2 1.5 99999999999999999 [1,2] {0,A} [] x.shape x.dim[0] pads[0] max(1,N) min(pads) floor(1.5) "
    "abs(axis)".split()
)
OPERATORS = st.sampled_from("+ - * / // % < <= > >= == != in like and or".split())


@st.composite
def rules(draw):
    words = [draw(TOKENS)]
    for _ in range(draw(st.integers(1, 4))):
        words += [draw(OPERATORS), draw(st.sampled_from(("", "", "-", "not "))) + draw(TOKENS)]
    return " ".join(words)


@settings(max_examples=300, deadline=None)
@given(rules(), st.sampled_from(("x", "rest", "pads", "axis")))
def test_any_expression_holds_or_fails_or_is_not_known(text, own):
    try:
        node = parse(text)
    except NotAnExpressionError:
        return
    entry = next(entry for _, entry, _ in tensors_of(MIX) if entry.name == own)
    scope = OpScope(MIX, VIEW, entry, {"N": 2, "M": None})
    assert scope.unknown(node) is None
    if node.is_rule:
        failure = check(node, scope)
        assert failure is None or (failure.expected in text and failure.found)
    else:
        with contextlib.suppress(UnknownError):
            evaluate(node, scope)


MIX = OpDef(
    "Mix",
    "Pkg",
    (
        TensorDef("x", True, (FLOAT32,), None, "[N, M]"),
        TensorDef("bias", False, (), None),
        TensorDef("rest", False, (), None, repeated=True),
    ),
    (TensorDef("y", True, (), None),),
    {
        "axis": ParamDef("axis", False, (), 0, default="-1"),
        "mode": ParamDef("mode", False, (), 0, enumeration=("A", "B")),
        "pads": ParamDef("pads", False, (), 1),
        "label": ParamDef("label", False, (), 0),
        "flag": ParamDef("flag", False, (), 0),
    },
)
REST = (TensorSpec((2, None), FLOAT32), None, TensorSpec((3,), UFIXED8))
VIEW = OpView(
    "Pkg",
    "Mix",
    "node",
    (TensorSpec((2, 3), FLOAT32), None, *REST),
    (TensorSpec((2,), FLOAT32),),
    {"mode": "B", "pads": np.array([1, 0, 2]), "label": "a", "flag": True},
)


@settings(max_examples=200, deadline=None)
@given(st.text("[](){},-+.e019 aB\n", max_size=40))
def test_any_text_is_a_default_of_some_kind(text):
    value = parse_default(text)
    assert isinstance(value, int | float | str | list)
