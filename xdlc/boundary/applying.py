"""Ops at a graph's inputs and outputs that do what callers request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy

from xdlc.boundary import colour, datatype, layout, resizing, scaling
from xdlc.boundary.entry import Entry
from xdlc.boundary.ports import Port, Ports
from xdlc.errors import ConstraintError, XdlcError, raise_all
from xdlc.ir import Model, ScaleOffset, Tensor

Notify = Callable[[str], None]
_STEPS = (colour.reorder, scaling.scale, resizing.resize, resizing.crop, colour.decode)
"""Steps of images, the innermost first."""


def apply(model: Model, ports: Ports, notify: Notify, *, assumed: str | None = None) -> None:
    """Insert ops for callers: for layouts, colours, scales and sizes.

    Of an input, from callers to the graph: colour decoding, crop, resize, order of colours, mean and scale,
    Transpose to the graph's layout.  Types follow with ``settle``, when passes have run.

    Args:
        model: The model; it is changed, its notes ``layouts``, ``symbols`` and ``preprocessing`` too.
        assumed: ``first`` or ``last``: where channels are, as far as nothing states it.

    Raises:
        ConstraintError: If an input or output cannot be as requested; a ProblemList of all of them.
    """
    layouts, symbols = (model.metadata.get(key, {}) for key in ("layouts", "symbols"))
    problems: list[XdlcError] = []
    moved: dict[str, list[int]] = {}
    for tensor in (*model.main.inputs, *model.main.outputs):
        port = ports.get(tensor.name)
        if port is None:
            continue
        try:
            word = layout.stated(
                tensor, port, layouts.get(tensor.name) or layout.inferred(model.main, tensor), assumed, notify
            )
            before = word
            if port.is_input:
                word = _input(model, tensor, port, word)
            else:
                word = layout.change(model.main, tensor, word, port.desired_layout)
        except XdlcError as error:
            problems.append(error)
            continue
        if word is not None and before is not None and word != before:
            axes = moved[tensor.name] = [before.index(letter) for letter in word]
            labels = symbols.get(tensor.name, ())
            if len(labels) == len(axes):
                symbols[tensor.name] = [labels[axis] for axis in axes]
        if word is not None:
            layouts[tensor.name] = word
        else:
            layouts.pop(tensor.name, None)
    problems += _move_states(model, ports, moved)
    raise_all(problems)
    model.main.prune()  # ops after an input that nothing reads
    if layouts:
        model.metadata["layouts"] = layouts


def _move_states(model: Model, ports: Ports, moved: Mapping[str, Sequence[int]]) -> Iterator[XdlcError]:
    """Permute the initial values of variables; yield errors if that is not possible."""
    for name, state in model.metadata.get("states", {}).items():
        following, port, tensor = state.get("output"), ports.get(name), model.main.tensors.get(name)
        is_changed = moved.get(name) != moved.get(str(following))
        if port is not None and tensor is not None:
            types = {tensor.dtype, port.dtype or tensor.dtype}
            is_changed |= port.is_image or (len(types) > 1 and not all(each.is_float for each in types))
        if is_changed:
            problem = f"{following!r} is the next value of {name!r}: the two need the same layout and type"
            fix = "request the same layout and a float type for both, and omit image options like input_crop"
            yield ConstraintError(problem, fix=fix)
        elif name in moved:
            state["initial"] = _permuted(state.get("initial", 0), moved[name])


def _permuted(initial: Any, axes: Sequence[int]) -> Any:
    """Return the value of a variable before the first run, with its axes permuted."""
    try:
        array = numpy.asarray(initial)
    except ValueError:  # a record that other hands wrote, which no run uses
        array = numpy.zeros(())
    if array.ndim == 0 or array.ndim > len(axes):
        return initial
    return array.reshape((1,) * (len(axes) - array.ndim) + array.shape).transpose(axes).tolist()


def settle(model: Model, ports: Ports) -> None:
    """Set the types of inputs and outputs that callers request, after the passes.

    Args:
        model: The model; it is changed.

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


def _input(model: Model, tensor: Tensor, port: Port, word: str | None) -> str | None:
    entry = Entry(model.main, tensor, word)
    if port.is_image:
        if not isinstance(tensor.encoding, ScaleOffset):
            datatype.to_float(model.main, tensor)
        entry.layout = layout.change(model.main, tensor, word, layout.CHANNEL_LAST.get(word or ""))
        for step in _STEPS:
            step(entry, port)
    if entry.values is not None:  # the source's names are those of the network's numbers
        names = model.metadata.setdefault("tensors", {}).setdefault(model.main.name, {})
        names[entry.values.name], names[tensor.name] = names.get(tensor.name, [tensor.name]), []
    if entry.notes:
        notes = model.metadata.setdefault("preprocessing", {})
        inner = [notes[tensor.name]] if tensor.name in notes else []
        notes[tensor.name] = "; ".join([*entry.notes[::-1], *inner])
    if word is not None and entry.layout is None:  # planes of luma and chroma
        return None
    return layout.change(model.main, tensor, entry.layout, port.desired_layout or word)
