"""Constraints that supplements replace: an op is sound if one of its backends takes it."""

from dataclasses import replace

import pytest

from tests.opdefs.test_custom_verify import definition, op
from xdlc import ir
from xdlc.ir.tensor import i32
from xdlc.opdefs import Collection, Constraint, SupplementOp, SupplementTable, SupplementTensor
from xdlc.opdefs.backend_rules import backend_notices, backend_problems
from xdlc.opdefs.custom_verify import verify_custom_ops

BASE = definition([("Shape", "rank <= 2")])


def package(backend, *rules, only_default=False):
    """Return Mix for CPU and another backend, which has rules for x, or takes axis 0 alone."""
    axis = replace(BASE.params["axis"], default="0")
    made = replace(BASE, backends=("CPU", backend), params={**BASE.params, "axis": axis})
    x = SupplementTensor("x", (), tuple(rules))
    params = {"axis": SupplementTensor("axis", (), only_default=True)} if only_default else {}
    row = SupplementOp("Mix", {"x": x}, {}, params)
    tables = (SupplementTable(backend, frozenset(), {"Mix": (row,)}),)
    return made, Collection("Pkg", "", "1.0", (made,), tables)


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
    made, held = package("HTP", rule)
    assert len(backend_problems(op(shape), made, held)) == problems
    assert list(backend_notices(op(shape), made, held)) == [
        f"op 'node' (Mix of Pkg) is not for {text}" for text in notices
    ]


def test_what_no_backend_takes_is_an_error():
    made, held = package("HTP", Constraint("0", "Shape", "rank == 3"))
    base = replace(made, inputs=(replace(made.inputs[0], constraints=(NARROW,)), *made.inputs[1:]))
    graph = ir.Graph("main")
    graph.append(op())
    found = verify_custom_ops(
        ir.Model({"main": graph}), [base], lambda one, definition: backend_problems(one, definition, held)
    )
    assert [str(problem.problem) for problem in found] == [
        "input 'x': expected rank == 1 (for CPU), found rank is 2 (constraint '0')",
        "input 'x': expected rank == 3 (for HTP), found rank is 2 (constraint '0')",
    ]
    assert list(backend_notices(op(), base, held)) == []


def test_a_backend_that_takes_the_default_alone():
    made, held = package("HTP", only_default=True)
    assert list(backend_notices(op(axis=i32(0)), made, held)) == []
    (told,) = backend_notices(op(axis=i32(1)), made, held)
    assert told.endswith("is not for HTP: parameter 'axis': expected its default 0 alone, found 1")


def test_without_rules_of_backends_nothing_is_special():
    assert backend_problems(op(), *package("HTP")) is None
    assert backend_problems(op(), BASE, None) is None
