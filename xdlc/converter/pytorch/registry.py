"""Registry of the handlers of ATen's operators.

A handler gets the node, the canonical operators, and the arguments of the operator by their names in its
schema: tensors as values, lists of them as lists, numbers, texts, data types as ``ir.DType``.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from xdlc import ir
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handler, Handlers
from xdlc.converter.pytorch.calls import ScalarType, schema
from xdlc.converter.pytorch.tensors import dtype_of
from xdlc.converter.session.node import Node, bind_dims
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import AnyValue, SequenceValue, Value
from xdlc.errors import XdlcError

COMPLEX = "complex"
"""Namespace of the forms that operators of ATen have for complex values, which are pairs of real ones."""
HIGHER_ORDER, PYTHON = "higher_order", "_operator"
"""Namespaces of operators that run graphs, and of arithmetic with symbolic dimensions."""
_WITHOUT_MEANING = frozenset(
    "memory_format non_blocking pin_memory layout device generator requires_grad copy".split()  # noqa: SIM905
)
"""Arguments that do not change values."""
_BY_PARTS = frozenset(
    """
    alias cat clone contiguous detach expand flatten flip index_select lift_fresh_copy mean narrow neg permute
    repeat reshape roll select slice squeeze stack sum t transpose unflatten unsqueeze view
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Operators that treat the real and the imaginary parts of all their tensors alike, and each alone."""
_PLAIN: dict[str, Any] = {
    "B": int | Value,
    "F": int | float | Value,
    "I": int | Value,
    "Str": str,
    "T": int | float | complex | Value | SequenceValue,
}
"""Types of arguments by kind; a tensor of one element may be a number."""
_VALUES: dict[str, tuple[str | int, ...]] = {
    "approximate": ("none", "tanh"),
    "index_reduce.reduce": ("prod", "mean", "amax", "amin"),
    "indexing": ("ij", "xy"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "interpolation_mode": (0, 1, 2),
    "linalg_qr.mode": ("reduced", "complete", "r"),
    "mask_type": (0, 1, 2),
    "padding_mode": (0, 1, 2),
    "padding_side": ("left", "right"),
    "reduction": (0, 1, 2),
    "rounding_mode": ("floor", "trunc"),
    "scatter.reduce": ("add", "multiply"),
    "scatter_reduce.reduce": ("sum", "prod", "mean", "amax", "amin"),
    "side": ("left", "right"),
}
"""Values of arguments that have a few, of one operator or of all; torch refuses others, or ignores them."""
_MOST_OPS = 40_000
G = TypeVar("G", bound=Callable[..., Any])


class Slot(int):
    """Position of a tensor among the inputs of its node."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class AtenNode(Node):
    """A call of an operator of ATen.

    Attributes:
        arguments: All arguments by name, tensors as ``Slot``.
        dtypes: Data types that the program states of the results; None where it states none.
        module: Path of the module of the network that makes the call.
        source: File and line that make the call, for the trace; empty for none.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Sequence[ir.DType | None] = ()
    module: str = ""
    source: str = ""

    @property
    def full_type(self) -> str:
        """The operator, its namespace unless ATen's, and the line that calls it."""
        type = f"{self.domain}::{self.type}" if self.domain else self.type
        return f"{type} ({self.source})" if self.source else type

    @property
    def dtype(self) -> ir.DType:
        """Data type of the first result."""
        dtype = self.dtypes[0] if self.dtypes else None
        if dtype is None:
            raise self.problem(
                "the result is complex, or has no stated data type", "rewrite the operator with real numbers"
            )
        return dtype


