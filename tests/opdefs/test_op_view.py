"""Custom ops as shape functions and kernels see them."""

from tests.support.custom_ops import custom, param, place
from xdlc import ir
from xdlc.ir import Graph, Tensor, make_op
from xdlc.ir.dtype import FLOAT32, INT32, UINT32
from xdlc.opdefs.op_view import view_of


def test_a_view_has_plain_values_and_the_names_of_the_places() -> None:
    definition = custom(
        "Op",
        [place("a"), place("b", mandatory=False), place("rest", layout="NHWC", repeated=True)],
        [place("y")],
        param("mode", UINT32, enumeration=("A", "B")),
        param("axes", INT32, rank=1),
    ).definition
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 3), FLOAT32, dynamic_axes=(0,)))
    y = Tensor("y", (3,), FLOAT32)
    axes = ir.static("", [1, 2])
    op = make_op(graph, "Op", [x, None, x, x], [y], {"mode": ir.u32(1), "axes": axes}, package="Pkg")
    view = view_of(op, definition)
    assert [spec and (spec.name, spec.shape, spec.layout) for spec in view.inputs] == [
        ("a", (None, 3), ""),
        None,
        ("rest", (None, 3), "NHWC"),
        ("rest", (None, 3), "NHWC"),
    ]
    assert [spec and spec.name for spec in view.outputs] == ["y"]
    assert view.params["mode"] == "B"
    assert list(view.params["axes"]) == [1, 2]
