"""What a quantized model says of itself."""

from __future__ import annotations

from xdlc.ir import Model
from xdlc.quant.options import QuantOptions
from xdlc.version import VERSION

_STALE_RECORDS = ("htp.", "aip.")


def sign(model: Model, options: QuantOptions) -> None:
    """Take out what belongs to the float model, and add to the history what was done.

    The history also tells engines that encodings are ours, see :func:`xdlc.runtime.fused.came_quantized`.
    """
    for name in [name for name in model.records if name.startswith(_STALE_RECORDS)]:
        del model.records[name]
    model.metadata.pop("cacheList", None)
    model.metadata.setdefault("history", []).append(
        {"tool": "xdlc-quant", "converterVersion": VERSION, "args": options.stated()}
    )