class AtenHandlers(Handlers):
    """Handlers of ATen's operators: one overload, ``add.Tensor``, or all, ``add``."""

    def __call__(
        self,
        *types: str,
        layout: str = SOURCE,
        ignores: Sequence[str] = (),
        domain: str = "",
        symbolic: Sequence[str] = (),
        names: Mapping[str, str] | None = None,
        takes_complex: bool = False,
    ) -> Callable[[G], G]:
        """Register a function as the handler of operators.

        Args:
            types: Operators, with an overload where the handler is of that one only.
            layout: Layout in which the handler works.
            ignores: Arguments without meaning at inference that the function does not take; any other that
                it does not take must have its default.
            domain: Namespace; default: that of ATen.
            symbolic: Arguments that may hold values where numbers depend on dynamic dimensions.
            names: Parameters of the function, by the names that arguments with the same meaning have here.
            takes_complex: Whether tensors may be complex: sequences of their real and imaginary parts.
        """
        takes_complex = takes_complex or domain == COMPLEX

        def register(function: G) -> G:
            parameters = list(inspect.signature(function).parameters)[2:]
            ignored = _WITHOUT_MEANING.union(ignores).difference(parameters)

            @functools.wraps(function)
            def handle(node: Node, g: Operators) -> Sequence[AnyValue]:
                assert isinstance(node, AtenNode)
                if len(g.builder.graph.ops) > _MOST_OPS:
                    raise node.problem(
                        f"more than {_MOST_OPS} ops precede this op", "convert a part of the network"
                    )
                if not takes_complex and any(isinstance(value, SequenceValue) for value in node.inputs):
                    return self._of_complex(node, g, handle)
                given = (
                    _bound(node, parameters, ignored, frozenset(symbolic), names or {}) if parameters else {}
                )
                results = function(node, g, **given)
                node.read.update(node.attributes)
                return list(_typed(node, g, results))

            super(AtenHandlers, self).__call__(*types, layout=layout, domain=domain)(handle)
            return function

        return register

    def find(self, domain: str, type: str) -> Handler | None:
        """Return the handler of an operator, or None."""
        held = self.all()
        return held.get((domain, type)) or held.get((domain, type.partition(".")[0]))

    def _of_complex(
        self, node: AtenNode, g: Operators, handle: Callable[[Node, Operators], Sequence[AnyValue]]
    ) -> Sequence[AnyValue]:
        """Return the results of a node whose inputs are complex."""
        form = self.find(COMPLEX, node.type)
        if form is not None:
            return cast("Sequence[AnyValue]", form.function(node, g))
        pairs: list[Any] = node.inputs
        is_complex = all(isinstance(value, SequenceValue) for value in pairs)
        if node.type.partition(".")[0] not in _BY_PARTS or not is_complex:
            raise node.problem(
                "the operator computes with complex numbers",
                "compute with the real and imaginary parts instead",
            )
        parts = []
        for index in range(2):
            inputs = [value.elements[index] for value in pairs]
            parts.append(
                handle(replace(node, inputs=inputs, dtypes=[inputs[0].dtype] * len(node.outputs)), g)
            )
        node.read.update(node.attributes)
        return [SequenceValue(cast("tuple[Value, ...]", pair)) for pair in zip(*parts, strict=True)]

    def reason(self, type: str) -> str:
        """Return why an operator has no handler."""
        name = type.partition(".")[0]
        return next((reason for reason, names in _REFUSED.items() if re.fullmatch(names, name)), "")


_REFUSED = {
    "the result is random": "binomial|cauchy|geometric|log_normal|poisson|random|_sample_dirichlet|"
    "_standard_gamma|fractional_max_pool[23]d",
    "sparse tensors are not supported": "(_?indices|_?values|_?coalesced?|c?(col|row)_indices|h?s?spmm|smm)|"
    "sspaddmm|_?to_dense|_nnz|_spdiags|_spsolve",
    "xdlc does not support nested tensors": ".*to_padded_tensor|_pa(ck|d)_.*sequence",
    "the result depends on the memory layout": "is_set_to|_?resize_?.*|set|(sym_)?(storage_offset|stride)|"
    "as_strided_scatter",
    "it is for training only": "batch_norm_(elemt|.*stats)|embedding_renorm|fused_moving_avg_obs_fake_quant|"
    "glu_jvp|_amp_update_scale|_batch_norm_with_update",
    "the weights are packed for another library": "_convert_weight_to_int4pack|_dyn_quant_matmul_4bit|"
    "_mixed_dtypes_linear|_weight_int4pack_mm|_wrapped_.*prepack(ed)?|fbgemm_linear_.*_weight",
    "QNN has no operation for singular values or eigenvalues": "svd|nuclear_norm|"
    "pinverse|_?linalg_(cond|eig|eigh|eigvals|eigvalsh|lstsq|matrix_rank|pinv|svd|svdvals)",
    "QNN has no operation for this special function, which no layer uses": "i0|special_airy_ai|special_zeta|"
    "special_(spherical_|modified_|scaled_modified_)?bessel_.*|special_i[01]e?|igammac?|special_gammaincc?|"
    "special_.*_polynomial_.*",
    "matrix exponentials and tensor equations are not supported": "(linalg_)?matrix_exp|linalg_tensorsolve",
    "xdlc does not support Bunch-Kaufman pivoting": "linalg_ldl_.*",
}
"""Patterns of operators that are known and have no handler, by the reason."""


