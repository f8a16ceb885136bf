import pytest

from xdlc.container.opnames import FAMILIES, NARROW, OPERATIONS, from_qnn, to_qnn
from xdlc.ir import b8, f32, u32

NATIVE = "qti.aisw"


@pytest.mark.parametrize(
    "type", [*(name for _, names in FAMILIES.values() for name in names), "Conv2d", "MatMul"]
)
def test_operations_go_there_and_back(type):
    written, params, supplements = from_qnn(type, NATIVE, {"p": u32(1)})
    assert to_qnn(written, NATIVE, params, supplements) == (type, {"p": u32(1)})


@pytest.mark.parametrize(
    ("type", "operations", "written"),
    [
        ("ElementWiseNeuron", (0, 1, 4, 5, 6, 8), "Neuron"),
        ("ElementWiseNeuron", (2, 3, 7), "ElementWiseNeuron"),
        ("ElementWiseUnary", range(16), "Eltwise_Unary"),
        ("ElementWiseBinary", range(20), "Eltwise_Binary"),
    ],
)
def test_wide_operations_go_there_and_back(type, operations, written):
    for operation in operations:
        given = {"operation": u32(operation)}
        found, params, supplements = from_qnn(type, NATIVE, given)
        assert found == written
        assert to_qnn(found, NATIVE, params, supplements) == (type, given)


def test_older_names_become_their_family():
    assert to_qnn("Relu", NATIVE, {}, {}) == ("ElementWiseNeuron", {"operation": u32(4)})
    assert to_qnn("Elu", NATIVE, {"alpha": f32(1)}, {}) == (
        "ElementWiseNeuron",
        {"alpha": f32(1), "operation": u32(0)},
    )
    assert to_qnn("HardSwish", NATIVE, {}, {})[1] == {"operation": u32(3)}
    assert NARROW["ElementWiseSquareRoot"] == ("ElementWiseUnary", 15)
    assert NARROW["ElementWiseXor"] == ("ElementWiseBinary", 19)


def test_string_names_the_operation_where_no_parameter_does():
    assert [len(numbers) for numbers in OPERATIONS.values()] == [16, 20]
    supplements = {"eltwise_type": "ElementWiseMultiply"}
    assert to_qnn("Eltwise_Binary", NATIVE, {}, supplements) == ("ElementWiseBinary", {"operation": u32(13)})
    with pytest.raises(ValueError, match="eltwise_type"):
        to_qnn("Eltwise_Binary", NATIVE, {}, {})


@pytest.mark.parametrize(
    ("mode", "transformation", "type", "derived"),
    [
        (0, 0, "ResizeNearestNeighbor", {"align_corners": b8(False), "half_pixel_centers": b8(True)}),
        (0, 2, "ResizeNearestNeighbor", {"align_corners": b8(True), "half_pixel_centers": b8(False)}),
        (
            1,
            3,
            "ResizeBilinear",
            {"align_corners": b8(False), "antialias": b8(False), "half_pixel_centers": b8(False)},
        ),
        (2, 0, "Resize", {}),
    ],
)
def test_resize_is_read_as_the_narrower_operation_and_written_back(mode, transformation, type, derived):
    given = {"interpolation_mode": u32(mode), "transformation_mode": u32(transformation)}
    assert to_qnn("Resize", NATIVE, given, {}) == (type, given | derived)
    assert from_qnn(type, NATIVE, given | derived) == ("Resize", given, {})


def test_narrow_resize_is_written_as_itself():
    given = {"align_corners": b8(True)}
    assert from_qnn("ResizeBilinear", NATIVE, given) == ("ResizeBilinear", given, {})


def test_other_packages_are_left_alone():
    assert to_qnn("Relu", "mine", {}, {}) == ("Relu", {})
    assert from_qnn("PoolAvg2d", "mine", {}) == ("PoolAvg2d", {}, {})
