"""Products of matrices: MatMul, Gemm, Einsum, MatMulInteger and ConvInteger.

With one zero point each, the host has kernels of 8-bit integers for the last two, and QNN nothing: a
fixed-point product has to be rounded to a scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.ops._compose import joined, part, product, reduced, strided
from xdlc.converter.ops._windows import kernel_of, taps, window
from xdlc.converter.values import Value, broadcast, identity
from xdlc.ir import Tensor
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, SUBTRACT


@importer("MatMul")
def matmul(node: Node, b: Builder) -> Value:
    """Map onto MatMul, with numpy's rules for ranks."""
    return multiply(node, b, node.required(0), node.required(1))


def multiply(node: Node, b: Builder, x: Value, y: Value) -> Value:
    """Append a matrix product."""
    node.check_types(x, y)
    if not x.rank or not y.rank:
        raise node.problem("an input of the node is a scalar")
    row, column = x.rank == 1, y.rank == 1
    if row:
        x = b.reshape(x, (1, *x.shape))
    if column:
        y = b.reshape(y, (*y.shape, 1))
    if x.shape[-1] != y.shape[-2]:
        raise node.problem(f"the inner dimensions of the inputs {list(x.shape)} and {list(y.shape)} differ")
    rank = max(x.rank, y.rank)
    batch = [
        broadcast(pair)
        for pair in zip(_padded(x.shape[:-2], rank - 2), _padded(y.shape[:-2], rank - 2), strict=True)
    ]
    if y.rank != 2 and x.rank != y.rank:
        x, y = b.with_rank(x, rank), b.with_rank(y, rank)
    left, transpose_left = _operand(b, x)
    right, transpose_right = _operand(b, y)
    params: dict[str, ir.Param] = {
        "transpose_in0": ir.b8(transpose_left),
        "transpose_in1": ir.b8(transpose_right),
    }
    shape = (*batch, x.shape[-2], y.shape[-1])
    product = Value(b.emit("MatMul", [left, right], shape, x.dtype, params), identity(rank))
    if row or column:
        rows = () if row else shape[-2:-1]
        columns = () if column else shape[-1:]
        return b.reshape(product, (*batch, *rows, *columns))
    return product


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _operand(b: Builder, value: Value) -> tuple[Tensor, bool]:
    """Return an operand; if its last two axes are swapped, it is read transposed."""
    plain = identity(value.rank)
    swapped = (*plain[:-2], plain[-1], plain[-2])
    if value.order == swapped and not value.is_static:
        return value.tensor, True
    return b.source_order(value), False


@importer("Gemm", since=7)
def gemm(node: Node, b: Builder) -> Value:
    """Map onto FullyConnected for static weights, else onto MatMul and additions."""
    x, weight, bias = node.required(0), node.required(1), node.input(2)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if x.rank != 2 or weight.rank != 2:
        raise node.problem(f"the inputs have ranks {x.rank} and {weight.rank} instead of 2")
    node.check_types(x, weight, bias)
    if node.flag("transA"):
        x = b.transpose(x, (1, 0))
    outer_first = weight if node.flag("transB") else b.transpose(weight, (1, 0))
    if x.shape[1] != outer_first.shape[1]:
        raise node.problem(
            f"{x.shape[1]} columns meet {outer_first.shape[1]} rows: the inner dimensions differ"
        )
    units = outer_first.shape[0]
    flat = bias is None or (bias.is_static and bias.size == units and bias.shape[-1:] in ((), (units,)))
    if not (outer_first.is_static and flat):
        product = multiply(node, b, x, b.transpose(outer_first, (1, 0)))
        product = scaled(b, product, alpha)
        return product if bias is None else b.binary(ADD, product, scaled(b, bias, beta))
    inputs = [b.source_order(x), b.source_order(scaled(b, outer_first, alpha))]
    if bias is not None:
        inputs.append(b.source_order(b.reshape(scaled(b, bias, beta), (units,))))
    params = {"keep_dims": ir.b8(False)}
    return Value(b.emit("FullyConnected", inputs, (x.shape[0], units), x.dtype, params), (0, 1))


def scaled(b: Builder, value: Value, factor: float) -> Value:
    """Return ``value`` times a constant."""
    if factor == 1.0:
        return value
    if value.tensor.data is not None:
        data = value.tensor.data
        return b.static_like(
            value,
            data.transform(lambda array: (array * factor).astype(data.dtype), by_rows=True, factors=factor),
        )
    import numpy

    return b.binary(MULTIPLY, value, b.const(numpy.asarray(factor, value.dtype.numpy)))


