"""Names of operations in a DLC and in QNN.

The vendor's writer folds some QNN operations into wider types, distinguished by a supplemental string; its
reader unfolds them.  Both directions are reproduced here, so that the IR has the operations that the
vendor's reader passes to a backend.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdlc.ir import NATIVE_PACKAGE, Param, Scalar, b8, u32
from xdlc.opdefs.elementwise_enums import BINARY, HARD_SIGMOID, NEURON, SOFTPLUS, UNARY

# Type in the file -> (supplemental string that names the QNN operation, the operations it may name).
FAMILIES = {
    "Pool": ("pool_type", ("PoolAvg2d", "PoolMax2d", "L2Pool2d")),
    "Pool3d": ("pool_type", ("PoolAvg3d", "PoolMax3d")),
    "Reduce": ("reduce_type", ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")),
    "Arg": ("arg_type", ("Argmax", "Argmin")),
    "Eltwise_Ternary": ("eltwise_type", ("ElementWiseSelect",)),
}
FOLDED = {qnn: (family, key) for family, (key, names) in FAMILIES.items() for qnn in names}

# Types whose operation is a u32 parameter on both sides.
RENAMED = {
    "Neuron": "ElementWiseNeuron",
    "Eltwise_Unary": "ElementWiseUnary",
    "Eltwise_Binary": "ElementWiseBinary",
}
WIDENED = {"ElementWiseUnary": "Eltwise_Unary", "ElementWiseBinary": "Eltwise_Binary"}
# The operations of ElementWiseNeuron that the vendor's writer turns into a Neuron; written as a Neuron,
# HardSwish would be read back as HardSigmoid.
NEURON_OPERATIONS = frozenset((0, 1, 4, 5, 6, 8))

# Format 4.0 names the operation in a supplemental string instead, like ElementWiseAdd.
OPERATIONS = {
    "Eltwise_Unary": {f"ElementWise{name}": number for number, name in enumerate(UNARY)},
    "Eltwise_Binary": {f"ElementWise{name}": number for number, name in enumerate(BINARY)},
}
# QNN's older names for one operation of a wider type, which the vendor's reader replaces by that type.
NARROW = {
    name: ("ElementWiseNeuron", number)
    for number, name in enumerate(NEURON)
    if number not in (HARD_SIGMOID, SOFTPLUS)
}
for _family, _numbers in OPERATIONS.items():
    NARROW.update((name, (RENAMED[_family], number)) for name, number in _numbers.items())
INTERPOLATIONS = {0: "ResizeNearestNeighbor", 1: "ResizeBilinear"}
HALF_PIXEL, ALIGN_CORNERS = 0, 2
RESIZE_DERIVED = ("align_corners", "antialias", "half_pixel_centers")


def to_qnn(
    type: str, package: str, params: Mapping[str, Param], supplements: Mapping[str, str]
) -> tuple[str, dict[str, Param]]:
    """Return the QNN type and the parameters of a node.

    Args:
        package: Op package; only the vendor's own has folded types.
        supplements: Its supplemental strings.

    Raises:
        ValueError: If the supplemental string that a folded type needs is missing or unknown.
    """
    qnn_params = dict(params)
    if package != NATIVE_PACKAGE:
        return type, qnn_params
    if type in FAMILIES:
        key, names = FAMILIES[type]
        name = supplements.get(key)
        if name not in names:
            raise ValueError(f"needs the string {key!r} to be one of {', '.join(names)}, found {name!r}")
        return name, qnn_params
    if type in OPERATIONS and "operation" not in qnn_params:
        name = supplements.get("eltwise_type")
        if name not in OPERATIONS[type]:
            raise ValueError(f"needs a parameter 'operation', or a known 'eltwise_type' instead of {name!r}")
        qnn_params["operation"] = u32(OPERATIONS[type][name])
    if type in NARROW:
        type, number = NARROW[type]
        qnn_params["operation"] = u32(number)
        return type, qnn_params
    if type == "Resize":
        return _resize(qnn_params)
    return RENAMED.get(type, type), qnn_params


def _resize(params: dict[str, Param]) -> tuple[str, dict[str, Param]]:
    """Return the specific operation of a Resize; keep its parameters."""
    interpolation, transformation = params.get("interpolation_mode"), params.get("transformation_mode")
    if not isinstance(interpolation, Scalar) or not isinstance(transformation, Scalar):
        raise ValueError("needs the scalar parameters 'interpolation_mode' and 'transformation_mode'")
    if interpolation.value not in INTERPOLATIONS:
        return "Resize", params
    type = INTERPOLATIONS[int(interpolation.value)]
    narrow_params = dict(params)
    narrow_params["align_corners"] = b8(transformation.value == ALIGN_CORNERS)
    narrow_params["half_pixel_centers"] = b8(transformation.value == HALF_PIXEL)
    if type == "ResizeBilinear":
        narrow_params["antialias"] = b8(False)
    return type, dict(sorted(narrow_params.items()))


def from_qnn(
    type: str, package: str, params: Mapping[str, Param]
) -> tuple[str, dict[str, Param], dict[str, str]]:
    """Return type in the file, parameters and supplements of a QNN operation."""
    kept = dict(params)
    if package != NATIVE_PACKAGE:
        return type, kept, {}
    if type in FOLDED:
        family, key = FOLDED[type]
        return family, kept, {key: type}
    if type == "ElementWiseNeuron":
        operation = params.get("operation")
        folds = isinstance(operation, Scalar) and operation.value in NEURON_OPERATIONS
        return ("Neuron" if folds else type), kept, {}
    if type in INTERPOLATIONS.values() and kept.keys() >= {"interpolation_mode", "transformation_mode"}:
        # It was read from a Resize: written as one again, it keeps its meaning.
        for name in RESIZE_DERIVED:
            kept.pop(name, None)
        return "Resize", kept, {}
    return WIDENED.get(type, type), kept, {}
