"""Registry of the handlers of Caffe layers."""

from __future__ import annotations

from xdlc.converter.operators.registry import Handlers

_WITHOUT_EFFECT = ("engine", "force_nd_im2col", "share_in_parallel")
"""Parameters of any layer that choose an implementation."""
_OF_THE_TYPE = ("python_param.module", "python_param.layer")


class CaffeHandlers(Handlers):
    """Handlers of Caffe layers, which ignore fillers and implementation choices."""

    def is_optional(self, attribute: str) -> bool:
        """Return whether a parameter has no meaning at inference, or is in the type."""
        *outer, name = attribute.split(".")
        is_filler = any(part.endswith("filler") for part in outer)
        return is_filler or name in _WITHOUT_EFFECT or attribute in _OF_THE_TYPE


layer = CaffeHandlers("xdlc.converter.caffe.layers")
