"""Asks the ops of a converted model for the rules of their definitions."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Model
from xdlc.ir.graph import Op
from xdlc.opdefs import verify_custom_ops
from xdlc.opdefs.backend_rules import backend_problems
from xdlc.opdefs.custom_verify import RuleProblem
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.source_match import UdoSet


def broken_rules(model: Model, custom: UdoSet) -> list[ConstraintError]:
    """Return the rules that users' ops break; where backends have rules of their own, those that all break.

    Args:
        model: The converted model.
        custom: The definitions.
    """

    def of_backends(op: Op, definition: OpDef) -> list[RuleProblem] | None:
        return backend_problems(op, definition, custom.collections.get(definition.package))

    lines = {
        (op.definition.package, op.definition.name): {(): op.source, **op.lines}
        for op in custom.ops
        if op.source
    }
    return verify_custom_ops(model, [op.definition for op in custom.ops], of_backends, lines)
