"""Ops around a graph for what callers request of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.boundary import colour, datatype, layout, resizing, scaling
from xdlc.boundary.entry import Entry
from xdlc.boundary.ports import Port, Ports
from xdlc.errors import XdlcError, raise_all
from xdlc.ir import Model, ScaleOffset, Tensor

Notify = Callable[[str], None]
_STEPS = (colour.reorder, scaling.scale, resizing.resize, resizing.crop, colour.decode)
"""Steps of images, the innermost first."""


def apply(model: Model, ports: Ports, notify: Notify, *, assumed: str | None = None) -> None:
    """Put ops for callers around the main graph: for layouts, colours, scales and sizes.

    Of an input, from callers to the graph: colour decoding, crop, resize, order of colours, mean and scale,
    Transpose to the graph's layout.  Types follow with ``settle``, when passes have run.

    Args:
        model: The model; it is changed, its notes ``layouts``, ``symbols`` and ``preprocessing`` too.
        ports: What is requested.
        notify: Called with each notice.
        assumed: ``first`` or ``last``: where channels are, as far as nothing states it.

    Raises:
        ConstraintError: If an input or output cannot be as requested; a ProblemList of all of them.
    """
    layouts, symbols = (model.metadata.get(key, {}) for key in ("layouts", "symbols"))
    problems: list[XdlcError] = []
    for tensor in (*model.main.inputs, *model.main.outputs):
        port = ports.get(tensor.name)
        if port is None:
            continue
        try:
            held = layout.stated(
                tensor, port, layouts.get(tensor.name) or layout.inferred(model.main, tensor), assumed, notify
            )
            before = held
            if port.is_input:
                held = _input(model, tensor, port, held)
            else:
                held = layout.change(model.main, tensor, held, port.desired_layout)
        except XdlcError as error:
            problems.append(error)
            continue
        labels = symbols.get(tensor.name, ())
        if held is not None and before is not None and len(labels) == len(before):
            symbols[tensor.name] = [labels[axis] for axis in map(before.index, held)]
        if held is not None:
            layouts[tensor.name] = held
        else:
            layouts.pop(tensor.name, None)
    raise_all(problems)
    model.main.prune()  # ops after an input that nothing reads
    if layouts:
        model.metadata["layouts"] = layouts


def settle(model: Model, ports: Ports) -> None:
    """Give inputs and outputs of the main graph the types that callers request, after the passes.

    Args:
        model: The model; it is changed.
        ports: What is requested.

    Raises:
        ConstraintError: If an input or output cannot be as requested; a ProblemList of all of them.
    """
    problems: list[XdlcError] = []
    for tensor in (*model.main.inputs, *model.main.outputs):
        port = ports.get(tensor.name)
        if port is not None and port.dtype is not None:
            try:
                datatype.settle(model.main, tensor, port)
            except XdlcError as error:
                problems.append(error)
    raise_all(problems)


def _input(model: Model, tensor: Tensor, port: Port, held: str | None) -> str | None:
    entry = Entry(model.main, tensor, held)
    if port.is_image:
        if not isinstance(tensor.encoding, ScaleOffset):
            datatype.to_float(model.main, tensor)
        entry.layout = layout.change(model.main, tensor, held, layout.CHANNEL_LAST.get(held or ""))
        for step in _STEPS:
            step(entry, port)
    if entry.notes:
        notes = model.metadata.setdefault("preprocessing", {})
        inner = [notes[tensor.name]] if tensor.name in notes else []
        notes[tensor.name] = "; ".join([*entry.notes[::-1], *inner])
    wanted = port.desired_layout or held
    return entry.layout and layout.change(model.main, tensor, entry.layout, wanted)
