"""Recognition of LSTM, GRU and RNN in the loops that frameworks write for them.

The body is imported as a graph, and its results are read as expressions of the row of the input and of the
states: sums of products with weights, and activations and products of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xdlc.converter.operators.control_flow.recurrent_forms import ROW, Form, Reader
from xdlc.converter.operators.control_flow.steps import known
from xdlc.converter.operators.control_flow.sub_graph import SubGraph
from xdlc.converter.values import AnyValue, Value, identity
from xdlc.errors import XdlcError
from xdlc.ir import Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators

_MOST_ELEMENTS = 1 << 22
"""Most elements of the values with which an iteration is tried."""


@dataclass(slots=True)
class Cell:
    """A recurrent cell.

    Attributes:
        type: Canonical operator.
        states: Numbers of its states, the hidden one first.
        gates: Linear forms in the order of the canonical operator; the last one of a GRU has the part of
            the row only.
        inner: Linear form of the state in the last gate of a GRU.
        attributes: Attributes of the canonical operator.
    """

    type: str
    states: tuple[int, ...]
    gates: list[Form]
    inner: Form | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


def cell_of(forms: Mapping[int, Form]) -> Cell | None:
    """Return the cell that computes states of these forms.

    Args:
        forms: Forms of the next values of float states of rank 2, by number.
    """
    numbers = list(forms)
    if len(numbers) == 1:
        number, form = numbers[0], forms[numbers[0]]
        if form.kind == "neuron" and form.name in ("Tanh", "Relu") and _reads(form.parts[0], {ROW, number}):
            return Cell("RNN", (number,), [form.parts[0]], attributes={"activations": [form.name]})
        return _gru(number, form)
    if len(numbers) == 2:
        return _lstm(numbers[0], numbers[1], forms) or _lstm(numbers[1], numbers[0], forms)
    return None


def _reads(form: Form, keys: set[Any]) -> bool:
    return form.kind == "linear" and form.terms.keys() <= keys


def _pair(form: Form, kind: str) -> list[tuple[Form, Form]]:
    if form.kind != kind:
        return []
    one, other = form.parts
    return [(one, other), (other, one)]


def _lstm(hidden: int, cell: int, forms: Mapping[int, Form]) -> Cell | None:
    """Match c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c')."""
    keys = {ROW, hidden}
    for shown, output in _pair(forms[hidden], "product"):
        if output.kind != "neuron" or output.name != "Tanh" or output.parts[0] is not forms[cell]:
            continue
        for kept, added in _pair(forms[cell], "sum"):
            for forget, memory in _pair(kept, "product"):
                for taken, new in _pair(added, "product"):
                    gates = (taken, shown, forget)
                    if (
                        memory.is_state(cell)
                        and new.is_neuron("Tanh")
                        and all(gate.is_neuron("Sigmoid") for gate in gates)
                        and all(_reads(gate.parts[0], keys) for gate in (*gates, new))
                    ):
                        return Cell("LSTM", (hidden, cell), [gate.parts[0] for gate in (*gates, new)])
    return None


def _gru(number: int, form: Form) -> Cell | None:
    """Match h' = z h + (1 - z) tanh(n), the reset gate before or after weights."""
    keys = {ROW, number}
    for kept, added in _pair(form, "sum"):
        for update, state in _pair(kept, "product"):
            for rest, new in _pair(added, "product"):
                if not (
                    state.is_state(number) and update.is_neuron("Sigmoid") and _reads(update.parts[0], keys)
                ):
                    continue
                if rest.kind != "rest" or rest.parts[0] is not update or new.kind != "neuron":
                    continue
                found = _new_gate(number, new.parts[0])
                if new.name == "Tanh" and found is not None:
                    reset, outer, inner, after = found
                    gates = [update.parts[0], reset, outer]
                    return Cell("GRU", (number,), gates, inner, {"linear_before_reset": int(after)})
    return None


def _new_gate(number: int, form: Form) -> tuple[Form, Form, Form, bool] | None:
    """Return reset gate, parts of row and state, and if the reset is after weights."""
    keys = {ROW, number}
    for outer, scaled in _pair(form, "sum"):
        for reset, inner in _pair(scaled, "product"):
            is_reset = reset.is_neuron("Sigmoid") and _reads(reset.parts[0], keys)
            if is_reset and _reads(outer, {ROW}) and _reads(inner, {number}):
                return reset.parts[0], outer, inner, True
    if form.kind == "linear":
        products = [key for key in form.terms if isinstance(key, Form)]
        if len(products) == 1 and form.terms.keys() <= {ROW, products[0]}:
            for reset, state in _pair(products[0], "product"):
                if reset.is_neuron("Sigmoid") and _reads(reset.parts[0], keys) and state.is_state(number):
                    outer = Form(
                        "linear", terms={k: m for k, m in form.terms.items() if k == ROW}, bias=form.bias
                    )
                    inner = Form("linear", terms={number: form.terms[products[0]]})
                    return reset.parts[0], outer, inner, False
    return None


# ---------------------------------------------------------------------- loops


