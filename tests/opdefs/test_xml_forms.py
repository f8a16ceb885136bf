"""All forms of OpDef XML that tools write read as the same."""

import pytest

from tests.opdefs.user_configs import BLEND
from xdlc import opdefs
from xdlc.opdefs.model import DescriptionPart

BODY = BLEND.partition("?>\n")[2]
FORMS = {
    "UTF-8 with a mark": b"\xef\xbb\xbf" + BLEND.encode(),
    "UTF-16": BLEND.replace("UTF-8", "UTF-16").encode("utf-16"),
    "line ends of Windows": BLEND.replace("\n", "\r\n").encode(),
    "line ends of old Macs": BLEND.replace("\n", "\r").encode(),
    "no declaration": BODY.encode(),
    "comments and instructions": BLEND.replace("<Rank>4D", "<?a b?><Rank>4<!-- axes -->D").encode(),
    "character data": BLEND.replace(
        ">Adds what it is given.<", "><![CDATA[Adds what it is given.]]><"
    ).encode(),
    "blanks": BLEND.replace(">4D<", ">\n 4D\t<").replace(">CPU<", "> CPU\n<").encode(),
    "bare words": BLEND.replace(
        "<Content>Adds what it is given.</Content>", "Adds what it is given."
    ).encode(),
    "no version": BLEND.replace(' Version="1.0"', "").encode(),
    "empty version": BLEND.replace(' Version="1.0"', ' Version=""').encode(),
    "another prefix": BLEND.replace("xs:", "xsi:").replace(":xs=", ":xsi=").encode(),
}


@pytest.fixture(scope="module")
def blend():
    return opdefs.parse_collection(BLEND.encode(), "blend.xml")


@pytest.mark.parametrize("name", FORMS)
def test_it_reads_as_the_same(name, blend):
    assert opdefs.parse_collection(FORMS[name], "blend.xml") == blend


def test_lists_stand_in_any_order(blend):
    ops, tables = BODY.partition("<OpDefList>")[2].split("</OpDefList>")
    head, tables = BODY.partition("<OpDefList>")[0], tables.replace("</OpDefCollection>", "")
    supported = "<SupportedOps><OpName>Relu</OpName></SupportedOps>"
    first, last = tables.replace(supported, "").split("</SupplementalOpDef>", 1)
    text = f"{head}{first}</SupplementalOpDef>{supported}{last}<OpDefList>{ops}</OpDefList></OpDefCollection>"
    assert opdefs.parse_collection(text.encode(), "blend.xml") == blend


def test_a_description_keeps_the_order_of_words_and_code():
    mixed = "One <Code>a = b</Code> two <Content>three</Content>"
    text = BLEND.replace("<Content>Adds what it is given.</Content>", mixed)
    assert opdefs.parse_collection(text.encode(), "f.xml").opdefs[0].description[:4] == (
        DescriptionPart("One"),
        DescriptionPart("a = b", is_code=True),
        DescriptionPart("two"),
        DescriptionPart("three"),
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lines_are_those_where_start_tags_end(ends):
    text = BLEND.replace('id="7" Type', 'id="7"\n          Type').replace("UTF-8", "utf-8")
    lines = opdefs.collection_lines(b"\xef\xbb\xbf" + text.replace("\n", ends).encode(), "f.xml")
    starts = {
        (): "PackageName=",
        ("PackageName",): "PackageName=",
        ("op", 1, "Name"): "<Name>Relu",
        ("table", 1, "op", "Blend", "input", "in[0]", "Constraint", "7"): 'Type="Shape">shape(',
    }
    found = {key: lines[key] for key in starts}
    assert found == {key: f"f.xml:{text.count(chr(10), 0, text.index(at)) + 1}" for key, at in starts.items()}
