"""Einsum, as transposed views, sums and matrix products."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import reduced, strided
from xdlc.converter.operators.ops.matmul import multiply
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import MULTIPLY

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
                raise node.invalid(f"label {label!r} denotes {size} and {dim} elements")
            dims[label] = max(size, dim)
    left, labels = _diagonal(b, values[0], terms[0])
    rest = [_diagonal(b, value, term) for value, term in zip(values[1:], terms[1:], strict=True)]
    for index, (right, right_labels) in enumerate(rest):
        later = {label for _, term in rest[index + 1 :] for label in term} | set(result)
        left, labels = _pair(node, b, (left, labels), (right, right_labels), later, dims)
    left, labels = _summed(b, left, labels, set(result))
    return _arranged(b, left, labels, result)


def _parsed(node: Node, values: Sequence[Value]) -> tuple[list[Labels], Labels]:
    """Return labels of the axes of operands and result; an ellipsis gets numbers."""
    equation = str(node.attr("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values) or not all(map(_TERM.fullmatch, [*terms, right])):
        raise node.invalid(f"equation {equation!r} with {len(values)} operands")
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
