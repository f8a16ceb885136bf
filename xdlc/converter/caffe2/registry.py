"""Registry of the handlers of Caffe2's operators.

Values of Int8 operators are floats that are rounded to an encoding (``ops/int8.py``).
``Int8GivenTensorFill`` and ``Int8GivenIntTensorFill`` are nodes without inputs, whose attribute ``values`` is
``TensorData`` of uint8 or int32 in its shape, beside ``Y_scale`` and ``Y_zero_point``; all other fills are
constants of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.operators.applying import Operators
from xdlc.converter.operators.handlers import F, Handler, Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value

_WITHOUT_MEANING = """
algorithm convolution_transform_strategy cudnn_exhaustive_search cudnn_ws_nbytes_limit debug_name
deterministic enable_tensor_core engine exhaustive_search float16_compute force_algo_dgrad force_algo_fwd
force_algo_wgrad init_params is_learnable is_test net_pos no_bias no_gradient_to_input order shared_buffer
use_cudnn use_nnpack ws_nbytes_limit
"""
"""Arguments that choose an implementation or concern training, of any operator, and those that exporters
state of operators that do not read them."""

_NET = "it runs a net of its own in each step"
_COUNT = "the number of its results depends on the data"
_UDO = (
    "describe it in a UDO configuration (xdlc-udo-config from-model drafts one), "
    "or cut the net before it with --out_name"
)
_REASONS = {
    _NET: "RecurrentNetwork While Do If AsyncIf OnnxWhile",
    _COUNT: """
        GenerateProposals GenerateProposalsCPP Int8GenerateProposals BoxWithNMSLimit
        CollectAndDistributeFpnRpnProposals CollectRpnProposals DistributeFpnProposals
        Unique UniqueUniform BooleanMask LengthsToRanges NonZero FindDuplicateElements
        """,
    "no operation refines the places of the greatest elements as it does": "HeatmapMaxKeypoint",
    "it fills a tensor with random numbers": """
        XavierFill MSRAFill UniformFill GaussianFill UniformIntFill UniqueUniformFill
        """,
}
REFUSED = {type: reason for reason, types in _REASONS.items() for type in types.split()}
"""Operators that are known and refused, with the reason."""


def _refused(node: Node, g: Operators) -> Value:
    """Refuse an operator.

    Raises:
        UnsupportedOp: Always.
    """
    reason = REFUSED.get(node.type, "it is an operator of training")
    fix = "export the net for inference" if node.type.endswith("Gradient") else _UDO
    raise node.problem(f"{node.type} has no mapping onto QNN operations: {reason}", fix)


class Caffe2Handlers(Handlers):
    """Handlers of Caffe2's operators."""

    def __call__(
        self, *types: str, layout: str = SOURCE, ignores: Sequence[str] = (), domain: str = ""
    ) -> Callable[[F], F]:
        """Register a function, with the arguments without meaning for any operator added to the ignored."""
        every = (*_WITHOUT_MEANING.split(), *ignores)
        return super().__call__(*types, layout=layout, ignores=every, domain=domain)

    def find(self, domain: str, type: str) -> Handler | None:
        """Return the handler of an operator; of one that is known and refused, one that raises."""
        found = super().find(domain, type)
        if found is None and not domain and (type in REFUSED or type.endswith("Gradient")):
            return Handler(_refused, SOURCE, frozenset())
        return found


operator = Caffe2Handlers("xdlc.converter.caffe2.ops")