def recurrence(
    importer: Operators,
    sub: SubGraph,
    tensors: Mapping[int, Tensor],
    results: Mapping[int, Value],
    states: Mapping[int, AnyValue],
    trips: int,
) -> dict[int, AnyValue] | None:
    """Return the final states of a loop that is an LSTM, GRU or RNN, or None.

    Args:
        importer: The canonical operators.
        sub: The body, imported.
        tensors: Inputs of the body by the number of the state.
        results: Next states.
        states: Initial states.
        trips: How often the body runs.
    """
    reader = Reader(sub, {tensor.name: number for number, tensor in tensors.items()})
    cells: dict[int, Form] = {}
    finals: dict[int, AnyValue] = {}
    lists: list[int] = []
    for number, value in results.items():
        state = tensors.get(number)
        form = reader.form(value.tensor)
        if state is not None and form is not None and form.kind == "counter" and form.state == number:
            start = known(states[number])
            if start is None:
                return None
            end = np.asarray(start + trips * form.step, value.dtype.numpy)
            finals[number] = importer.builder.const(end.reshape(value.shape))
        elif state is not None and form is not None and value.rank == 2 and value.dtype is FLOAT32:
            cells[number] = form
        else:
            lists.append(number)
    cell = cell_of(cells)
    if cell is None or reader.counter not in finals or known(states[reader.counter]) != 0:
        return None
    counted = reader.form(results[reader.counter].tensor)
    sequence = sub.captured.get(reader.sequence)
    if counted is None or counted.step != 1 or sequence is None or sequence.dims is None:
        return None
    if sequence.rank != 3 or sequence.dims[0] != trips or None in sequence.dims:
        return None
    hidden = results[cell.states[0]]
    if hidden.dims is None or hidden.dims[0] != sequence.dims[1]:
        return None
    kinds: dict[int, str] = {}
    for number in lists:
        kinds[number] = _written(sub, tensors, number, results[number], hidden, trips)
        if not kinds[number]:
            return None
    every, *last = _applied(importer, cell, sequence, states)
    finals.update(zip(cell.states, last, strict=True))
    shape = np.asarray([1, *hidden.shape], np.int64)
    for number, kind in kinds.items():
        one = kind == "last"
        finals[number] = importer("Reshape", [last[0], importer.builder.const(shape)]) if one else every
    return finals


def _written(
    sub: SubGraph, tensors: Mapping[int, Tensor], number: int, value: Value, hidden: Value, trips: int
) -> str:
    """Return the states that a list holds after the loop: every, last, or neither.

    An iteration is run for three values of the counters: it must change one row and leave the others.
    """
    from xdlc.runtime.cpu import CpuSession  # loads onnxruntime

    state = tensors.get(number)
    random = np.random.default_rng(0)
    feeds = {each.name: random.normal(size=each.shape).astype(each.dtype.numpy) for each in sub.graph.inputs}
    names = {each.name: each for each in tensors.values()}
    if sum(array.size for array in feeds.values()) > _MOST_ELEMENTS or value.order != identity(value.rank):
        return ""
    kinds = {"every", "last"}
    result_names = [value.tensor.name, hidden.tensor.name]
    try:
        session = CpuSession(sub.graph, outputs=result_names, threads=1)
        for step in {0, trips // 2, trips - 1}:
            for name, each in names.items():
                if not each.dtype.is_float:
                    feeds[name] = np.full(each.shape, step, each.dtype.numpy)
            results = session.run(feeds)
            written, row = (results[name] for name in result_names)
            before = np.zeros_like(written) if state is None else feeds[state.name]
            for kind in list(kinds):
                after, at = before.copy(), 0 if kind == "last" else step
                if after.shape != written.shape or after.shape[1:] != row.shape or at >= len(after):
                    kinds.discard(kind)
                    continue
                after[at] = row
                if not np.array_equal(after, written) or len(after) != (1 if kind == "last" else trips):
                    kinds.discard(kind)
    except XdlcError:
        return ""
    return next(iter(sorted(kinds)), "")


def _applied(importer: Operators, cell: Cell, sequence: Value, states: Mapping[int, AnyValue]) -> list[Value]:
    """Return all hidden states [T, B, units], and the last of each state."""
    hidden = cell.states[0]
    start = states[hidden]
    assert isinstance(start, Value)
    (units, width) = (start.shape[-1], sequence.shape[-1])
    builder = importer.builder

    def block(form: Form, key: Any, rows: int) -> Array:
        matrix = form.terms.get(key)
        return np.zeros((units, rows), np.float32) if matrix is None else matrix.T.astype(np.float32)

    def bias(form: Form) -> Array:
        return np.broadcast_to(np.asarray(form.bias, np.float32), units)

    weights = np.concatenate([block(form, ROW, width) for form in cell.gates])
    inner = [cell.inner if cell.inner is not None and form is cell.gates[-1] else form for form in cell.gates]
    recurrent = np.concatenate([block(form, hidden, units) for form in inner])
    second = [np.zeros(units, np.float32)] * (len(inner) - 1)
    second.append(
        bias(cell.inner) if cell.inner is not None else second[0] if second else np.zeros(units, np.float32)
    )
    biases = np.concatenate([*map(bias, cell.gates), *second])
    axis = builder.const(np.zeros(1, np.int64))
    operands: list[Value | None] = [sequence]
    operands += [builder.const(array[None].astype(np.float32)) for array in (weights, recurrent, biases)]
    operands.append(None)
    for number in cell.states:
        state = states[number]
        assert isinstance(state, Value)
        operands.append(importer("Unsqueeze", [state, axis]))
    attributes = {"hidden_size": units, **cell.attributes}
    every, *last = importer.apply(cell.type, operands, attributes, 1 + len(cell.states))
    one = builder.const(np.ones(1, np.int64))
    return [importer("Squeeze", [every, one]), *(importer("Squeeze", [value, axis]) for value in last)]
