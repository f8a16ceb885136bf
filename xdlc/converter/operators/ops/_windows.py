"""Windows of convolutions and pools: strides, dilations, paddings by spatial axis."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdlc import ir
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import EXTENT_LIMIT, Value


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window over the spatial axes, in source order.

    Attributes:
        kernel: Dimensions of the window.
        dilations: Distances between its elements.
        before: Padding before each axis.
        after: Padding after each axis.
        ceil: Whether the output size is rounded up.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ceil: bool = False

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    def lifted(self) -> Window:
        """Return the window with an axis of size 1 in front: one-dimensional becomes two."""
        return Window(
            (1, *self.kernel),
            (1, *self.strides),
            (1, *self.dilations),
            (0, *self.before),
            (0, *self.after),
            self.ceil,
        )

    def dims(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output sizes (ONNX operator documentation of Conv and MaxPool)."""
        out = []
        for axis, dim in enumerate(spatial):
            reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            room = dim + self.before[axis] + self.after[axis] - reach
            steps = -(-room // self.strides[axis]) if self.ceil else room // self.strides[axis]
            if self.ceil and steps * self.strides[axis] >= dim + self.before[axis]:
                steps -= 1  # the last window must start inside the data or the padding before them
            out.append(steps + 1)
        return tuple(out)

    def rounded_down(self, spatial: tuple[int, ...]) -> Window:
        """Return a window with the same output that rounds down: overhang becomes padding."""
        after = []
        for axis, dim in enumerate(self.dims(spatial)):
            reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            end = (dim - 1) * self.strides[axis] + reach
            after.append(max(self.after[axis], end - spatial[axis] - self.before[axis]))
        return replace(self, after=tuple(after), ceil=False)

    def repeats(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return how often a result recurs by axis: where all windows cover all data."""
        return tuple(
            outputs
            if self.before[axis] >= (outputs - 1) * self.strides[axis]
            and self.kernel[axis] - self.before[axis] >= spatial[axis]
            and self.dilations[axis] == 1
            else 1
            for axis, outputs in enumerate(self.dims(spatial))
        )

    def trimmed(self, spatial: tuple[int, ...]) -> Window:
        """Return a window cropped to what it covers along the axes of a single result.

        HTP averages wrongly where a window of 3 reaches over both ends of the data.
        """
        repeats = self.repeats(spatial)
        kernel, strides, before, after = (
            list(part) for part in (self.kernel, self.strides, self.before, self.after)
        )
        for axis, dim in enumerate(self.dims(spatial)):
            if dim == repeats[axis] or (dim == 1 and self.dilations[axis] == 1):
                kernel[axis] = min(spatial[axis], kernel[axis] - before[axis])
                strides[axis] = spatial[axis]
                before[axis] = after[axis] = 0
        return replace(
            self, kernel=tuple(kernel), strides=tuple(strides), before=tuple(before), after=tuple(after)
        )

    def params(self, *names: str) -> dict[str, ir.Param]:
        """Return the named QNN parameters: stride, dilation, pad_amount, filter_size."""
        by_name = {
            "stride": self.strides,
            "dilation": self.dilations,
            "filter_size": self.kernel,
            "pad_amount": list(zip(self.before, self.after, strict=True)),
        }
        return {name: ir.u32s(by_name[name]) for name in names}


def automatic_padding(node: Node) -> str:
    """Return ``auto_pad``: NOTSET, VALID, SAME_UPPER or SAME_LOWER.

    Raises:
        ModelError: If it is something else.
    """
    automatic = str(node.attr("auto_pad", "") or "NOTSET")
    if automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.invalid(f"auto_pad is {automatic!r:.40}")
    return automatic


def kernel_of(node: Node, weight: Value) -> tuple[int, ...]:
    """Return the sizes of a convolution's window, which are those of its weights.

    Raises:
        ModelError: If ``kernel_shape`` states others.
    """
    sizes, stated = weight.shape[2:], node.attr("kernel_shape")
    if stated is not None and tuple(stated) != sizes:
        raise node.invalid(f"kernel_shape {list(stated)} differs from the weights' {list(sizes)}")
    return sizes


def window(node: Node, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> Window:
    """Read a window from a node's attributes, automatic padding worked out.

    Args:
        kernel: Dimensions of the window.
        spatial: Dimensions of the input's spatial axes.
    """
    rank = len(spatial)
    if len(kernel) != rank:
        raise node.problem(f"a kernel of {len(kernel)} axes does not fit {rank} spatial axes")
    strides = tuple(node.attr("strides", [1] * rank))
    dilations = tuple(node.attr("dilations", [1] * rank))
    pads = node.attr("pads", [0] * (2 * rank))
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise node.problem("strides, dilations or pads do not fit the number of spatial axes")
    if any(value < 1 for value in (*strides, *dilations, *kernel)):
        raise node.problem("a stride, dilation or kernel size is below 1")
    if any(value > EXTENT_LIMIT for value in (*strides, *dilations, *kernel, *pads)):
        raise node.invalid("a stride, dilation, kernel size or padding is beyond 32 bits")
    before, after = tuple(pads[:rank]), tuple(pads[rank:])
    automatic = automatic_padding(node)
    if automatic == "VALID":
        before = after = (0,) * rank
    elif automatic != "NOTSET":
        total = [
            max(0, (-(-dim // stride) - 1) * stride + dilation * (size - 1) + 1 - dim)
            for dim, stride, dilation, size in zip(spatial, strides, dilations, kernel, strict=True)
        ]
        small, large = tuple(pad // 2 for pad in total), tuple(pad - pad // 2 for pad in total)
        before, after = (small, large) if automatic == "SAME_UPPER" else (large, small)
    if any(pad < 0 for pad in (*before, *after)):
        raise node.problem(f"negative padding {list(pads)} is not supported", "use Slice instead")
    windows = Window(kernel, strides, dilations, before, after, node.flag("ceil_mode"))
    if any(dim < 1 for dim in windows.dims(spatial)):
        raise node.problem(
            f"the window {list(kernel)} is larger than the padded input {list(spatial)}",
            "pass a larger --input_dim",
        )
    return windows
