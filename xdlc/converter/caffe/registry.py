"""Registry of the handlers of Caffe layers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xdlc.converter.operators.applying import Operators
from xdlc.converter.operators.handlers import F, HandlerFunction, Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import AnyValue

_WITHOUT_EFFECT = ("engine", "force_nd_im2col")
"""Parameters of any layer that choose an implementation."""


class CaffeHandlers(Handlers):
    """Handlers of Caffe layers, for which fillers and choices of an implementation have no meaning."""

    def __call__(
        self, *types: str, layout: str = SOURCE, ignores: Sequence[str] = (), domain: str = ""
    ) -> Callable[[F], F]:
        """Register a function as the handler of layer types, as ``Handlers`` does."""

        def register(function: F) -> F:
            around: HandlerFunction = _ignoring(function)
            super(CaffeHandlers, self).__call__(*types, layout=layout, ignores=ignores, domain=domain)(around)
            return function

        return register


def _ignoring(function: HandlerFunction) -> HandlerFunction:
    @functools.wraps(function)
    def handle(node: Node, g: Operators) -> AnyValue | Sequence[AnyValue]:
        for name in node.attributes:
            parts = name.split(".")
            if parts[-1] in _WITHOUT_EFFECT or any(part.endswith("filler") for part in parts[:-1]):
                node.read.add(name)
        return function(node, g)

    return handle


layer = CaffeHandlers("xdlc.converter.caffe.layers")
