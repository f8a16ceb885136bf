"""Dry run of a conversion: every problem of a source model, and what becomes of its nodes."""

from __future__ import annotations

import os
from typing import Any

from xdlc.converter.frontends import Frontend
from xdlc.converter.report import Report, make_report
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.errors import BackendError, XdlcError
from xdlc.ir import Model
from xdlc.runtime import dynamic_dims
from xdlc.runtime.htp.support import Verdict, judge
from xdlc.targets import find_soc


def check(
    frontend: Frontend,
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    **options: Any,
) -> Report:
    """Return every problem of a source model, and what became of its nodes.

    Args:
        frontend: The importer.
        path: The file.
        target: Name of a SoC whose HTP checks each op of the converted model.
        **options: As for ``xdlc.convert``, with ``udos``.

    Raises:
        XdlcError: If there is nothing to report on: no such file, no valid model, a wrong option.
    """
    soc = find_soc(target) if target is not None else None
    diagnostics = Diagnostics()
    model: Model | None = None
    try:
        model = frontend.convert(path, diagnostics=diagnostics, **options)
    except XdlcError:
        if not diagnostics.problems:  # else it is a consequence of them
            raise
    verdict: Verdict | None = None
    if soc is not None and model is not None:
        try:
            verdict = judge(model, soc)
        except BackendError as problem:
            diagnostics.problems.append(problem)
    unbound = dynamic_dims.notice(model) if verdict is not None and model is not None else None
    notices = [notice for notice in diagnostics.notices if notice != unbound]  # it is one of the problems
    return make_report(os.fspath(path), model, diagnostics.problems, soc, verdict, notices)
