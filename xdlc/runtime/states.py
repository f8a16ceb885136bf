"""Variables of a model: inputs, next values in outputs, and first values."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy

from xdlc.ir import Graph, Model

Array = Any  # numpy.ndarray
_log = logging.getLogger(__name__)


def next_values(model: Model) -> dict[str, str]:
    """Return the output with the next value of each input that is a variable."""
    inputs, outputs = ({tensor.name for tensor in side} for side in (model.main.inputs, model.main.outputs))
    states = {name: state.get("output") for name, state in model.metadata.get("states", {}).items()}
    return {name: output for name, output in states.items() if name in inputs and output in outputs}


def with_first_values(
    graph: Graph, states: Mapping[str, Any], feeds: Mapping[str, Array]
) -> dict[str, Array]:
    """Return feeds with the first value of each variable whose input is not fed.

    Args:
        states: Notes on the inputs that hold variables: ``Model.metadata["states"]``.
    """
    added: dict[str, Array] = {}
    for tensor in graph.inputs:
        state = states.get(tensor.name)
        if isinstance(state, dict) and tensor.name not in feeds and not tensor.dynamic_axes:
            # The first value of a quantized input is a real number: zero is seldom stored as 0.
            dtype = numpy.dtype(numpy.float32) if tensor.dtype.is_fixed else tensor.dtype.numpy
            try:
                first = numpy.asarray(state.get("initial", 0))
                added[tensor.name] = numpy.broadcast_to(first, tensor.shape).astype(dtype)
            except (TypeError, ValueError, OverflowError):  # a record that other hands wrote
                continue
            _log.info(
                "you feed no input %r, so variable %r starts with its first value",
                tensor.name,
                state.get("output"),
            )
    return {**added, **feeds}
