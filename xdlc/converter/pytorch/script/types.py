"""Number and data types of the results of ATen's operators.

Its rules are those of c10/core/ScalarType.h and aten/src/ATen/native/TypeProperties.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xdlc.converter.pytorch.calls import ScalarType, results
from xdlc.converter.pytorch.script.values import Tensor, tensors
from xdlc.errors import UnsupportedOp

UINT8, INT32, INT64, FLOAT32, BOOL = (ScalarType(number) for number in (0, 3, 4, 6, 11))
FLOATS = (5, 6, 7, 15)
_ORDER = (-1, 11, 0, 1, 2, 3, 4, 15, 5, 6, 7)
"""Data types, each of which holds the values of those before it, but for two pairs (``_joined``)."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TRUTHS = _names(
    """
    eq ne lt le gt ge equal not_equal less less_equal greater greater_equal isnan isinf isfinite isneginf
    isposinf isclose isin isreal signbit logical_and logical_or logical_xor logical_not any all __contains__
    """
)
_INDICES = _names(
    """
    argmax argmin argsort argwhere nonzero nonzero_numpy nonzero_static count_nonzero bucketize searchsorted
    bincount _shape_as_tensor
    """
)
_CASTS = {"Byte": 0, "Char": 1, "Short": 2, "Int": 3, "Long": 4, "Half": 5, "Float": 6, "Double": 7}
"""Data types of ``_cast_Byte`` and the like."""
_WITH_INDICES = _names(
    """
    max min sort topk kthvalue mode median nanmedian cummax cummin max_pool1d_with_indices embedding_bag
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d unique_dim unique_consecutive _unique2
    _unique unique_dim_consecutive _embedding_bag _embedding_bag_forward_only
    """
)
"""Operators that return values and then indices; the results of others all have one type."""
_PROMOTED = _names(
    """
    add sub mul div true_divide divide multiply subtract rsub remainder fmod floor_divide pow float_power
    maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    __and__ __or__ __xor__ __lshift__ __rshift__ atan2 arctan2 hypot where cat concat concatenate stack hstack
    vstack dstack column_stack addcmul addcdiv lerp clamp clip clamp_min clamp_max xlogy copysign heaviside
    logaddexp logaddexp2 gcd lcm nextafter dist block_diag cartesian_prod isclose ldexp row_stack
    _stack _add_relu addr ger outer inner kron igamma igammac cosine_similarity
    smooth_l1_loss mse_loss l1_loss
    """
)
_REAL = _names(
    """
    div true_divide divide sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh
    tanh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh sigmoid erf erfc erfinv reciprocal
    atan2 arctan2 hypot lgamma digamma polygamma i0 sinc logit deg2rad rad2deg xlogy mean std var softmax
    log_softmax logsumexp norm float_power log_sigmoid copysign nanmean std_mean var_mean angle corrcoef cov
    ldexp trapezoid trapz cumulative_trapezoid gradient igamma igammac mvlgamma pairwise_distance
    cosine_similarity cosine_embedding_loss margin_ranking_loss poisson_nll_loss triplet_margin_loss
    fft_hfft fft_hfft2 fft_hfftn fft_irfft fft_irfft2 fft_irfftn
    """
)
_SUMS = _names("sum prod cumsum cumprod nansum trace vander linalg_vander")
_CREATING = _names(
    """
    zeros ones empty full rand randn eye linspace logspace scalar_tensor arange randint randperm tril_indices
    triu_indices
    """
)
_OPTIONS = _names("condition alpha beta dim value rounding_mode rtol atol equal_nan")
"""Arguments that take no part in the promotion."""


def promoted(items: Any) -> ScalarType:
    """Return the type to which tensors of any rank and numbers are promoted."""
    ranked, scalars, numbers = -1, -1, -1
    for item in items:
        if isinstance(item, Tensor) and item.shape:
            ranked = _joined(ranked, item.dtype)
        elif isinstance(item, Tensor) and not item.number:
            scalars = _joined(scalars, item.dtype)
        elif isinstance(item, Tensor):
            numbers = _joined(numbers, FLOAT32 if item.dtype in FLOATS else item.dtype)
        elif isinstance(item, bool | int | float):
            numbers = _joined(numbers, type_of(item))
    return ScalarType(_ranked(ranked, _ranked(scalars, numbers)))


