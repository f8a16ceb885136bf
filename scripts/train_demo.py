"""Training of the demo's network with numpy, on the 1,797 handwritten digits of scikit-learn.

    pip install '.[demo-training]'
    python -m scripts.train_demo           # some minutes; writes scripts/data/demo.npz

The file has the weights as float16, and the digits of calibration and evaluation as 8 x 8 bytes; no digit
of the evaluation was trained on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scripts.demo import CALIBRATION, CLASSES, DATA, EVALUATION, HEADS, PLAN, STEM, WIDER, draw

BATCH = 32
RATE = 2e-3
MOMENTUM = 0.95
SMOOTHING = 0.05
Array = Any
Backward = Callable[[Array], Array]


class Net:
    """The network's parameters, their gradients, and one forward pass that remembers its way back."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.params: dict[str, Array] = {}
        self.moving: dict[str, Array] = {}
        self.grads: dict[str, Array] = {}
        self.is_training = True

    def param(self, name: str, shape: tuple[int, ...], spread: float) -> Array:
        """Return a parameter, made at its first use."""
        if name not in self.params:
            self.params[name] = (self.rng.standard_normal(shape) * spread).astype(np.float32)
        return self.params[name]

    def dense(self, x: Array, name: str, cout: int) -> tuple[Array, Backward]:
        """Return a product over the last axis."""
        cin = x.shape[-1]
        weight = self.param(f"{name}.weight", (cin, cout), np.sqrt(2 / cin))

        def back(grad: Array) -> Array:
            self.grads[f"{name}.weight"] = x.reshape(-1, cin).T @ grad.reshape(-1, cout)
            return grad @ weight.T

        return x @ weight, back

    def depthwise(self, x: Array, name: str, stride: int) -> tuple[Array, Backward]:
        """Return a 3 x 3 convolution of each channel."""
        weight = self.param(f"{name}.weight", (3, 3, x.shape[-1]), np.sqrt(2 / 9))
        places = list(windows(x.shape[1] // stride, stride))
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))

        def back(grad: Array) -> Array:
            kernel, result = np.empty_like(weight), np.zeros_like(padded)
            for i, j, place in places:
                kernel[i, j] = np.einsum("nhwc,nhwc->c", padded[place], grad)
                result[place] += grad * weight[i, j]
            self.grads[f"{name}.weight"] = kernel
            return result[:, 1:-1, 1:-1]

        return sum(padded[place] * weight[i, j] for i, j, place in places), back

    def norm(self, x: Array, name: str, *, relu: bool) -> tuple[Array, Backward]:
        """Return a batch normalization, with a Relu after it if asked."""
        channels, axes = x.shape[-1], tuple(range(x.ndim - 1))
        gamma, beta = (
            self.params.setdefault(f"{name}.gamma", np.ones(channels, np.float32)),
            self.params.setdefault(f"{name}.beta", np.zeros(channels, np.float32)),
        )
        if self.is_training:
            mean, variance = x.mean(axes), x.var(axes)
            for key, value in (("mean", mean), ("variance", variance)):
                old = self.moving.get(f"{name}.{key}", value)
                self.moving[f"{name}.{key}"] = MOMENTUM * old + (1 - MOMENTUM) * value
        else:
            mean, variance = self.moving[f"{name}.mean"], self.moving[f"{name}.variance"]
        inverse = 1 / np.sqrt(variance + 1e-5)
        unit = (x - mean) * inverse
        result = unit * gamma + beta
        count = x.size // channels

        def back(grad: Array) -> Array:
            grad = grad * (result > 0) if relu else grad
            slope, shift = (grad * unit).sum(axes), grad.sum(axes)
            self.grads[f"{name}.gamma"], self.grads[f"{name}.beta"] = slope, shift
            return (gamma * inverse) * (grad - (unit * slope + shift) / count)

        return np.maximum(result, 0) if relu else result, back

    def forward(self, images: Array) -> tuple[Array, list[Any]]:
        """Return the scores of images, [N, H, W, 3], and the steps of the way back."""
        steps: list[Any] = []

        def through(pair: tuple[Array, Backward]) -> Array:
            steps.append(pair[1])
            return pair[0]

        side = images.shape[1] // 2
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
        x = np.concatenate([padded[place] for _, _, place in windows(side, 2)], axis=-1)
        x = through(self.dense(x, "stem", STEM))
        x = through(self.norm(x, "stem.bn", relu=True))
        for number, (cin, cout, stride) in enumerate(PLAN, 1):
            name, before = f"block{number}", x
            is_sum = stride == 1 and cin == cout
            if is_sum:
                steps.append("join")
            x = through(self.dense(x, f"{name}.expand", WIDER * cin))
            x = through(self.norm(x, f"{name}.expand.bn", relu=True))
            x = through(self.depthwise(x, f"{name}.depthwise", stride))
            x = through(self.norm(x, f"{name}.depthwise.bn", relu=True))
            x = through(self.dense(x, f"{name}.project", cout))
            x = through(self.norm(x, f"{name}.project.bn", relu=False))
            if is_sum:
                x = x + before
                steps.append("sum")
        for number, cout in enumerate(HEADS, 1):
            x = through(self.dense(x, f"head{number}", cout))
            x = through(self.norm(x, f"head{number}.bn", relu=True))
        shape = x.shape
        x = x.mean((1, 2))
        steps.append(
            lambda grad: np.broadcast_to(grad[:, None, None] / (shape[1] * shape[2]), shape).astype(
                np.float32
            )
        )
        x = through(self.dense(x, "classifier", CLASSES))
        bias = self.params.setdefault("classifier.bias", np.zeros(CLASSES, np.float32))
        return x + bias, steps

    def backward(self, grad: Array, steps: list[Any]) -> None:
        """Fill the gradients from that of the scores."""
        self.grads["classifier.bias"] = grad.sum(0)
        skipped: list[Array] = []
        for step in reversed(steps):
            if step == "sum":
                skipped.append(grad)
            elif step == "join":
                grad = grad + skipped.pop()
            else:
                grad = step(grad)


