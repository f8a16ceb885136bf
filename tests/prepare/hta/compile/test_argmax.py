import pytest

from tests.hta_ops import activation, check_equal, one_op
from xdlc.errors import ConstraintError
from xdlc.ir import Graph, ScaleOffset, Tensor, b8, make_op, u32
from xdlc.ir.dtype import BY_NAME
from xdlc.prepare.hta.compile import compile_section

SHAPE = (1, 4, 5, 300)  # so many that the largest occurs more than once


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ["int32", "uint32"])
@pytest.mark.parametrize(("axis", "keep"), [(3, False), (3, True), (1, False)])
def test_positions(bits, kind, axis, keep):
    shape = [extent for at, extent in enumerate(SHAPE) if at != axis]
    if keep:
        shape.insert(axis, 1)
    target = Tensor("y", tuple(shape), BY_NAME[kind])
    source = activation("x", SHAPE, ScaleOffset(0.02, -100), bits)
    check_equal(one_op("Argmax", [source], target, {"axis": u32(axis), "keep_dims": b8(keep)}))


def cast_positions(kind):
    graph = Graph("g")
    source = graph.add_input(activation("x", SHAPE, ScaleOffset(0.02, -100)))
    positions = Tensor("p", SHAPE[:-1], BY_NAME["int32"])
    target = Tensor("y", SHAPE[:-1], BY_NAME[kind])
    graph.append(make_op(graph, "Argmax", [source], [positions], {"axis": u32(3)}, name="argmax"))
    graph.append(make_op(graph, "Cast", [positions], [target], name="cast"))
    graph.add_output(target)
    return graph


def test_positions_as_float32():
    check_equal(cast_positions("float32"))


def test_casts_of_quantized_numbers_are_refused():
    source = activation("x", (2, 3), ScaleOffset(0.02, -100))
    with pytest.raises(ConstraintError, match="casts ufixed8 to float32"):
        compile_section(one_op("Cast", [source], Tensor("y", (2, 3), BY_NAME["float32"])))
