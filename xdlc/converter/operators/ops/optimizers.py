"""Adagrad, Adam and Momentum: one step of training, written with arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, number, select, unary
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, GREATER, MULTIPLY, POWER, SQRT, SUBTRACT

_DOMAIN = "ai.onnx.preview.training"
Update = Callable[[Value, Value, Sequence[Value]], Sequence[Value]]


@importer("Adagrad", domain=_DOMAIN)
def adagrad(node: Node, b: Builder) -> list[Value]:
    """Write x - r / (1 + t * decay) * g / (sqrt(h + g^2) + epsilon)."""
    decay, epsilon = node.attr("decay_factor", 0.0), node.attr("epsilon", 1e-6)
    regularized = _regularization(node, b)

    def update(rate: Value, count: Value, state: Sequence[Value]) -> Sequence[Value]:
        x, gradient, squares = state
        slowed = b.binary(ADD, _scaled(b, b.cast(count, rate.dtype), decay), number(b, rate, 1))
        gradient = regularized(x, gradient)
        moved = b.binary(ADD, squares, b.binary(MULTIPLY, gradient, gradient))
        step = b.binary(MULTIPLY, b.binary(DIVIDE, rate, slowed), gradient)
        root = b.binary(ADD, unary(b, SQRT, moved), number(b, x, epsilon))
        return b.binary(SUBTRACT, x, b.binary(DIVIDE, step, root)), moved

    return _each(node, 3, update)


@importer("Adam", domain=_DOMAIN)
def adam(node: Node, b: Builder) -> list[Value]:
    """Write the step with both momentums, whose bias is corrected after the first iteration."""
    alpha, beta = node.attr("alpha", 0.9), node.attr("beta", 0.999)
    epsilon, after = node.attr("epsilon", 1e-6), node.attr("norm_coefficient_post", 0.0)
    regularized = _regularization(node, b)

    def mixed(old: Value, new: Value, share: float) -> Value:
        return b.binary(ADD, _scaled(b, old, share), _scaled(b, new, 1 - share))

    def corrected(rate: Value, count: Value) -> Value:
        times = b.cast(count, rate.dtype)
        rests = [
            b.binary(SUBTRACT, number(b, rate, 1), b.binary(POWER, number(b, rate, share), times))
            for share in (beta, alpha)
        ]
        adjusted = b.binary(DIVIDE, b.binary(MULTIPLY, rate, unary(b, SQRT, rests[0])), rests[1])
        return select(b, compare(b, GREATER, count, number(b, count, 0)), adjusted, rate)

    def update(rate: Value, count: Value, state: Sequence[Value]) -> Sequence[Value]:
        x, gradient, momentum, squares = state
        gradient = regularized(x, gradient)
        momentum = mixed(momentum, gradient, alpha)
        squares = mixed(squares, b.binary(MULTIPLY, gradient, gradient), beta)
        root = b.binary(ADD, unary(b, SQRT, squares), number(b, x, epsilon))
        step = b.binary(MULTIPLY, corrected(rate, count), b.binary(DIVIDE, momentum, root))
        return _scaled(b, b.binary(SUBTRACT, x, step), 1 - after), momentum, squares

    return _each(node, 4, update)


@importer("Momentum", domain=_DOMAIN)
def momentum(node: Node, b: Builder) -> list[Value]:
    """Write the step along the momentum, or Nesterov's."""
    alpha, beta, mode = node.attr("alpha"), node.attr("beta"), node.attr("mode", "standard")
    if mode not in ("standard", "nesterov") or alpha is None or beta is None:
        raise node.invalid(f"mode {mode!r} with alpha {alpha} and beta {beta}")
    regularized = _regularization(node, b)

    def update(rate: Value, count: Value, state: Sequence[Value]) -> Sequence[Value]:
        x, gradient, velocity = state
        gradient = regularized(x, gradient)
        later = compare(b, GREATER, count, number(b, count, 0))
        share = select(b, later, number(b, x, beta), number(b, x, 1))
        velocity = b.binary(ADD, _scaled(b, velocity, alpha), b.binary(MULTIPLY, share, gradient))
        way = velocity if mode == "standard" else b.binary(ADD, gradient, _scaled(b, velocity, alpha))
        return b.binary(SUBTRACT, x, b.binary(MULTIPLY, rate, way)), velocity

    return _each(node, 3, update)


def _regularization(node: Node, b: Builder) -> Callable[[Value, Value], Value]:
    share = node.attr("norm_coefficient", 0.0)
    return lambda x, gradient: b.binary(ADD, _scaled(b, x, share), gradient) if share else gradient


def _scaled(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else b.binary(MULTIPLY, x, number(b, x, factor))


def _each(node: Node, kinds: int, update: Update) -> list[Value]:
    """Update each optimized tensor; operands and results are grouped by kind, as in ONNX."""
    rate, count, rest = node.required(0), node.required(1), range(2, len(node.inputs))
    if len(rest) % kinds:
        raise node.invalid(f"{len(rest)} operands are no multiple of {kinds}")
    total = len(rest) // kinds
    made = [
        update(rate, count, [node.required(2 + index + kind * total) for kind in range(kinds)])
        for index in range(total)
    ]
    return [results[kind] for kind in range(kinds - 1) for results in made]
