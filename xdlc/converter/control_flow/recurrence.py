"""Recognition of LSTM, GRU and RNN in the loops that frameworks write for them.

The body is imported as a graph, and its results are read as expressions of the row of the input and of the
states: sums of products with weights, and activations and products of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xdlc.converter.control_flow.sub_graph import SubGraph, known
from xdlc.converter.functions.recurrence import Weights, one_way
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import AnyValue, Value, identity
from xdlc.errors import XdlcError
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.cells import gru_step, lstm_step
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, RELU, SIGMOID, SUBTRACT, TANH
from xdlc.records import record

_NAMES = {SIGMOID: "Sigmoid", TANH: "Tanh", RELU: "Relu"}
ROW = "row"
"""What the row of the input is multiplied with: a key of ``Form.terms``."""
_MOST_FORMS = 1 << 10


@record(eq=False)
class Form:
    """Symbolic form of a value.

    Attributes:
        kind: ``const``, ``linear``, ``neuron``, ``product``, ``sum``, ``rest`` (1 - x), ``counter``; in a
            pattern also ``open`` (a linear form of the row and states ``keys``) and ``weighed`` (a linear
            form of the row and of a part).
        parts: Operands that are forms.
        terms: Of a linear one, the matrix [k, n] by what it is multiplied with: the row, the number of a
            state, or a form.
        bias: Its bias [n]; the value of a constant.
        name: Operator of a neuron; gate that an open form is.
        state: Number of the state that a counter is.
        step: What a counter is above that state.
    """

    kind: str
    parts: tuple[Form, ...] = ()
    terms: dict[Any, Array] = field(default_factory=dict)
    bias: Any = 0.0
    name: str = ""
    state: int = -1
    step: int = 0
    keys: frozenset[Any] = frozenset()

    def __add__(self, other: Form) -> Form:
        """Return a sum of a pattern."""
        return Form("sum", (self, other))

    def __mul__(self, other: Form) -> Form:
        """Return a product of a pattern."""
        return Form("product", (self, other))

    def __rsub__(self, _: float) -> Form:
        """Return 1 minus a form of a pattern."""
        return Form("rest", (self,))

    def is_state(self, number: int) -> bool:
        """Return whether the form is just a state."""
        if self.kind != "linear" or list(self.terms) != [number] or np.any(self.bias):
            return False
        matrix = self.terms[number]
        return matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix)))


class Reader:
    """Forms of the values of a loop's body.

    Args:
        states: States by their tensors there.
    """

    def __init__(self, sub: SubGraph, states: Mapping[str, int]) -> None:
        self._states = states
        self._captured = {tensor.name: name for name, tensor in sub.inputs.items() if name in sub.captured}
        self._forms: dict[str, Form | None] = {}
        self.sequence = ""
        self.counter = -1

    def form(self, tensor: Tensor | None, depth: int = 0) -> Form | None:
        """Return the form of a value; None if it is not recognized."""
        if tensor is None or depth > 100 or len(self._forms) > _MOST_FORMS:
            return None
        if tensor.is_static:
            return Form("const", bias=tensor.numpy()) if tensor.size < 1 << 24 else None
        if tensor.name not in self._forms:
            self._forms[tensor.name] = self._made(tensor, depth)
        return self._forms[tensor.name]

    def _made(self, tensor: Tensor, depth: int) -> Form | None:
        op = tensor.producer
        if tensor.name in self._states:
            number = self._states[tensor.name]
            if not tensor.dtype.is_float:
                return Form("counter", state=number)
            return Form("linear", terms={number: np.eye(tensor.shape[-1], dtype=np.float32)})
        if op is None or tensor.dynamic_axes:
            return None
        operands = [None if each is None else self.form(each, depth + 1) for each in op.inputs]
        if op.type == "Gather":
            return self._row(op, operands, tensor)
        if not operands or any(form is None for form in operands):
            return None
        forms = [form for form in operands if form is not None]
        if op.type in ("Reshape", "Cast") and (forms[0].kind == "counter" or _same_width(op)):
            return forms[0]
        if op.type == "FullyConnected":
            return _times(forms[0], forms[1].bias.T, forms[2].bias if len(forms) > 2 else 0.0)
        if op.type == "ElementWiseNeuron":
            name = _NAMES.get(_number(op, "operation"))
            return None if name is None else Form("neuron", (forms[0],), name=name)
        if op.type == "ElementWiseBinary":
            return _binary(_number(op, "operation"), *forms)
        if op.type in ("Split", "StridedSlice") and forms[0].kind == "linear":
            return _columns(op, forms[0], tensor)
        if op.type == "Concat" and all(form.kind == "linear" for form in forms):
            return _beside(op, forms)
        return None

    def _row(self, op: Op, given: Sequence[Form | None], tensor: Tensor) -> Form | None:
        """Return the form of the row of a sequence that a counter chooses."""
        source, index = op.inputs[0], given[1]
        if source is None or index is None or index.kind != "counter" or index.step:
            return None
        name = self._captured.get(source.name)
        if name is None or _number(op, "axis") or self.sequence not in ("", name) or source.dynamic_axes:
            return None
        self.sequence, self.counter = name, index.state
        return Form("linear", terms={ROW: np.eye(tensor.shape[-1], dtype=np.float32)})


def _number(op: Op, name: str) -> int:
    held = op.params.get(name)
    return int(getattr(held, "value", 0) or 0)


def _same_width(op: Op) -> bool:
    source, made = op.inputs[0], op.outputs[0]
    return source is not None and bool(source.shape and made.shape) and source.shape[-1] == made.shape[-1]


def _width(form: Form) -> int:
    """Return the number of columns of a linear form."""
    return int(next(iter(form.terms.values())).shape[1])


def _times(form: Form, matrix: Array, bias: Any) -> Form | None:
    if matrix.ndim != 2:
        return None
    if form.kind == "linear":
        terms = {key: held @ matrix for key, held in form.terms.items()}
        return Form("linear", terms=terms, bias=form.bias @ matrix + bias if np.ndim(form.bias) else bias)
    return None if form.kind == "const" else Form("linear", terms={form: matrix}, bias=bias)


def _binary(operation: int, left: Form, right: Form) -> Form | None:
    if operation == MULTIPLY:
        return Form("product", (left, right))
    if operation == SUBTRACT:
        is_rest = left.kind == "const" and np.size(left.bias) == 1 and np.all(left.bias == 1)
        return Form("rest", (right,)) if is_rest else None
    if operation != ADD:
        return None
    if left.kind == "const":
        left, right = right, left
    if right.kind == "const":
        if left.kind == "counter" and np.size(right.bias) == 1:
            return Form("counter", state=left.state, step=left.step + int(np.reshape(right.bias, -1)[0]))
        if left.kind != "linear" or np.shape(right.bias)[-1:] not in ((np.size(right.bias),), ()):
            return None
        if np.size(right.bias) not in (1, _width(left)):
            return None
        summand = np.broadcast_to(np.reshape(right.bias, -1), _width(left))
        return Form("linear", terms=left.terms, bias=left.bias + summand)
    if left.kind == right.kind == "linear":
        if _width(left) != _width(right):
            return None
        terms = dict(left.terms)
        for key, matrix in right.terms.items():
            terms[key] = terms[key] + matrix if key in terms else matrix
        return Form("linear", terms=terms, bias=left.bias + right.bias)
    return None if "counter" in (left.kind, right.kind) else Form("sum", (left, right))


def _columns(op: Op, form: Form, tensor: Tensor) -> Form | None:
    """Return the form of some of the columns of a linear one."""
    source = op.inputs[0]
    assert source is not None
    width, position = source.shape[-1], source.rank - 1
    if op.type == "Split":
        cuts = op.params.get("split_index")
        if not isinstance(cuts, Tensor) or _number(op, "axis") != position:
            return None
        bounds = [0, *(int(cut) for cut in cuts.numpy()), width]
        first = bounds[[each.name for each in op.outputs].index(tensor.name)]
    else:
        ranges = op.params.get("ranges")
        if not isinstance(ranges, Tensor):
            return None
        *others, (first, _, step) = ranges.numpy().tolist()
        whole = [[0, size, 1] for size in source.shape[:-1]]
        if others != whole or step != 1 or tensor.rank != source.rank:
            return None
    last = first + tensor.shape[-1]
    terms = {key: matrix[:, first:last] for key, matrix in form.terms.items()}
    return Form("linear", terms=terms, bias=form.bias[first:last] if np.ndim(form.bias) else form.bias)


def _beside(op: Op, forms: Sequence[Form]) -> Form | None:
    if _number(op, "axis") != op.outputs[0].rank - 1:
        return None
    widths = [_width(form) for form in forms]
    terms: dict[Any, Array] = {}
    first = 0
    for form, width in zip(forms, widths, strict=True):
        for key, matrix in form.terms.items():
            held = terms.setdefault(key, np.zeros((matrix.shape[0], sum(widths)), np.float32))
            held[:, first : first + width] += matrix
        first += width
    biases = [np.broadcast_to(form.bias, width) for form, width in zip(forms, widths, strict=True)]
    return Form("linear", terms=terms, bias=np.concatenate(biases))


_MOST_ELEMENTS = 1 << 22
"""Most elements of the values with which an iteration is tried."""


class Cell(NamedTuple):
    """A recurrent cell.

    Attributes:
        type: Canonical operator.
        states: Numbers of its states, the hidden one first.
        gates: Linear forms by gate; in the last gate of a GRU the state has the form ``inner``.
        attributes: Attributes of the canonical operator.
    """

    type: str
    states: tuple[int, ...]
    gates: Mapping[str, Form]
    attributes: Mapping[str, Any]


def cell_of(forms: Mapping[int, Form]) -> Cell | None:
    """Return the cell that computes states of these forms.

    Args:
        forms: Forms of the next values of float states of rank 2, by number.
    """
    candidates: list[tuple[str, tuple[int, ...], Sequence[Form], dict[str, Any]]] = []
    if len(forms) == 1:
        (state,) = forms
        for name in ("Tanh", "Relu"):
            pattern = _neuron(name, _open("n", ROW, state))
            candidates.append(("RNN", (state,), [pattern], {"activations": [name]}))
        for after in (False, True):
            candidates.append(("GRU", (state,), [_gru(state, after)], {"linear_before_reset": int(after)}))
    elif len(forms) == 2:
        candidates += [("LSTM", pair, _lstm(*pair), {}) for pair in itertools.permutations(forms)]
    for type, states, patterns, attributes in candidates:
        bound: Iterable[dict[str, Form]] = [{}]
        for state, pattern in zip(states, patterns, strict=True):
            bound = [more for gates in bound for more in _matches(pattern, forms[state], gates)]
        for gates in bound:
            return Cell(type, states, gates, attributes)
    return None


def _neuron(name: str, form: Form) -> Form:
    return Form("neuron", (form,), name=name)


def _open(gate: str, *keys: Any) -> Form:
    return Form("open", name=gate, keys=frozenset(keys))


def _lstm(hidden: int, cell: int) -> tuple[Form, Form]:
    def gate(name: str, _: Form) -> Form:
        return _neuron("Tanh" if name == "c" else "Sigmoid", _open(name, ROW, hidden))

    return lstm_step(gate, Form("state", state=cell), partial(_neuron, "Tanh"))


def _gru(state: int, after: bool) -> Form:
    def product(x: Form) -> Form:
        return _open("inner", state) if after else Form("weighed", (x,), state=state)

    def new(share: Form) -> Form:
        return _neuron("Tanh", _open("n", ROW) + share if after else share)

    def gate(name: str) -> Form:
        return _neuron("Sigmoid", _open(name, ROW, state))

    return gru_step(gate, Form("state", state=state), product, new, after=after)


def _matches(pattern: Form, form: Form, bound: dict[str, Form]) -> Iterator[dict[str, Form]]:
    """Yield each way to bind the gates of a pattern so that it has a form."""
    if pattern.kind == "open":
        if pattern.name in bound:
            yield from [bound] if bound[pattern.name] is form else []
        elif form.kind == "linear" and form.terms.keys() <= pattern.keys:
            yield {**bound, pattern.name: form}
    elif pattern.kind == "state":
        yield from [bound] if form.is_state(pattern.state) else []
    elif pattern.kind == "weighed":
        products = [key for key in form.terms if isinstance(key, Form)]
        if len(products) == 1 and form.terms.keys() <= {ROW, products[0]}:
            outer = {key: matrix for key, matrix in form.terms.items() if key == ROW}
            inner = Form("linear", terms={pattern.state: form.terms[products[0]]})
            gates = {"n": Form("linear", terms=outer, bias=form.bias), "inner": inner}
            yield from _matches(pattern.parts[0], products[0], bound | gates)
    elif pattern.kind == form.kind and pattern.name == form.name:
        first, *others = pattern.parts
        for parts in dict.fromkeys((form.parts, form.parts[::-1])):
            for gates in _matches(first, parts[0], bound):
                yield from _matches(others[0], parts[1], gates) if others else [gates]


# ---------------------------------------------------------------------- loops


def recurrence(
    g: Operators,
    sub: SubGraph,
    tensors: Mapping[int, Tensor],
    results: Mapping[int, Value],
    states: Mapping[int, AnyValue],
    trips: int,
) -> dict[int, AnyValue] | None:
    """Return the final states of a loop that is an LSTM, GRU or RNN, or None.

    Args:
        sub: The body, imported.
        tensors: Inputs of the body by the number of the state.
        results: Next states.
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
            finals[number] = g.builder.const(end.reshape(value.shape))
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
    every, *last = _applied(g, cell, sequence, states)
    finals.update(zip(cell.states, last, strict=True))
    shape = np.asarray([1, *hidden.shape], np.int64)
    for number, kind in kinds.items():
        one = kind == "last"
        finals[number] = g("Reshape", [last[0], g.builder.const(shape)]) if one else every
    return finals


