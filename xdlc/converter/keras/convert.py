"""Conversion of a Keras file to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from xdlc import ir
from xdlc.converter.importer import convert_graph
from xdlc.converter.keras.frontend import FRONTEND
from xdlc.converter.keras.handling import handler
from xdlc.converter.keras.reader import read
from xdlc.converter.pipeline import Step
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics


def convert(
    path: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of a ``.keras`` or ``.h5`` file; weights stay in the file until they are written.

    Args:
        path: The file.
        diagnostics: Collects the problems of layers, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``), and ``set_inputs``.

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    graph, notices, nbytes = read(path)
    source = Source("keras", str(path), unit="layer", channels="last")
    return convert_graph(
        graph,
        source,
        handler,
        FRONTEND.tool,
        options,
        nbytes=nbytes,
        notices=notices,
        batch_of_one=True,
        diagnostics=diagnostics,
        notify=notify,
        step=step,
    )
