"""Small detection heads: a random convolution and a detector's steps after it."""

import numpy as np

from tests.quant.conftest import Net, window
from xdlc.ir import static, u32

RELU, SIGMOID = 4, 6
ADD, DIVIDE, MULTIPLY, POWER, SUBTRACT, EXP = 0, 2, 13, 16, 18, 5
SIDE, STRIDE, CLASSES = 8, 8, 3
CELLS = SIDE * SIDE


class Head(Net):
    """A net of a map of 8 x 8 cells of 8 pixels, and the steps of heads."""

    def __init__(self):
        super().__init__(1, SIDE, SIDE, 3)
        self.count = 0
        self.feature = self.neuron(self.layer(self.x, 16, 1.0, 0.5), RELU, "feature")

    def name(self, kind):
        self.count += 1
        return f"{kind}_{self.count}"

    def layer(self, x, channels, size, bias):
        """Return a convolution of 1x1 with results about ``bias``, within ``size``."""
        name, cin = self.name("layer"), x.shape[-1]
        weights = self.weights(f"{name}_w", 1, 1, cin, channels, scale=size / np.sqrt(cin))
        biases = static(f"{name}_b", np.full(channels, bias, np.float32))
        shape = (*x.shape[:-1], channels)
        return self.op("Conv2d", [x, weights, biases], shape, name, **window(), group=u32(1))

    def flat(self, x):
        return self.reshape(x, (1, CELLS, x.shape[-1]), self.name("flat"))

    def slice(self, x, start, stop):
        ranges = [(0, size, 1) for size in x.shape[:-1]] + [(start, stop, 1)]
        shape = (*x.shape[:-1], stop - start)
        return self.op("StridedSlice", [x], shape, self.name("slice"), ranges=static("r", np.int32(ranges)))

    def sigmoid(self, x):
        return self.neuron(x, SIGMOID, self.name("sigmoid"))

    def with_constant(self, x, operation, value):
        name = self.name("step")
        return self.binary(x, static(f"{name}_c", np.float32(value)), operation, name)

    def exp(self, x):
        return self.op("ElementWiseUnary", [x], x.shape, self.name("exp"), operation=u32(EXP))

    def join(self, *parts):
        return self.concat(list(parts), self.name("join"))

    def levels(self, *parts):
        shape = (1, CELLS * len(parts), parts[0].shape[-1])
        return self.op("Concat", list(parts), shape, self.name("levels"), axis=u32(1))

    def scatter(self, x, start, stop, values):
        """Return ``x`` with the last axis from ``start`` to ``stop`` written anew."""
        cells, columns = np.meshgrid(np.arange(x.shape[1]), np.arange(start, stop), indexing="ij")
        name = self.name("scatter")
        indices = np.stack([np.zeros_like(cells), cells, columns], axis=-1)[None].astype(np.int32)
        return self.op("ScatterNd", [x, static(f"{name}_i", indices), values], x.shape, name)

    def transposed(self, x):
        shape = (1, x.shape[2], x.shape[1])
        return self.op("Transpose", [x], shape, self.name("moved"), perm=static("p", np.uint32([0, 2, 1])))


GRID = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(1, CELLS, 2)


def yolov5_level(head, anchor=60.0):
    y = head.sigmoid(head.flat(head.layer(head.feature, 5 + CLASSES, 2.0, -0.5)))
    xy = head.with_constant(head.slice(y, 0, 2), MULTIPLY, [2.0])
    xy = head.with_constant(head.with_constant(xy, ADD, GRID - 0.5), MULTIPLY, [STRIDE])
    wh = head.with_constant(head.with_constant(head.slice(y, 2, 4), MULTIPLY, [2.0]), POWER, [2.0])
    return y, xy, head.with_constant(wh, MULTIPLY, [anchor])


def yolov5(head):
    """Boxes and scores of two levels, joined level by level."""
    levels = []
    for anchor in (30.0, 90.0):
        y, xy, wh = yolov5_level(head, anchor)
        levels.append(head.join(xy, wh, head.slice(y, 4, 5 + CLASSES)))
    return head.levels(*levels)