def _written(
    sub: SubGraph, tensors: Mapping[int, Tensor], number: int, value: Value, hidden: Value, trips: int
) -> str:
    """Return which states a list collects in the loop: every, last, or neither.

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


def _applied(g: Operators, cell: Cell, sequence: Value, states: Mapping[int, AnyValue]) -> list[Value]:
    """Return all hidden states [T, B, units], and the last of each state."""
    initial = [state for number in cell.states if isinstance(state := states[number], Value)]
    units, const = initial[0].shape[-1], g.builder.const

    def matrix(form: Form, key: Any, rows: int) -> Value:
        stored = form.terms.get(key)
        zeros = np.zeros((units, rows), np.float32)
        return const(zeros if stored is None else stored.T.astype(np.float32))

    def bias(form: Form) -> Value:
        return const(np.broadcast_to(np.asarray(form.bias, np.float32), units))

    gates, inner = dict(cell.gates), cell.gates.get("inner")
    gates.pop("inner", None)
    recurrent = gates if inner is None else {**gates, "n": inner}
    weights = Weights(
        {gate: matrix(form, ROW, sequence.shape[-1]) for gate, form in gates.items()},
        {gate: matrix(form, cell.states[0], units) for gate, form in recurrent.items()},
        {gate: bias(form) for gate, form in gates.items()},
        {} if inner is None else {"n": bias(inner)},
    )
    return one_way(g, cell.type, sequence, weights, initial, **cell.attributes)
