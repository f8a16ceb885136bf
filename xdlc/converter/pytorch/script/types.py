"""Number and data types of the results of ATen's operators, by PyTorch's promotion.

Its rules are those of c10/core/ScalarType.h and aten/src/ATen/native/TypeProperties.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xdlc.converter.pytorch.calls import ScalarType
from xdlc.converter.pytorch.schemas import results
from xdlc.converter.pytorch.script.values import Tensor, tensors

INT32, INT64, FLOAT32, BOOL = ScalarType(3), ScalarType(4), ScalarType(6), ScalarType(11)
FLOATS = (5, 6, 7, 15)
_HALVES = {5, 15}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TRUTHS = _names(
    """
    eq ne lt le gt ge equal not_equal less less_equal greater greater_equal isnan isinf isfinite isneginf
    isposinf isreal isclose isin signbit logical_and logical_or logical_xor logical_not any all __contains__
    """
)
_INDICES = _names(
    "argmax argmin argsort nonzero count_nonzero bucketize searchsorted bincount nonzero_static"
)
_PROMOTED = _names(
    """
    add sub mul div true_divide divide multiply subtract rsub remainder fmod floor_divide pow float_power
    maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    __and__ __or__ __xor__ __lshift__ __rshift__ atan2 arctan2 hypot where cat concat concatenate stack hstack
    vstack dstack column_stack addcmul addcdiv lerp clamp clip clamp_min clamp_max xlogy copysign heaviside
    logaddexp logaddexp2 gcd lcm nextafter dist block_diag cartesian_prod isclose special_xlog1py ldexp
    """
)
_REAL = _names(
    """
    div true_divide divide sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh
    tanh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh sigmoid erf erfc erfinv reciprocal
    atan2 arctan2 hypot lgamma digamma polygamma i0 sinc logit deg2rad rad2deg xlogy mean std var softmax
    log_softmax logsumexp norm float_power special_expit log_sigmoid copysign nanmean std_mean var_mean
    """
)
_SUMS = _names("sum prod cumsum cumprod nansum")
_CREATING = _names(
    """
    zeros ones empty full rand randn eye linspace logspace scalar_tensor arange randint randperm tril_indices
    triu_indices
    """
)


def promoted(items: Any) -> ScalarType:
    """Return the type to which tensors and numbers are promoted.

    Args:
        items: Tensors of any rank, and numbers.
    """
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
    if higher in FLOATS:
        return higher
    if higher in (-1, BOOL) or lower in FLOATS:
        return _joined(higher, lower)
    return higher


def _joined(first: int, second: int) -> int:
    """Return the smallest type that holds the values of two."""
    if first == second or min(first, second) < 0:
        return max(first, second)
    if first == BOOL or second == BOOL:
        return first if second == BOOL else second
    floats = [each for each in (first, second) if each in FLOATS]
    if len(floats) == 1:
        return floats[0]
    if floats:
        return int(FLOAT32) if set(floats) == _HALVES else max(each for each in floats if each != 15)
    return 2 if {first, second} == {0, 1} else max(first, second)


def result_types(name: str, arguments: Mapping[str, Any]) -> list[ScalarType]:
    """Return the data types of the results of an operator of ATen.

    Args:
        name: Operator and overload.
        arguments: Its arguments, by name.
    """
    given = list(tensors(list(arguments.values())))
    stated = arguments.get("dtype")
    operator = name.partition(".")[0]
    plain = operator.removesuffix("_") if not operator.startswith("__") else operator
    if plain != operator and given:
        first = given[0].dtype
    elif operator in _TRUTHS:
        first = BOOL
    elif isinstance(stated, int):
        first = ScalarType(stated)
    elif operator in _INDICES:
        first = INT32 if arguments.get("out_int32") else INT64
    elif operator in _CREATING:
        first = _created(operator, arguments)
    elif operator in _PROMOTED:
        first = promoted(_operands(arguments))
    elif operator in ("type_as", "to") and len(given) > 1:
        first = given[1].dtype
    else:
        first = given[0].dtype if given else FLOAT32
    is_integer = first not in FLOATS
    if operator in _SUMS and is_integer and stated is None:
        first = INT64
    elif operator in _REAL and is_integer and not arguments.get("rounding_mode") and stated is None:
        first = FLOAT32
    second = first if operator in _SAME else INT64
    return [first] + [second] * (len(results(name)) - 1)


_SAME = _names(
    """
    lstm gru rnn_tanh rnn_relu lstm_cell aminmax _aminmax var_mean std_mean native_layer_norm
    native_group_norm native_batch_norm batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training frexp slogdet
    linalg_slogdet qr linalg_qr svd linalg_svd linalg_eigh multi_head_attention_forward histogram
    _native_multi_head_attention lu triangular_solve geqrf
    """
)
"""Operators whose results all have one type; those of others have a value first, then indices."""


def _operands(arguments: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that take part in the promotion."""
    found: list[Any] = []
    for name, value in arguments.items():
        if isinstance(value, list | tuple):
            found += value
        elif name not in ("condition", "alpha", "dim", "value", "rounding_mode", "rtol", "atol", "equal_nan"):
            found.append(value)
    return found


def _created(operator: str, arguments: Mapping[str, Any]) -> ScalarType:
    """Return the type of a tensor that is made from numbers."""
    if operator == "arange":
        bounds = [arguments.get(name) for name in ("start", "end", "step")]
        return FLOAT32 if any(isinstance(each, float) for each in bounds) else INT64
    if operator == "full" and isinstance(arguments.get("fill_value"), bool | int | float):
        return type_of(arguments["fill_value"])
    return INT64 if operator in ("randint", "randperm", "tril_indices", "triu_indices") else FLOAT32


def count_of(name: str, arguments: Mapping[str, Any]) -> int:
    """Return how many tensors an operator returns in a list."""
    listed = next((value for value in arguments.values() if isinstance(value, list)), None)
    if any(isinstance(each, Tensor) for each in listed or ()):
        return len(listed or ())
    tensor, dim = tensors(list(arguments.values()))[0], arguments.get("dim", 0)
    operator = name.partition(".")[0]
    dim = {"hsplit": 1 if len(tensor.shape) > 1 else 0, "vsplit": 0, "dsplit": 2}.get(operator, dim)
    size = tensor.shape[dim] if tensor.shape else 1
    parts = arguments.get("chunks", arguments.get("sections"))
    if operator in ("unbind", "unbind_copy"):
        return size
    if listed is not None:
        return len(listed) + (0 if "split_size" in arguments or "split_sizes" in arguments else 1)
    if operator in ("chunk", "unsafe_chunk") and isinstance(parts, int):
        return max(1, math.ceil(size / max(math.ceil(size / parts), 1)))
    if isinstance(parts, int):
        return parts
    return int(max(1, math.ceil(size / arguments["split_size"])))
