"""Compiles a section."""

from __future__ import annotations

from xdlc.errors import ConstraintError, ModelError, XdlcError, each_problem, raise_all
from xdlc.ir import NATIVE_PACKAGE, Graph
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import find
from xdlc.runtime.hta.plan import Plan

FIX = "leave the op out of the HTA partition"


def compile_section(graph: Graph, *, stated: bool = False) -> Plan:
    """Return the plan of a section.

    Args:
        graph: The ops of the section as a graph of their own, quantized.
        stated: Whether every value is rounded to its encoding, see :func:`xdlc.runtime.lower.lower`.

    Raises:
        ConstraintError: If an op has no integer form.
        ModelError: If an op does not keep to its definition.  Several problems make a ProblemList.
    """
    builder = PlanBuilder(graph, stated=stated)
    problems: list[XdlcError] = []
    for op in graph.ops:
        if op in builder.done or op not in builder.live:
            continue
        where = f"op {op.name!r} ({op.type})"
        function = find(op.type) if op.package == NATIVE_PACKAGE else None
        if function is None:
            problems.append(
                ConstraintError(
                    f"there is no integer form of {op.package}.{op.type}",
                    where=where,
                    fix=FIX,
                    node=op.name,
                    op=op.type,
                )
            )
            continue
        try:
            function(op, builder)
        except XdlcError as error:
            for problem in each_problem(error):
                problem.where = ": ".join(filter(None, (where, problem.where)))
                problem.node, problem.op = op.name, op.type
                problem.fix = problem.fix or FIX
                problems.append(problem)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            problems.append(
                ModelError(
                    f"its operands and parameters do not fit together ({error})",
                    where=where,
                    fix="make the DLC again with a converter that keeps to the operation's definition",
                    node=op.name,
                    op=op.type,
                )
            )
    raise_all(problems)
    return builder.finish()
