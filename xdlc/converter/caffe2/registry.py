"""Registry of the handlers of Caffe2's operators.

Values of Int8 operators are floats that are rounded to an encoding (``ops/int8.py``).
``Int8GivenTensorFill`` and ``Int8GivenIntTensorFill`` are nodes without inputs, whose attribute ``values`` is
``TensorData`` of uint8 or int32 in its shape, beside ``Y_scale`` and ``Y_zero_point``; all other fills are
constants of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.operators.registry import F, Handlers
from xdlc.converter.session.ordering import SOURCE

_WITHOUT_MEANING = """
algorithm convolution_transform_strategy cudnn_exhaustive_search cudnn_ws_nbytes_limit debug_name
deterministic enable_tensor_core engine exhaustive_search float16_compute force_algo_dgrad force_algo_fwd
force_algo_wgrad init_params is_learnable is_test net_pos no_bias no_gradient_to_input order shared_buffer
use_cudnn use_nnpack ws_nbytes_limit
"""
"""Arguments that choose an implementation or concern training, of any operator, and those that exporters
state of operators that do not read them."""

_TRAINING = "it is for training only"
_REASONS = {
    "it runs a net in each step": "RecurrentNetwork While Do If AsyncIf OnnxWhile",
    "the number of its results depends on the data": """
        GenerateProposals GenerateProposalsCPP Int8GenerateProposals BoxWithNMSLimit
        CollectAndDistributeFpnRpnProposals CollectRpnProposals DistributeFpnProposals
        Unique UniqueUniform BooleanMask LengthsToRanges NonZero FindDuplicateElements
        """,
    _TRAINING: """
        Accuracy Adadelta Adagrad Adam AveragedLoss CrossEntropy DropoutGrad FtrlUpdate Iter LabelCrossEntropy
        LearningRate MomentumSGD MomentumSGDUpdate RmsProp SigmoidCrossEntropyWithLogits SoftmaxWithLoss
        """,
    "it fills a tensor with random numbers": """
        XavierFill MSRAFill UniformFill GaussianFill UniformIntFill UniqueUniformFill
        """,
}
_REFUSED = {type: reason for reason, types in _REASONS.items() for type in types.split()}
"""Why operators that are known have no handler."""


class Caffe2Handlers(Handlers):
    """Handlers of Caffe2's operators."""

    def __call__(
        self, *types: str, layout: str = SOURCE, ignores: Sequence[str] = (), domain: str = ""
    ) -> Callable[[F], F]:
        """Register a function; ignore arguments without meaning to operators."""
        every = (*_WITHOUT_MEANING.split(), *ignores)
        return super().__call__(*types, layout=layout, ignores=every, domain=domain)

    def reason(self, type: str) -> str:
        """Return why an operator has no handler."""
        return _REFUSED.get(type) or (_TRAINING if type.endswith("Gradient") else "")


operator = Caffe2Handlers("xdlc.converter.caffe2.ops")
