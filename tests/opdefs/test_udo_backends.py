"""Constraints by backend: an op is valid if one of its backends accepts it."""

from dataclasses import replace

import pytest

from tests.opdefs.test_op_verifier import definition, op
from xdlc import ir
from xdlc.ir.tensor import i32
from xdlc.opdefs import Collection, Constraint, SupplementOp, SupplementTable, SupplementTensor
from xdlc.opdefs.verify import UdoVerifier, verify_udos

BASE = definition([("Shape", "rank <= 2")])


def package(backend, *rules, only_default=False):
    """Return Mix for CPU and another backend with rules of its own."""
    axis = replace(BASE.params["axis"], default="0")
    opdef = replace(BASE, backends=("CPU", backend), params={**BASE.params, "axis": axis})
    x = SupplementTensor("x", (), tuple(rules))
    params = {"axis": SupplementTensor("axis", (), only_default=True)} if only_default else {}
    row = SupplementOp("Mix", {"x": x}, {}, params)
    tables = (SupplementTable(backend, frozenset(), {"Mix": (row,)}),)
    return opdef, Collection("Pkg", "", "1.0", (opdef,), tables)


NARROW, WIDE = Constraint("0", "Shape", "rank == 1"), Constraint("0", "Shape", "rank >= 1")


@pytest.mark.parametrize(
    ("rule", "shape", "problems", "notices"),
    [
        (NARROW, (2, 3), 0, ["HTP: input 'x': expected rank == 1, found rank is 2"]),
        (WIDE, (2, 3), 0, []),
        (
            Constraint("7", "Shape", "size == 5"),
            (2, 3),
            0,
            ["HTP: input 'x': expected size == 5, found size is 6"],
        ),
        (Constraint("0", "", "a matter of taste"), (2, 3), 0, []),
    ],
)
def test_a_backend_that_refuses_is_a_notice(rule, shape, problems, notices):
    opdef, held = package("HTP", rule)
    verifier = UdoVerifier(opdef, held)
    assert len(list(verifier.problems(op(shape)))) == problems
    assert list(verifier.notices(op(shape))) == [
        f"op 'node' (Mix of Pkg) is not for {text}" for text in notices
    ]


def test_what_no_backend_takes_is_an_error():
    opdef, collection = package("HTP", Constraint("0", "Shape", "rank == 3"))
    base = replace(opdef, inputs=(replace(opdef.inputs[0], constraints=(NARROW,)), *opdef.inputs[1:]))
    graph = ir.Graph("main")
    graph.append(op())
    problems = verify_udos(ir.Model({"main": graph}), [base], {"Pkg": collection})
    assert [str(problem.problem) for problem in problems] == [
        "input 'x': expected rank == 1 (for CPU), found rank is 2 (constraint '0')",
        "input 'x': expected rank == 3 (for HTP), found rank is 2 (constraint '0')",
    ]
    assert list(UdoVerifier(base, collection).notices(op())) == []


def test_a_backend_that_takes_the_default_alone():
    opdef, held = package("HTP", only_default=True)
    verifier = UdoVerifier(opdef, held)
    assert list(verifier.notices(op(axis=i32(0)))) == []
    (notice,) = verifier.notices(op(axis=i32(1)))
    assert notice.endswith("is not for HTP: parameter 'axis': expected only its default 0, found 1")


def test_without_constraints_of_backends_those_of_the_definition_count():
    for verifier in (UdoVerifier(*package("HTP")), UdoVerifier(BASE)):
        assert list(verifier.problems(op())) == []
        assert list(verifier.notices(op())) == []
        (problem, *_) = verifier.problems(op((1, 2, 3)))
        assert problem.rule == "rank <= 2" or problem.rule == "shape"
