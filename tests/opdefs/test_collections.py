"""Packages of one name are merged."""

from dataclasses import replace

import pytest

from xdlc.errors import ModelError, ProblemList
from xdlc.ir import dtype as dt
from xdlc.opdefs.collections import merge
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTable, TensorDef


def op(name):
    tensor = TensorDef("x", True, (dt.FLOAT32,), None)
    return OpDef(name, "Pkg", (tensor,), (replace(tensor, name="y"),), {})


def table(backend, *names):
    return SupplementTable(
        backend, frozenset(names), {name: (SupplementOp(name, {}, {}, {}),) for name in names}
    )


def package(*names, tables=(), **changes):
    return replace(Collection("Pkg", "d", "1", tuple(map(op, names)), tuple(tables)), **changes)


def test_ops_and_supplements_of_one_package_are_joined():
    merged = merge(
        [
            package("A", tables=[table("HTP", "A")]),
            package("B", tables=[table("CPU", "B"), table("HTP", "B")]),
            package("A", package="Other"),
        ]
    )
    assert list(merged) == ["Pkg", "Other"]
    assert [held.name for held in merged["Pkg"].opdefs] == ["A", "B"]
    assert merged["Pkg"].supplements == (table("HTP", "A", "B"), table("CPU", "B"))
    assert merge([]) == {}


def test_an_op_that_is_defined_twice_is_told_with_its_file():
    with pytest.raises(ModelError, match="defines op 'A' in two files") as caught:
        merge([package("A"), package("B", "A")], ["one.xml", "two.xml"])
    assert caught.value.where == "two.xml"


def test_every_conflict_is_told():
    tables = [table("HTP", "A")]
    with pytest.raises(ProblemList) as caught:
        merge([package("A", tables=tables), package("B", tables=tables, domain="e", version="2")])
    assert [problem.problem for problem in caught.value.problems] == [
        "package 'Pkg' has Domain 'e', but 'd' in an earlier file",
        "package 'Pkg' has Version '2', but '1' in an earlier file",
        "package 'Pkg' supplements op 'A' for HTP a second time",
    ]


def test_a_package_that_tells_no_domain_and_version_has_those_that_it_has_elsewhere():
    for parts in (
        [package("A", domain="", version="1.0"), package("B")],
        [package("B"), package("A", domain="", version="1.0")],
    ):
        merged = merge(parts)["Pkg"]
        assert (merged.domain, merged.version) == ("d", "1")
