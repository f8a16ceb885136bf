"""MaxPool, AveragePool, LpPool and their global forms."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops._windows import Window, window
from xdlc.converter.onnx.ops.expand import tiled
from xdlc.converter.onnx.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last

_STEMS = {"MaxPool": "PoolMax", "AveragePool": "PoolAvg", "LpPool": "L2Pool"}


@importer(*_STEMS, layout=CHANNEL_LAST, ignores=("storage_order",))
def pool(node: Node, b: Builder) -> Value:
    """Map a pool over one, two or three axes."""
    x = node.required(0)
    if len(node.outputs) > 1 and node.outputs[1]:
        raise node.problem("its indices output is used; QNN pools give none", "remove the unpooling")
    view = window(node, tuple(node.attr("kernel_shape") or ()), x.shape[2:])
    if any(dilation != 1 for dilation in view.dilations):
        raise node.problem(
            f"dilations {list(view.dilations)}; QNN pools have none", "export without dilation"
        )
    if node.type == "LpPool" and node.attr("p", 2) != 2:
        raise node.problem(f"p = {node.attr('p')}; QNN has the L2 pool only")
    return pooled(node, b, x, view, _STEMS[node.type])


@importer("GlobalMaxPool", "GlobalAveragePool", layout=CHANNEL_LAST)
def global_pool(node: Node, b: Builder) -> Value:
    """Map a pool over the whole of every channel."""
    x = node.required(0)
    return pooled(node, b, x, whole(x), _STEMS[node.type.removeprefix("Global")])


def whole(x: Value) -> Window:
    """Return the window that covers all spatial axes."""
    spatial = x.shape[2:]
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    return Window(spatial, spatial, ones, zeros, zeros)


def pooled(
    node: Node, b: Builder, x: Value, view: Window, stem: str, *, encoding: ir.Encoding | None = None
) -> Value:
    """Append a pool; one over a single axis runs as one over two."""
    spatial = x.shape[2:]
    shape = (*x.shape[:2], *view.extents(spatial))
    if x.rank == 3:
        view = view.lifted()
        x = b.reshape(x, (*x.shape[:2], 1, *spatial))
    if x.rank not in (4, 5):
        raise node.problem(f"{x.rank - 2} spatial axes; QNN pools over 2 or 3")
    counts_padding = stem == "PoolAvg" and bool(node.attr("count_include_pad", 0))
    floor = view.rounded_down(x.shape[2:])
    if counts_padding and floor.after != view.after:
        raise node.problem(
            "ceil_mode with count_include_pad, where a window hangs over the padding: QNN counts otherwise",
            "export with ceil_mode = 0 or count_include_pad = 0",
        )
    once = (1,) * floor.rank
    view, repeats = floor, once
    if not counts_padding:
        view, repeats = floor.trimmed(x.shape[2:]), floor.repeats(x.shape[2:])
    params = view.params("filter_size", "stride", "pad_amount")
    if stem == "PoolAvg":
        params["count_pad_for_edges"] = ir.b8(counts_padding)
    lying = (x.shape[0], *view.extents(x.shape[2:]), x.shape[1])
    out = b.emit(f"{stem}{view.rank}d", [b.channel_last(x)], lying, x.dtype, params, encoding=encoding)
    result = Value(out, channel_last(x.rank))
    if repeats != once:
        result = tiled(b, result, [1, 1, *repeats])
    return b.reshape(result, shape)