def _bound(
    node: AtenNode,
    parameters: Sequence[str],
    ignored: frozenset[str],
    symbolic: frozenset[str],
    names: Mapping[str, str],
) -> dict[str, Any]:
    """Return the arguments of a handler.

    Raises:
        ModelError: If one is of another type than its schema states, or contradicts the type of the result.
        UnsupportedOp: If another one is set, or one that must be known depends on dynamic dimensions.
    """
    arguments = schema(node.type) if not node.domain else None
    kinds = {argument.name: argument for argument in arguments or ()}
    bound = {}
    for name, value in node.arguments.items():
        if name == "dtype" and not node.domain and isinstance(value, ScalarType) and any(node.dtypes[:1]):
            dtype = stated_dtype(value)
            if dtype not in (None, node.dtypes[0]):
                raise node.invalid(f"argument dtype is {dtype}, but the result is {node.dtypes[0]}")
        if names.get(name, name) in parameters:
            is_tensor = name not in kinds or kinds[name].kind.startswith("T")
            resolved = _resolved(node, name, value, is_tensor or name in symbolic)
            kind = kinds[name].kind if name in kinds else ""
            is_omitted = resolved is None and kind.endswith("?")
            if not is_omitted and not isinstance(resolved, _PLAIN.get(kind.removesuffix("?"), object)):
                raise node.invalid(f"argument {name} is {str(resolved)[:40]!r}, which has the wrong type")
            values = _VALUES.get(f"{node.type.partition('.')[0]}.{name}") or _VALUES.get(name)
            if values and kinds and not is_omitted and resolved not in values:
                raise node.invalid(f"{name} {str(resolved)[:40]!r} is unknown")
            bound[names.get(name, name)] = resolved
        elif name not in ignored and (name not in kinds or value != kinds[name].default):
            raise node.problem(f"xdlc does not support the argument {name}", "rewrite this part of the model")
    return bound


def _resolved(node: AtenNode, name: str, value: Any, takes_values: bool) -> Any:
    """Return an argument with values in place of tensors, numbers where static."""
    if isinstance(value, list):
        return [_resolved(node, name, item, takes_values) for item in value]
    if isinstance(value, ScalarType):
        return dtype_of(value)
    if not isinstance(value, Slot):
        return value
    resolved = node.required(value)
    if takes_values:
        return resolved
    if not resolved.is_static or resolved.size != 1:
        raise node.problem(
            f"argument {name} depends on dynamic dimensions or on data",
            bind_dims(),
        )
    return resolved.numpy().reshape(-1)[0].item()


def _typed(node: AtenNode, g: Operators, results: Any) -> Iterator[AnyValue]:
    """Iterate over the results of a handler in the data types that the program states."""
    if isinstance(results, SequenceValue):
        results = results.elements
    found = [results] if not isinstance(results, Sequence) else list(results)
    stated = [*node.dtypes, *(None for _ in found[len(node.dtypes) :])]
    for value, dtype in zip(found, stated, strict=False):
        if isinstance(value, Value) and dtype is not None and value.dtype is not dtype:
            yield g.builder.cast(value, dtype)
        else:
            yield value


def stated_dtype(number: int) -> ir.DType | None:
    """Return the data type of a value in a program; None if a DLC cannot store it."""
    try:
        return dtype_of(number)
    except XdlcError:
        return None


aten = AtenHandlers("xdlc.converter.pytorch.ops")