def yolov5_in_place(head):
    """Boxes written over what they come from."""
    y, xy, wh = yolov5_level(head)
    return head.scatter(head.scatter(y, 0, 2, xy), 2, 4, wh)


def yolov7(head):
    """Corners and the product of both scores."""
    y, xy, wh = yolov5_level(head)
    half = head.with_constant(wh, MULTIPLY, [0.5])
    low = head.binary(xy, half, SUBTRACT, head.name("low"))
    high = head.binary(xy, half, ADD, head.name("high"))
    scores = head.slice(y, 5, 5 + CLASSES)
    scores = head.binary(scores, head.slice(y, 4, 5), MULTIPLY, head.name("scores"))
    return head.join(low, high, scores)


def yolov8(head):
    """Distances as expectations over bins, scores channels first."""
    bins = head.reshape(head.layer(head.feature, 64, 2.0, 0.0), (1, CELLS, 4, 16), "bins")
    chances = head.op("Softmax", [bins], bins.shape, "chances", axis=u32(3))
    places = static("places", np.arange(16, dtype=np.float32).reshape(1, 1, 16, 1))
    shape = (1, CELLS, 4, 1)
    distances = head.op("Conv2d", [chances, places], shape, "expected", **window(), group=u32(1))
    distances = head.reshape(distances, (1, CELLS, 4), "distances")
    corners = [static(f"centres_{k}", (GRID + 0.5).astype(np.float32)) for k in (0, 1)]
    low = head.binary(corners[0], head.slice(distances, 0, 2), SUBTRACT, "low")
    high = head.binary(corners[1], head.slice(distances, 2, 4), ADD, "high")
    boxes = head.with_constant(head.join(low, high), MULTIPLY, [STRIDE])
    scores = head.sigmoid(head.flat(head.layer(head.feature, CLASSES, 2.0, -1.0)))
    return head.transposed(head.join(boxes, scores))


def yolox(head):
    """Sizes as exponentials."""
    y = head.flat(head.layer(head.feature, 4, 0.8, 0.0))
    xy = head.with_constant(head.with_constant(head.slice(y, 0, 2), ADD, GRID), MULTIPLY, [STRIDE])
    wh = head.with_constant(head.exp(head.slice(y, 2, 4)), MULTIPLY, [STRIDE])
    scores = head.sigmoid(head.flat(head.layer(head.feature, 1 + CLASSES, 2.0, -0.5)))
    return head.join(xy, wh, scores)


def ssd(head):
    """Boxes in parts of the image beside probabilities, in one tensor: alike."""
    y = head.flat(head.layer(head.feature, 4, 1.0, 0.0))
    centre = head.with_constant(
        head.with_constant(head.slice(y, 0, 2), MULTIPLY, [0.02]), ADD, (GRID + 0.5) / SIDE
    )
    size = head.with_constant(
        head.exp(head.with_constant(head.slice(y, 2, 4), MULTIPLY, [0.2])), MULTIPLY, [0.3]
    )
    logits = head.flat(head.layer(head.feature, 1 + CLASSES, 2.0, 0.0))
    return head.join(centre, size, head.op("Softmax", [logits], logits.shape, "chances", axis=u32(2)))


def ssd_in_pixels(head):
    """The same with one product that turns boxes alone into pixels."""
    return head.with_constant(ssd(head), MULTIPLY, [320.0] * 4 + [1.0] * (1 + CLASSES))


def retinaface(head):
    """Boxes and landmarks in pixels beside probabilities."""
    y = head.flat(head.layer(head.feature, 14, 1.0, 0.0))
    centre = head.with_constant(
        head.with_constant(head.slice(y, 0, 2), MULTIPLY, [4.0]), ADD, GRID * 40.0 + 20.0
    )
    size = head.with_constant(
        head.exp(head.with_constant(head.slice(y, 2, 4), MULTIPLY, [0.2])), MULTIPLY, [64.0]
    )
    points = head.with_constant(head.slice(y, 4, 14), MULTIPLY, [6.4])
    points = head.with_constant(points, ADD, np.tile(GRID * 40.0 + 20.0, 5))
    logits = head.flat(head.layer(head.feature, 2, 2.0, 0.0))
    return head.join(centre, size, points, head.op("Softmax", [logits], logits.shape, "chances", axis=u32(2)))
