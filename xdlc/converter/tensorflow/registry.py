"""Registry of the handlers of TensorFlow's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.operators.registry import F, Handlers
from xdlc.converter.session.ordering import SOURCE

_RESTATING = """
T N Index S TI TL Taxis Tblock_shape Tcond Tcrops Tdim Tdims Tidx Tin Tindices Tlen Tmultiples Tnumel Tout
Tpaddings Tparams Tperm Tshape Tsplits Treal Tcomplex dtypes Tmaxsize Tindex Toffset Tshift Tstrides Tk
use_cudnn_on_gpu
"""
"""Attributes that restate the types of inputs or their number, or name a kernel of TensorFlow."""


class _TensorFlowHandlers(Handlers):
    def __call__(
        self, *types: str, layout: str = SOURCE, ignores: Sequence[str] = (), domain: str = ""
    ) -> Callable[[F], F]:
        """Register a function; ignore attributes without meaning to operators."""
        return super().__call__(*types, layout=layout, ignores=(*_RESTATING.split(), *ignores), domain=domain)

    def is_optional(self, attribute: str) -> bool:
        """Return whether an attribute belongs to a function, restating argument types."""
        return "." in attribute


handler = _TensorFlowHandlers("xdlc.converter.tensorflow.ops")