def type_of(number: float) -> ScalarType:
    """Return the data type of a number."""
    return BOOL if isinstance(number, bool) else INT64 if isinstance(number, int) else FLOAT32


def _ranked(higher: int, lower: int) -> int:
    """Return the type of operands of two ranks: the lower counts only by its category."""
    counts = higher in (-1, BOOL) or (higher not in FLOATS and lower in FLOATS)
    return _joined(higher, lower) if counts else higher


def _joined(first: int, second: int) -> int:
    """Return the smallest type that holds the values of two types."""
    unlike = {frozenset((0, 1)): 2, frozenset((5, 15)): 6}
    return unlike.get(frozenset((first, second)), max(first, second, key=_ORDER.index))


def result_types(name: str, arguments: Mapping[str, Any]) -> list[ScalarType]:
    """Return the data types of an ATen overload's results for its arguments."""
    operator = name.partition(".")[0]
    first = _first_type(operator, arguments)
    return [first] + [INT64 if operator in _WITH_INDICES else first] * (len(results(name)) - 1)


def _first_type(operator: str, arguments: Mapping[str, Any]) -> ScalarType:
    operands, stated = tensors(list(arguments.values())), arguments.get("dtype")
    if operands and operator.endswith("_") and not operator.startswith("__"):
        return operands[0].dtype
    if operator in ("any", "all") and operands and operands[0].dtype == UINT8:
        return UINT8
    if operator in _TRUTHS:
        return BOOL
    if operator.startswith("_cast_"):
        return ScalarType(_CASTS[operator.removeprefix("_cast_")])
    if isinstance(stated, int):
        return ScalarType(stated)
    if operator in _INDICES:
        return INT32 if arguments.get("out_int32") else INT64
    if operator in _CREATING:
        return _created(operator, arguments)
    first = operands[0].dtype if operands else FLOAT32
    # All functions of torch.special are of floats and promote, but for rounding.
    is_special = operator.startswith("special_") and operator != "special_round"
    if is_special or operator in _PROMOTED or (operator in ("max", "min") and "other" in arguments):
        values = [value for name, value in arguments.items() if name not in _OPTIONS]
        first = promoted(item for value in values for item in (value if isinstance(value, list) else [value]))
    elif operator in ("type_as", "to") and len(operands) > 1:
        first = operands[1].dtype
    if first in FLOATS:
        return first
    if operator in _SUMS or (operator == "square" and first == BOOL):
        return INT64
    return FLOAT32 if (is_special or operator in _REAL) and not arguments.get("rounding_mode") else first


def _created(operator: str, arguments: Mapping[str, Any]) -> ScalarType:
    """Return the type of a tensor created from numbers."""
    if operator == "arange":
        bounds = [arguments.get(name) for name in ("start", "end", "step")]
        return FLOAT32 if any(isinstance(each, float) for each in bounds) else INT64
    if operator == "full" and isinstance(arguments.get("fill_value"), bool | int | float):
        return type_of(arguments["fill_value"])
    return INT64 if operator in ("randint", "randperm", "tril_indices", "triu_indices") else FLOAT32


def count_of(name: str, arguments: Mapping[str, Any]) -> int:
    """Return how many tensors an operator returns in a list."""
    operator = name.partition(".")[0]
    listed = next((value for value in arguments.values() if isinstance(value, list)), None)
    if listed is not None and (tensors(listed) or "split_size" in arguments or "split_sizes" in arguments):
        return len(listed)
    tensor, dim = tensors(list(arguments.values()))[0], arguments.get("dim", 0)
    size = tensor.shape[dim] if tensor.shape else 1
    if operator == "unbind":
        return size
    part = arguments.get("split_size")
    if operator in ("chunk", "unsafe_chunk"):
        part = math.ceil(size / arguments["chunks"])
    if not isinstance(part, int):
        raise UnsupportedOp(f"{name} is not supported in TorchScript", fix="use split or chunk")
    return max(1, math.ceil(size / max(part, 1)))