def windows(side: int, stride: int) -> Iterator[tuple[int, int, Any]]:
    """Yield row, column and slices of a padded image for each place of a 3 x 3 kernel."""
    for i in range(3):
        for j in range(3):
            rows, columns = slice(i, i + stride * side, stride), slice(j, j + stride * side, stride)
            yield i, j, (slice(None), rows, columns)


def train(net: Net, digits: Array, labels: Array, epochs: int) -> None:
    """Train with Adam and a cosine of learning rates, on images drawn anew each time."""
    first = second = None
    rng, step, total = np.random.default_rng(7), 0, epochs * (len(digits) // BATCH)
    for epoch in range(epochs):
        losses, order = [], rng.permutation(len(digits))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            scores, steps = net.forward(draw(digits[chosen], rng).transpose(0, 2, 3, 1))
            powers = np.exp(scores - scores.max(1, keepdims=True))
            shares = powers / powers.sum(1, keepdims=True)
            targets = np.full_like(shares, SMOOTHING / CLASSES)
            targets[np.arange(BATCH), labels[chosen]] += 1 - SMOOTHING
            losses.append(float(-(targets * np.log(shares + 1e-9)).sum(1).mean()))
            net.backward((shares - targets) / BATCH, steps)
            if first is None or second is None:
                first = {name: np.zeros_like(value) for name, value in net.params.items()}
                second = {name: np.zeros_like(value) for name, value in net.params.items()}
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / total)) * min(1.0, step / 40)
            for name, grad in net.grads.items():
                first[name] = 0.9 * first[name] + 0.1 * grad
                second[name] = 0.99 * second[name] + 0.01 * grad * grad
                size = np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8
                net.params[name] = net.params[name] - rate * (first[name] / (1 - 0.9**step)) / size
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}", flush=True)


def accuracy(net: Net, digits: Array, labels: Array, seed: int) -> float:
    """Return the share of digits that the network tells right."""
    net.is_training = False
    scores, _ = net.forward(draw(digits, np.random.default_rng(seed)).transpose(0, 2, 3, 1))
    net.is_training = True
    return float((scores.argmax(1) == labels).mean())


def stored(net: Net) -> dict[str, Array]:
    """Return the weights as the ONNX file has them, in float16."""
    result = {}
    for name, value in {**net.params, **net.moving}.items():
        if name == "stem.weight":  # [3 * 3 * 3, cout], to [cout, cin, 3, 3]
            value = value.reshape(3, 3, 3, -1).transpose(3, 2, 0, 1)
        elif name.endswith("depthwise.weight"):
            value = value.transpose(2, 0, 1)[:, None]
        elif name == "classifier.weight":
            value = value.T
        elif name.endswith(".weight"):
            value = value.T[..., None, None]
        result[name] = value.astype(np.float16)
    return result


def main() -> int:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--output", type=Path, default=DATA)
    options = parser.parse_args()
    from sklearn.datasets import load_digits

    source = load_digits()
    order = np.random.default_rng(1).permutation(len(source.images))
    digits, labels = source.images[order].astype(np.uint8), source.target[order].astype(np.uint8)
    training = slice(EVALUATION, None)
    net = Net(seed=1)
    train(net, digits[training], labels[training], options.epochs)
    share = accuracy(net, digits[:EVALUATION], labels[:EVALUATION], seed=3)
    print(f"right in {share:.1%} of {EVALUATION} digits that it was not trained on")
    kept = EVALUATION + CALIBRATION
    options.output.parent.mkdir(exist_ok=True)
    np.savez_compressed(options.output, digits=digits[:kept], labels=labels[:kept], **stored(net))
    print(f"written: {options.output}, {options.output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
