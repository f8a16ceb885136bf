"""Strangers' configurations: nothing is expanded, fetched or built at a cost."""

import os

import pytest

from tests.opdefs.user_configs import BLEND
from xdlc.errors import ModelError, XdlcError
from xdlc.opdefs.loader import MAX_XML_BYTES
from xdlc.opdefs.xml_reader import parse_collection

HEAD = '<OpDefCollection PackageName="P" Domain="" Version="1"><OpDefList>'
TAIL = "</OpDefList></OpDefCollection>"
TENSOR = "<Mandatory>1</Mandatory><Datatype>INT_8</Datatype><Shape><Rank>1D</Rank></Shape>"
ENDS = f"<Input><Name>x</Name>{TENSOR}</Input><Output><Name>y</Name>{TENSOR}</Output>"


def one_op(inner="", name="Op"):
    return f"<OpDef><Name>{name}</Name>{ENDS}{inner}</OpDef>"


def problems(text):
    """Return what is told of a text, read as bytes."""
    data = text if isinstance(text, bytes) else text.encode()
    try:
        parse_collection(data, "f.xml")
    except XdlcError as error:
        return getattr(error, "problems", (error,))
    return ()


def only(text):
    (problem,) = problems(text)
    assert isinstance(problem, ModelError)
    return problem


@pytest.mark.parametrize(
    "body",
    [
        "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "lol" * 10}">' for i in range(10)),
        '<!ENTITY e9 SYSTEM "file:///etc/passwd">',
        '<!ENTITY e9 SYSTEM "http://127.0.0.1:9/x">',
        '<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;',
        '<!ATTLIST OpDefCollection Version CDATA "2">',
    ],
    ids=["bomb", "file", "network", "parameter", "attributes"],
)
def test_document_types_are_refused_before_they_are_read(body):
    problem = only(
        f"<!DOCTYPE OpDefCollection [{body}]>\n" + BLEND.partition("-->")[2].replace("one batch", "&e9;")
    )
    assert problem.problem == "document type 'OpDefCollection' is not allowed"
    assert problem.where == "f.xml:1"


def test_external_document_types_and_late_ones_are_refused():
    assert "not allowed" in only('<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>').problem
    assert only("<a>\n<!DOCTYPE a></a>").where == "f.xml:2"


def test_the_schema_that_a_file_names_is_not_opened(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would wait for ever
    text = BLEND.replace("OpDef.xsd", f"file://{pipe}")
    assert problems(text) == ()
    problems(text.replace("noNamespaceSchemaLocation", "schemaLocation"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "<OpDef>" + "<a>" * 5000, "Excessive depth"),
        (HEAD + "<OpDef/>" * 60_000 + TAIL, "has more than 50000 elements"),
        (b" " * (MAX_XML_BYTES + 1), "is larger than 16 MiB"),
        ("", "is not well-formed XML"),
        ("{}", "is not well-formed XML"),
        (b"\xff\xfe\x00", "is not well-formed XML"),
        (b"\x00" * 100, "is not well-formed XML"),
        ('<?xml version="1.0" encoding="utf-7"?><a/>', "expected <OpDefCollection>"),
        ('<?xml version="1.0" encoding="utf-16"?><a/>', "is not well-formed XML"),
        (BLEND.encode().replace(b"one batch", b"one \xe9"), "is not well-formed XML"),
        ("<a:OpDefCollection/>", "is not well-formed XML"),
        ('<OpDefCollection xmlns="urn:x"/>', "expected <OpDefCollection>"),
        (HEAD + one_op(name="o" * 100_000) + TAIL, "a length of '100000'"),
        (
            HEAD.replace('"P"', '"' + "p" * 100_000 + '"') + one_op() + TAIL,
            "'PackageName': The value",
        ),
    ],
)
def test_bounds_and_malformed_files(text, message):
    problem = only(text)
    assert message in problem.problem
    assert problem.where.startswith("f.xml")
    assert len(str(problem)) < 1000


PARAM = TENSOR.replace("1<", "0<")
ENUMERATION = "".join(f"<Enum>e{i}</Enum>" for i in range(30_000))
LARGE = {
    "unknown": "<X/>" * 40_000,
    "default": f"<Parameter><Name>p</Name>{PARAM}<Default>[{'1,' * 100_000}300]</Default></Parameter>",
    "enumeration": (
        f"<Parameter><Name>p</Name>{PARAM}<Default>[{'e9,' * 50_000}z]</Default>"
        f"<Enumeration>{ENUMERATION}</Enumeration></Parameter>"
    ),
    "ids": "<Parameter><Name>p</Name>"
    + '<Constraint id="1">x</Constraint>' * 40_000
    + TENSOR
    + "</Parameter>",
    "rules": "<Parameter><Name>p</Name>"
    + "<Constraint>x</Constraint>" * 40_000
    + TENSOR
    + "</Parameter><No/>",
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_faults_are_told_once(kind):
    only(HEAD + one_op(LARGE[kind]) + TAIL)


def test_many_faults_are_told_up_to_a_number():
    found = problems(HEAD + "".join(one_op(name=f"2o{i}") for i in range(1000)) + TAIL)
    assert len(found) == 100
