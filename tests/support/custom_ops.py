"""Definitions of users' operations, and ONNX models that have such operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.single_ops import op_graph
from xdlc.converter.onnx import FRONTEND
from xdlc.ir import DType, Model, Op, Tensor, f32
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import is_udo
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Udo, UdoSet

FLOATS = (FLOAT32,)
DOMAIN = "my.domain"


def place(name: str, dtypes: Sequence[DType] = FLOATS, *, mandatory: bool = True, **more: Any) -> TensorDef:
    """Return an input or output of a definition."""
    return TensorDef(name, mandatory, tuple(dtypes), more.pop("rank", None), **more)


def param(name: str, *dtypes: DType, mandatory: bool = True, rank: int | None = 0, **more: Any) -> ParamDef:
    """Return a parameter of a definition."""
    return ParamDef(name, mandatory and "default" not in more, dtypes, rank, **more)


def custom(
    name: str,
    inputs: Sequence[TensorDef],
    outputs: Sequence[TensorDef],
    *params: ParamDef,
    package: str = "Pkg",
    native: bool = False,
    **more: Any,
) -> Udo:
    """Return an op of a user's package."""
    definition = OpDef(
        name,
        package,
        tuple(inputs),
        tuple(outputs),
        {entry.name: entry for entry in params},
        use_default_translation=native,
    )
    return Udo(definition, **more)


SCALE = custom("Scale", [place("x")], [place("y")], param("factor", FLOAT32)).definition


def scale_graph() -> Model:
    """Return a model of one op, ``Scale`` of ``Pkg``; it holds no definition."""
    x = Tensor("x", (2,), FLOAT32)
    y = Tensor("y", (2,), FLOAT32)
    graph = op_graph("Scale", [x], [y], {"factor": f32(2)}, name="s", package="Pkg", graph_name="main")
    made = Model()
    made.add_graph(graph)
    return made


def like_first(op: OpView) -> list[TensorSpec]:
    """Give one output like the first input: a shape function."""
    first = op.inputs[0]
    assert first is not None
    return [TensorSpec(first.shape, first.dtype)]


def onnx_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Any, Sequence[Any]]],
    outputs: Mapping[str, tuple[Any, Sequence[Any]] | None],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    infos: Mapping[str, tuple[Any, Sequence[Any]]] | None = None,
    functions: Sequence[Any] = (),
    imports: Sequence[tuple[str, int]] = (("", 17),),
) -> Any:
    """Return a model whose values are declared as (numpy type, dims) or not."""

    def info(name: str, dtype_and_shape: tuple[Any, Sequence[Any]] | None) -> Any:
        if dtype_and_shape is None:
            return onnx.ValueInfoProto(name=name)
        element = (
            TensorProto.STRING
            if dtype_and_shape[0] is str
            else helper.np_dtype_to_tensor_dtype(np.dtype(dtype_and_shape[0]))
        )
        return helper.make_tensor_value_info(name, element, dtype_and_shape[1])

    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info(*item) for item in inputs.items()],
        [info(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
        value_info=[info(*item) for item in (infos or {}).items()],
    )
    opsets = [helper.make_opsetid(*entry) for entry in imports]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def my_node(type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """Return a node of the domain of these tests."""
    return helper.make_node(type, list(inputs), list(outputs), name=f"n_{type}", domain=DOMAIN, **attributes)


def converted(folder: Path, model: Any, *ops: Udo, **options: Any) -> Model:
    """Convert a model with definitions."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    shapes = options.pop("shapes", {})
    return FRONTEND.convert(path, udos=UdoSet(ops, {}, shapes), **options)


def custom_op(model: Model) -> Op:
    """Return the only custom op of a model."""
    (op,) = [op for graph in model.graphs.values() for op in graph.ops if is_udo(op)]
    return op
