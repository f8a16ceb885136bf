"""What a DLC tells of definitions of users, also in files of strangers."""

from pathlib import Path

import pytest

from tests.support.custom_ops import SCALE, custom, place, scale_graph
from xdlc.container import load, udo
from xdlc.errors import ContainerError, ModelError
from xdlc.ir import raw_data
from xdlc.opdefs.model import Collection

UNUSED = custom("Unused", [place("x")], [place("y")]).definition


def test_definitions_of_used_ops_are_stored_and_read_again(tmp_path: Path) -> None:
    made = scale_graph()
    other = Collection("Other", "d", "1.0", (UNUSED,), ())
    udo.add_definitions(made, {"Pkg": Collection("Pkg", "d", "1.0", (SCALE, UNUSED), ()), "Other": other})
    assert list(made.records) == ["xdlc.udo.Pkg"]
    made.save(tmp_path / "m.dlc")
    held = load(tmp_path / "m.dlc")
    assert udo.definitions(held) == {"Pkg": Collection("Pkg", "d", "1.0", (SCALE,), ())}
    assert udo.definition(held, held.main.ops[0]) == SCALE


def test_definitions_that_break_a_rule_are_not_stored() -> None:
    wrong = custom("Scale", [place("x")], [place("x")]).definition
    made = scale_graph()
    with pytest.raises(ModelError, match="name 'x' is repeated"):
        udo.add_definitions(made, {"Pkg": Collection("Pkg", "d", "1.0", (wrong,), ())})
    assert made.records == {}


def test_all_that_is_wrong_with_damaged_definitions_is_told() -> None:
    model = scale_graph()
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1.0", (SCALE,), ())})
    text = model.records["xdlc.udo.Pkg"].numpy().tobytes().replace(b"<Name>y<", b"<Name>x<")
    model.records["xdlc.udo.Pkg"] = raw_data(text.replace(b"<Name>factor<", b"<Name>x<"))
    with pytest.raises(ContainerError, match=r"as input and as output.*; .*as input and as parameter"):
        udo.definitions(model)


def test_ops_without_a_record_have_no_definition() -> None:
    made = scale_graph()
    assert udo.definition(made, made.main.ops[0]) is None
    assert udo.definitions(made) == {}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "holds no valid definitions"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><OpDefCollection/>", "document type"),
        (b"<OpDefCollection Domain='d' Version='1'/>", "holds no valid definitions"),
    ],
)
def test_damaged_definitions_are_refused(content: bytes, text: str) -> None:
    made = scale_graph()
    made.records["xdlc.udo.Pkg"] = raw_data(content)
    with pytest.raises(ContainerError, match=text):
        udo.definitions(made)


def test_definitions_of_another_package_are_refused() -> None:
    made = scale_graph()
    udo.add_definitions(made, {"Pkg": Collection("Pkg", "d", "1.0", (SCALE,), ())})
    made.records["xdlc.udo.Pkh"] = made.records.pop("xdlc.udo.Pkg")
    with pytest.raises(ContainerError, match="defines the ops of package 'Pkg'"):
        udo.definitions(made)
