"""Values of a loop body as expressions of its input row and its states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xdlc.converter.operators.control_flow.sub_graph import SubGraph
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, RELU, SIGMOID, SUBTRACT, TANH

_NAMES = {SIGMOID: "Sigmoid", TANH: "Tanh", RELU: "Relu"}
ROW = "row"
"""What the row of the input is multiplied with: a key of ``Form.terms``."""
_MOST_FORMS = 1 << 10


@dataclass(slots=True, eq=False)
class Form:
    """What is known of a value.

    Attributes:
        kind: ``const``, ``linear``, ``neuron``, ``product``, ``sum``, ``rest`` (1 - x), ``counter``.
        parts: Operands that are forms.
        terms: Of a linear one, the matrix [k, n] by what it is multiplied with: the row, the number of a
            state, or a form.
        bias: Its bias [n]; the value of a constant.
        name: Operator of a neuron.
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

    def is_state(self, number: int) -> bool:
        """Return whether it is a state itself."""
        if self.kind != "linear" or list(self.terms) != [number] or np.any(self.bias):
            return False
        matrix = self.terms[number]
        return matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix)))

    def is_neuron(self, name: str) -> bool:
        """Return whether it is an activation of a linear form."""
        return self.kind == "neuron" and self.name == name and self.parts[0].kind == "linear"


class Reader:
    """Forms of the values of a loop's body.

    Args:
        sub: The body.
        states: States by their tensors there.
    """

    def __init__(self, sub: SubGraph, states: Mapping[str, int]) -> None:
        self._states = states
        self._captured = {tensor.name: name for name, tensor in sub.inputs.items() if name in sub.captured}
        self._forms: dict[str, Form | None] = {}
        self.sequence = ""
        self.counter = -1

    def form(self, tensor: Tensor | None, depth: int = 0) -> Form | None:
        """Return the form of a value; None if it has none."""
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
