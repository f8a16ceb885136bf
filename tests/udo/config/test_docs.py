"""The page on configurations names every field of the JSON form."""

from pathlib import Path

import pytest

from xdlc.udo.config import members, packages, tensors

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "udo.md"


@pytest.mark.parametrize(
    "names", [packages._PACKAGE, packages._OPERATOR, *tensors.FIELDS.values()], ids=lambda names: names[0]
)
def test_the_page_names_each_field(names):
    text = PAGE.read_text()
    assert [name for name in names if f"`{name}`" not in text and f'"{name}"' not in text] == [
        name for name in names if name == tensors.EACH_OLD
    ]


def test_the_page_names_common_types_and_cores():
    words = set(PAGE.read_text().replace("`", " ").replace(",", " ").replace(".", " ").split())
    assert {*members.COMMON_TYPES, *members.CORES, members.ARCHS[0], members.ARCHS[-1]} <= words
