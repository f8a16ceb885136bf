"""What a quantized model says of itself."""

from __future__ import annotations

from xdlc.container import cache_provenance
from xdlc.container.aip_record import is_about_sections
from xdlc.container.metadata import add_step
from xdlc.ir import Model
from xdlc.quant.options import QuantOptions


def sign(model: Model, options: QuantOptions) -> None:
    """Take out what belongs to the float model, and add to the history what was done.

    From the history engines see that encodings are ours (:func:`xdlc.runtime.htp_fusion.came_quantized`).
    """
    for name in list(model.records):
        if name.startswith("htp.") or name == cache_provenance.RECORD or is_about_sections(name):
            del model.records[name]
    for key in ("cacheList", "relations"):
        model.metadata.pop(key, None)
    add_step(model, "xdlc-quant", options.stated())