@importer("MatMulInteger", since=10)
def matmul_integer(node: Node, b: Builder, x: Value, y: Value, zero: Value | None = None) -> Value:
    """Write a 32-bit integer product where the first factor has zero points per row."""
    if zero is None or zero.size == 1 or x.rank < 2 or y.rank < 2:
        raise node.problem("QNN multiplies integers only if they have scales")
    rows = zero if zero.rank > 1 else b.reshape(zero, (zero.size, 1))
    return product(b, _centred(b, x, rows), _centred(b, y, node.input(3)))


@importer("ConvInteger", since=10)
def conv_integer(node: Node, b: Builder, x: Value, weight: Value) -> Value:
    """Write a product of 32-bit integers for each element of the kernel."""
    zero = node.input(3)
    if zero is None or zero.size == 1:
        raise node.problem("QNN convolves integers only if they have scales")
    group, outputs = node.attr("group", 1), weight.shape[0]
    if x.rank < 3 or x.shape[1] != weight.shape[1] * group or outputs % group or zero.size != outputs:
        raise node.invalid(
            f"{list(x.shape)}, weights {list(weight.shape)} and {zero.size} zero points do not fit"
        )
    view = window(node, kernel_of(node, weight), x.shape[2:])
    centred = _centred(b, x, node.input(2))
    kernel = _centred(b, weight, b.reshape(zero, (outputs, *(1,) * (x.rank - 1))))
    kernel = b.reshape(kernel, (*weight.shape[:2], math.prod(view.kernel)))
    sliding = taps(node, b, centred, view, 0)
    shape = (x.shape[0], *sliding.outputs)
    last = [0, *range(2, x.rank), 1]
    total: list[Value | None] = [None] * group
    for index, value in enumerate(sliding.values(b)):
        flat = b.reshape(b.transpose(value, last), (math.prod(shape), x.shape[1]))
        weights = b.reshape(part(b, kernel, 2, index, index + 1), weight.shape[:2])
        for place in range(group):
            total[place] = _added(b, total[place], _share(b, flat, weights, place, group))
    made = joined(b, [value for value in total if value is not None], 1)
    back = [0, x.rank - 1, *range(1, x.rank - 1)]
    return b.transpose(b.reshape(made, (*shape, outputs)), back)


def _share(b: Builder, flat: Value, weights: Value, place: int, group: int) -> Value:
    """Return the product of one group's channels with its weights."""
    width, count = weights.shape[1], weights.shape[0] // group
    channels = part(b, flat, 1, place * width, (place + 1) * width)
    own = part(b, weights, 0, place * count, (place + 1) * count)
    return product(b, channels, b.transpose(own, (1, 0)))


def _added(b: Builder, total: Value | None, value: Value) -> Value:
    return value if total is None else b.binary(ADD, total, value)


def _centred(b: Builder, x: Value, zero: Value | None) -> Value:
    """Return integers less their zero point, in 32 bits."""
    wide = b.cast(x, INT32)
    return wide if zero is None else b.binary(SUBTRACT, wide, b.cast(zero, INT32))


Labels = list[str]
_BATCH_AXES = 3  # a product of rank 5 is the most that backends take
_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@importer("Einsum", since=12)
def einsum(node: Node, b: Builder) -> Value:
    """Write the equation as products of two operands."""
    values = [node.required(index) for index in range(len(node.inputs))]
    node.check_types(*values)
    terms, result = _parsed(node, values)
    dims: dict[str, int] = {}
    for value, labels in zip(values, terms, strict=True):
        for dim, label in zip(value.shape, labels, strict=True):
            size = dims.setdefault(label, dim)
            if 1 not in (size, dim) and size != dim:
                raise node.invalid(f"label {label!r} is both {size} and {dim} elements long")
            dims[label] = max(size, dim)
    left, labels = _diagonal(b, values[0], terms[0])
    rest = [_diagonal(b, value, term) for value, term in zip(values[1:], terms[1:], strict=True)]
    for index, (right, right_labels) in enumerate(rest):
        later = {label for _, term in rest[index + 1 :] for label in term} | set(result)
        left, labels = _pair(node, b, (left, labels), (right, right_labels), later, dims)
    left, labels = _summed(b, left, labels, set(result))
    return _arranged(b, left, labels, result)


