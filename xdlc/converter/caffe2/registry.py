"""Registry of the handlers of Caffe2's operators, and checked arguments of these.

Values of Int8 operators are floats that are rounded to an encoding (``ops/int8.py``).
``Int8GivenTensorFill`` and ``Int8GivenIntTensorFill`` are nodes without inputs, whose attribute ``values`` is
``TensorData`` of uint8 or int32 in its shape, beside ``Y_scale`` and ``Y_zero_point``; all other fills are
constants of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.converter.functions.shapes import channel_first, channel_last
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_WITHOUT_MEANING = """
algorithm convolution_transform_strategy cudnn_exhaustive_search cudnn_ws_nbytes_limit debug_name
deterministic enable_tensor_core engine exhaustive_search float16_compute force_algo_dgrad force_algo_fwd
force_algo_wgrad init_params is_learnable is_test net_pos no_bias no_gradient_to_input order shared_buffer
use_cudnn use_nnpack ws_nbytes_limit
"""
"""Arguments that choose an implementation or concern training, of any operator, and those that exporters
state of operators that do not read them."""

_TRAINING = "the operator is for training only"
_REASONS = {
    "the operator runs a net in each step": "RecurrentNetwork While Do If AsyncIf OnnxWhile",
    "the number of results depends on the data": """
        GenerateProposals GenerateProposalsCPP Int8GenerateProposals BoxWithNMSLimit
        CollectAndDistributeFpnRpnProposals CollectRpnProposals DistributeFpnProposals
        Unique UniqueUniform BooleanMask LengthsToRanges NonZero FindDuplicateElements
        """,
    _TRAINING: """
        Accuracy Adadelta Adagrad Adam AveragedLoss CrossEntropy DropoutGrad FtrlUpdate Iter LabelCrossEntropy
        LearningRate MomentumSGD MomentumSGDUpdate RmsProp SigmoidCrossEntropyWithLogits SoftmaxWithLoss
        """,
    "the operator fills a tensor with random numbers": """
        XavierFill MSRAFill UniformFill GaussianFill UniformIntFill UniqueUniformFill
        """,
}
_REFUSED = {type: reason for reason, types in _REASONS.items() for type in types.split()}
"""Why operators that are known have no handler."""


class Caffe2Handlers(Handlers):
    """Handlers of Caffe2's operators."""

    def reason(self, type: str) -> str:
        """Return why an operator has no handler."""
        return _REFUSED.get(type) or (_TRAINING if type.endswith("Gradient") else "")


operator = Caffe2Handlers("xdlc.converter.caffe2.ops", _WITHOUT_MEANING.split())


_MOST = (1 << 31) - 1


def numbers(node: Node, name: str) -> list[float]:
    """Return a numeric argument as a list; empty if missing.

    Raises:
        ModelError: If it is something else, or NaN.
    """
    given = node.attr(name, [])
    listed = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not all(isinstance(each, int | float) and not math.isnan(each) for each in listed):
        raise node.invalid(f"argument {name} is {given!r:.60}, not a number")
    return list(listed)


def number(node: Node, name: str, default: float) -> float:
    """Return an argument that has a single number, checked like ``numbers``."""
    found = numbers(node, name) or [default]
    if len(found) != 1:
        raise node.invalid(f"argument {name} has {len(found)} numbers instead of one")
    return float(found[0])


def integers(node: Node, name: str) -> list[int]:
    """Return an integer argument as a list; empty if missing.

    Raises:
        ModelError: If it is something else, or beyond 32 bits.
    """
    found = numbers(node, name)
    if not all(abs(each) <= _MOST and each == int(each) for each in found):
        raise node.invalid(f"argument {name} must be a list of 32-bit integers, but is {found!r:.60}")
    return [int(each) for each in found]


def integer(node: Node, name: str, default: int, least: int = -_MOST) -> int:
    """Return an argument that has a single integer.

    Raises:
        ModelError: If it is something else, or below ``least``.
    """
    found = integers(node, name) or [default]
    if len(found) != 1 or found[0] < least:
        wanted = f", at least {least}" if least > -_MOST else ""
        raise node.invalid(f"argument {name} is {found!r:.60} instead of one number{wanted}")
    return found[0]


def flag(node: Node, name: str, default: bool = False) -> bool:
    """Return an argument that is 0 or another integer."""
    return bool(integer(node, name, int(default)))


def word(node: Node, name: str, *words: str) -> str:
    """Return an argument after a check that it is one of ``words``; default: first.

    Raises:
        ModelError: If it is another word.
    """
    stated = node.attr(name, words[0])
    if stated not in words:
        raise node.invalid(f"argument {name} is {stated!r:.60}; use {' or '.join(words)}")
    return str(stated)


def is_channel_last(node: Node) -> bool:
    """Return whether argument order puts channels last: NHWC, for any rank."""
    return word(node, "order", "NCHW", "NHWC") == "NHWC"


def planes(node: Node, g: Operators, x: Value) -> Value:
    """Return a value of the node's storage order with its channels in axis 1."""
    return channel_first(g, x) if is_channel_last(node) else x


def stored(node: Node, g: Operators, x: Value) -> Value:
    """Return a value with its channels in axis 1 in the node's storage order."""
    return channel_last(g, x) if is_channel_last(node) else x


def vectors(node: Node, count: int, **values: Value) -> list[Value]:
    """Return inputs after a check that each has ``count`` numbers.

    Raises:
        ModelError: If one has another shape.
    """
    for what, x in values.items():
        if x.shape != (count,):
            raise node.invalid(f"{what} {x.tensor.name!r} has shape {list(x.shape)} instead of {[count]}")
    return list(values.values())


def wants(node: Node, *outputs: int) -> bool:
    """Return whether any of the stated outputs is used."""
    return any(node.outputs[output] for output in outputs if output < len(node.outputs))
