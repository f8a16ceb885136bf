"""What the page on OpDef XML shows is so."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from lxml import etree

from xdlc.ir import dtype as dt
from xdlc.opdefs import backends
from xdlc.opdefs.backend_view import resolve
from xdlc.opdefs.constraint_check import SUBJECTS
from xdlc.opdefs.constraint_parser import parse
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.shape_text import infer
from xdlc.opdefs.xml_reader import parse_collection, values_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "opdef-xml.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


@pytest.fixture(scope="module")
def example(page):
    text = page.split("```xml\n")[1].split("```")[0]
    return parse_collection(text.encode(), "page")


def test_the_example_is_valid_and_says_its_shape(example):
    (op,) = example.opdefs
    assert isinstance(op, OpDef)
    for backend in op.backends:
        resolve(op, example, backend)
    view = OpView("MyPackage", "Blend", "b", (TensorSpec((1, 4, 5, 3), dt.FLOAT32),), (), {})
    assert infer(op, view)[0].shape == (1, 8, 10, 3)


def test_every_constraint_of_the_table_is_an_expression(page):
    rows = re.findall(r"^\| `(.+?)` \| (Shape|Value|Datatype|Number) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for text, type in rows:
        assert parse(text, SUBJECTS.get(type, "")).is_rule, text


def test_the_table_of_elements_is_the_schema(page):
    schema = etree.parse(str(files("xdlc.schema") / "opdef.xsd")).getroot()
    names = {node.get("name") for node in schema.iter("{*}element", "{*}attribute")}
    table = page.split("## Elements")[1].split("\n\n")[2]
    assert {word for word in re.findall(r"`(\w+)`", table) if word in names} == names


def test_names_are_complete(page):
    for word in filter(None, (*values_of("layout"), *values_of("constraintType"))):
        assert f"`{word}`" in page
    for name in backends.NAMES:
        assert f"`{name}`" in page or name.startswith("DSP_V")
