"""From configuration files to the operations of a conversion."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xdlc.errors import ModelError, ProblemList
from xdlc.opdefs.source_match import UdoSet
from xdlc.udo.load import load

BLUR = (
    '"inputs": [{"data_type": "FLOAT_32"}],\n "outputs": [{"data_type": "FLOAT_32"}], "core_types": ["CPU"]'
)


def loaded(*paths: Path | str, notify: Callable[[str], None] | None = None) -> UdoSet:
    with load(udo_config_paths=paths, no_plugins=True, notify=notify) as udos:
        return udos


def write(path: Path, package: str, *types: str, more: str = "") -> Path:
    operators = ",\n".join(f'{{"type": "{type}", {BLUR}}}' for type in types)
    path.write_text(f'{{"P":\n{{"Operators": [\n{operators}], "UDO_PACKAGE_NAME": "{package}"{more}}}}}')
    return path


def test_nothing_named_is_nothing_known() -> None:
    known = loaded()
    assert (known.ops, dict(known.collections)) == ((), {})


def test_ops_know_where_they_come_from(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", "A", "Blur", "Sharpen")
    b = write(tmp_path / "b.json", "B", "Blur")
    configured = loaded(a, str(b))
    assert [(op.definition.package, op.definition.name, op.source) for op in configured.ops] == [
        ("A", "Blur", f"{a}: P.Operators[0]"),
        ("A", "Sharpen", f"{a}: P.Operators[1]"),
        ("B", "Blur", f"{b}: P.Operators[0]"),
    ]
    assert [op.definition.package for op in configured.candidates("onnx", "Blur", "any.domain")] == ["A", "B"]
    assert list(configured.collections) == ["A", "B"]


def test_packages_of_one_name_are_merged(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", "A", "Blur")
    b = write(tmp_path / "b.json", "A", "Sharpen", more=', "xdlc_domain": "d", "xdlc_version": "3"')
    known = loaded(a, b)
    merged = known.collections["A"]
    assert ([op.name for op in merged.opdefs], merged.domain, merged.version) == (
        ["Blur", "Sharpen"],
        "d",
        "3",
    )


def test_an_operator_stands_once_in_a_package(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", "A", "Blur", "Sharpen")
    b = write(tmp_path / "b.json", "A", "Sharpen", "Blur")
    with pytest.raises(ProblemList) as caught:
        loaded(a, b)
    assert [(one.where, one.problem) for one in caught.value.problems] == [
        (f"{b}: P.Operators[0]", f"package A has operator Sharpen twice; first at {a}: P.Operators[1]"),
        (f"{b}: P.Operators[1]", f"package A has operator Blur twice; first at {a}: P.Operators[0]"),
    ]


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", "A", "Blur")
    os.symlink(a, tmp_path / "b.json")
    assert len(loaded(a, tmp_path / "b.json", a).ops) == 1


def test_domains_of_one_package_agree(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", "A", "Blur", more=', "xdlc_domain": "d"')
    b = write(tmp_path / "b.json", "A", "Sharpen", more=', "xdlc_domain": "e"')
    with pytest.raises(ModelError, match="Domain 'e', but 'd'"):
        loaded(a, b)


def test_notices_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a = write(tmp_path / "a.json", "A", "Blur", more=', "UDO_PACKAGE_PATH": "here"')
    notices: list[str] = []
    loaded(a, notify=notices.append)
    assert len(notices) == 1
    assert "UDO_PACKAGE_PATH of package 'P' has no effect" in notices[0]
    assert not caplog.records
    loaded(a)
    assert [record.message for record in caplog.records] == notices


def test_packages_of_one_name_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    package = f'{{"UDO_PACKAGE_NAME": "A", "Operators": [{{"type": "Blur", {BLUR}}}]}}'.replace("\n", " ")
    path.write_text(f'{{"P": {package}, "Q": {package}}}')
    with pytest.raises(ModelError, match=r"package A has operator Blur twice; first at .*P\.Operators"):
        loaded(path)


def test_what_is_good_to_know_of_definitions_is_told(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    text = write(path, "A", "Join").read_text()
    path.write_text(
        text.replace('{"data_type"', '{"repeated": true, "data_type"').replace('["CPU"]', '["DSP"]')
    )
    notices: list[str] = []
    loaded(path, notify=notices.append)
    assert [line.partition(": op")[0] for line in notices] == [
        f"{path}: P.Operators[0].{part}[0].repeated" for part in ("inputs", "outputs")
    ]
    assert all("is Repeated, but DSP cannot have an unknown number of tensors" in line for line in notices)


@pytest.mark.parametrize(
    ("of_input", "rank", "of_output", "expected"),
    [
        ("<Layout>NHWC</Layout>", "4D", "", "NHWC"),
        ("<Layout>NHWC</Layout>", "ND", "", "NHWC"),
        ("<Layout>NHWC</Layout>", "4D", "<Layout>UNDEFINED</Layout>", "UNDEFINED"),
        ("<Layout>NHWC</Layout>", "2D", "", ""),
        ("<Layout>NCHW</Layout>", "4D", "", ""),
        ("", "4D", "", ""),
    ],
)
def test_outputs_lie_as_the_inputs_where_nothing_is_said(
    tmp_path: Path, of_input: str, rank: str, of_output: str, expected: str
) -> None:
    path = tmp_path / "ops.xml"
    path.write_text(
        '<OpDefCollection PackageName="P" Domain="d" Version="1">\n<OpDefList>\n<OpDef><Name>Blur</Name>'
        "<Input><Name>x</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>"
        f"<Shape><Rank>4D</Rank>{of_input}</Shape></Input>"
        "<Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>"
        f"<Shape><Rank>{rank}</Rank>{of_output}</Shape></Output>"
        "<SupportedBackend>CPU</SupportedBackend></OpDef></OpDefList></OpDefCollection>"
    )
    notices: list[str] = []
    ops = loaded(path, notify=notices.append)
    assert ops.ops[0].definition.outputs[0].layout == expected
    assert ops.collections["P"].opdefs[0].outputs[0].layout == expected
    words = "op 'Blur': output 'y' has no layout: xdlc uses NHWC; UNDEFINED means the model's order"
    assert notices == ([f"{path}:3: {words}"] if expected == "NHWC" else [])
