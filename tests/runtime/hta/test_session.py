"""What a session of a plan checks: instructions when it opens, values when it runs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.hta_models import convolution
from tests.runtime.hta.test_form import COPY
from xdlc.errors import ContainerError, UsageError
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime.hta.plan import Instruction
from xdlc.runtime.hta.registry import Budget, Step, kernel
from xdlc.runtime.hta.session import PlanSession

A = np.arange(6, dtype=np.uint8).reshape(2, 3)


def test_a_session_runs_many_times_and_keeps_nothing():
    session = PlanSession(COPY)
    first = session.run({"a": A})["b"]
    assert session.run({"a": A + 1})["b"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert first.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("feeds", "problem"),
    [
        ({}, "got nothing"),
        ({"a": A.astype(np.int8)}, "got int8"),
        ({"a": A.reshape(-1)}, r"got uint8\[6\]"),
        ({"a": A, "c": A}, "no input 'c'"),
    ],
)
def test_values_that_do_not_fit_are_refused(feeds, problem):
    with pytest.raises(UsageError, match=problem):
        PlanSession(COPY).run(feeds)


def test_an_unknown_kind_is_refused_with_its_place():
    plan = replace(COPY, instructions=(Instruction("fly", "wing", (0,), (1,), {}, {}),))
    with pytest.raises(ContainerError, match="not known") as caught:
        PlanSession(plan, where="record")
    assert caught.value.where == "record: instruction 0 (fly) of op 'wing'"


def test_a_plan_has_a_budget(monkeypatch):
    plan = compile_section(convolution(np.random.default_rng(0)))
    PlanSession(plan)
    monkeypatch.setattr("xdlc.runtime.hta.session.Budget", lambda: Budget(work=1000))
    with pytest.raises(ContainerError, match="all up to here"):
        PlanSession(plan)
    monkeypatch.setattr("xdlc.runtime.hta.session.Budget", lambda: Budget(kept=100))
    with pytest.raises(ContainerError, match="beside the arena"):
        PlanSession(plan)


def step(**settings):
    return Step([A], [A], {"table": A}, settings, "plan: instruction 0")


def test_a_step_gives_what_its_kernel_asks_for():
    held = step(one=3, many=(1, 2))
    held.ports(1, "uint8")
    assert held.number("one", 0, 3) == 3
    assert held.number("other", 0, 3, default=2) == 2
    assert held.numbers("many", 2, 0, 2) == (1, 2)
    assert held.constant("table", ("int8", "uint8"), (2, 3)) is A


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda held: held.ports(2), "has 1 inputs and 1 outputs, takes 2 and gives 1"),
        (lambda held: held.ports(1, "int32"), "computes on int32"),
        (lambda held: held.number("one", 0, 2), "should be a number from 0 to 2"),
        (lambda held: held.number("many", 0, 2), "should be a number"),
        (lambda held: held.number("none", 0, 2), "has the setting 'none' as None"),
        (lambda held: held.numbers("one", 1, 0, 2), "list of 1 numbers"),
        (lambda held: held.numbers("many", 3, 0, 2), "list of 3 numbers"),
        (lambda held: held.numbers("many", 2, 0, 1), "from 0 to 1 each"),
        (lambda held: held.constant("none", "int8"), "has no constant 'none'"),
        (lambda held: held.constant("table", "int8"), "should be int8"),
        (lambda held: held.constant("table", "uint8", (6,)), r"of shape \[6\]"),
        (lambda held: held.takes(scratch=1 << 40), "beside the arena"),
    ],
)
def test_what_a_kernel_does_not_find_is_refused(ask, problem):
    with pytest.raises(ContainerError, match=problem) as caught:
        ask(step(one=3, many=(1, 2)))
    assert caught.value.where == "plan: instruction 0"


def test_a_kind_has_one_kernel():
    with pytest.raises(ValueError, match="kernel of copy already"):
        kernel("copy")(lambda held: lambda: None)