def _parsed(node: Node, values: Sequence[Value]) -> tuple[list[Labels], Labels]:
    """Return labels of the axes of operands and result; numbers label an ellipsis."""
    equation = str(node.attr("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values) or not all(map(_TERM.fullmatch, [*terms, right])):
        raise node.invalid(f"equation {equation!r} does not fit {len(values)} operands")
    operands = [_labels(node, term, value.rank) for term, value in zip(terms, values, strict=True)]
    dots = max((sum(label.isdigit() for label in labels) for labels in operands), default=0)
    numbered = [str(index) for index in reversed(range(dots))]
    if arrow:
        result = _spelt(right, numbered)
    else:
        every = [label for labels in operands for label in labels if not label.isdigit()]
        result = numbered + sorted(label for label in set(every) if every.count(label) == 1)
    available = {label for labels in operands for label in labels}
    if len(set(result)) != len(result) or not set(result) <= available:
        raise node.invalid(f"equation {equation!r} has result labels that no operand has")
    return operands, result


def _spelt(term: str, numbered: Labels) -> Labels:
    head, dots, tail = term.partition("...")
    return [*head, *(numbered if dots else ()), *tail]


def _labels(node: Node, term: str, rank: int) -> Labels:
    """Return an operand's labels; an ellipsis's axes are numbered from the right."""
    count = rank - len(term.replace("...", ""))
    if count < 0 or (count and "..." not in term):
        raise node.invalid(f"term {term!r} does not fit rank {rank}")
    return _spelt(term, [str(index) for index in reversed(range(count))])


def _diagonal(b: Builder, x: Value, labels: Labels) -> tuple[Value, Labels]:
    """Return the operand with each label once: where axes share one, their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            dim = x.shape[first]
            others = [axis for axis in range(x.rank) if axis not in (first, second)]
            rest = [x.shape[axis] for axis in others]
            flat = b.reshape(b.transpose(x, (*others, first, second)), (*rest, dim * dim))
            x = strided(b, flat, {len(rest): (0, dim * dim, dim + 1)})
            labels = [*(labels[axis] for axis in others), label]
    return x, labels


def _without_units(b: Builder, x: Value, labels: Labels, dims: dict[str, int]) -> tuple[Value, Labels]:
    """Return the operand without axes that would have to be repeated."""
    kept = [axis for axis, label in enumerate(labels) if x.shape[axis] == dims[label]]
    return b.reshape(x, [x.shape[axis] for axis in kept]), [labels[axis] for axis in kept]


def _summed(b: Builder, x: Value, labels: Labels, kept: set[str]) -> tuple[Value, Labels]:
    """Return the operand summed over labels not needed later."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    if axes:
        x = reduced(b, "ReduceSum", x, axes, keep=False)
    return x, [label for label in labels if label in kept]


def _pair(
    node: Node,
    b: Builder,
    left: tuple[Value, Labels],
    right: tuple[Value, Labels],
    later: set[str],
    dims: dict[str, int],
) -> tuple[Value, Labels]:
    """Return the product of two operands, summed over labels not needed later."""
    x, first = _without_units(b, *left, dims)
    y, second = _without_units(b, *right, dims)
    x, first = _summed(b, x, first, later | set(second))
    y, second = _summed(b, y, second, later | set(first))
    shared = [label for label in first if label in second]
    inner = [label for label in shared if label not in later]
    batch = [label for label in shared if label in later]
    rows = [label for label in first if label not in shared]
    columns = [label for label in second if label not in shared]
    axes = [*batch, *rows, *columns]
    shape = [dims[label] for label in axes]
    if not inner:
        ones = (1,) * len(columns)
        x = _arranged(b, x, first, [*batch, *rows])
        y = _arranged(b, y, second, [*batch, *columns])
        x = b.reshape(x, (*x.shape, *ones))
        y = b.reshape(y, (*y.shape[: len(batch)], *(1,) * len(rows), *y.shape[len(batch) :]))
        return b.reshape(b.binary(MULTIPLY, x, y), shape), axes
    lead = [dims[label] for label in batch]
    lead = lead if len(lead) <= _BATCH_AXES else [math.prod(lead)]
    m, k, n = (math.prod(dims[label] for label in group) for group in (rows, inner, columns))
    x = _arranged(b, x, first, [*batch, *rows, *inner])
    y = _arranged(b, y, second, [*batch, *inner, *columns])
    return b.reshape(multiply(node, b, b.reshape(x, (*lead, m, k)), b.reshape(y, (*lead, k, n))), shape), axes


def _arranged(b: Builder, x: Value, labels: Labels, wanted: Labels) -> Value:
    return b.transpose(x, [labels.index(label) for label in wanted])
