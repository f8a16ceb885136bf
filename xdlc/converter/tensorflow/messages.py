"""TensorFlow's protobuf messages that an importer needs, without TensorFlow.

Source of names and field numbers: graph.proto, node_def.proto, attr_value.proto, tensor.proto, types.proto,
function.proto, op_def.proto, meta_graph.proto, saved_model.proto, saved_object_graph.proto,
trackable_object_graph.proto, tensor_bundle.proto of TensorFlow, whose numbers have not changed since 1.0.
Unknown fields are skipped.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from xdlc.converter.protobuf_fields import Layout

_PACKAGE = "xdlc.tensorflow"
_TABLE = """
Dim: 1 size int64; 2 name bytes
Shape: 2 dim *Dim; 3 unknown_rank bool
Tensor: 1 dtype Type; 2 tensor_shape Shape; 4 tensor_content bytes; 5 float_val *float; 6 double_val *double;
  7 int_val *int32; 8 string_val *bytes; 9 scomplex_val *float; 10 int64_val *int64; 11 bool_val *bool;
  12 dcomplex_val *double; 13 half_val *int32; 16 uint32_val *uint32; 17 uint64_val *uint64
List: 2 s *bytes; 3 i *int64; 4 f *float; 5 b *bool; 6 type *Type; 7 shape *Shape; 8 tensor *Tensor;
  9 func *Function
Attribute: 1 key bytes; 2 value Value
Function: 1 name bytes; 2 attr *Attribute
Value: 1 list/kind List; 2 s/kind bytes; 3 i/kind int64; 4 f/kind float; 5 b/kind bool; 6 type/kind Type;
  7 shape/kind Shape; 8 tensor/kind Tensor; 9 placeholder/kind bytes; 10 func/kind Function
NodeDef: 1 name bytes; 2 op bytes; 3 input *bytes; 5 attr *Attribute
ArgDef: 1 name bytes; 3 type Type; 4 type_attr bytes; 5 number_attr bytes; 6 type_list_attr bytes
OpDef: 1 name bytes; 2 input_arg *ArgDef; 3 output_arg *ArgDef
Text: 1 key bytes; 2 value bytes
FunctionDef: 1 signature OpDef; 3 node_def *NodeDef; 4 ret *Text
Library: 1 function *FunctionDef
Versions: 1 producer int32
GraphDef: 1 node *NodeDef; 2 library Library; 4 versions Versions
TensorInfo: 1 name bytes; 2 dtype Type; 3 tensor_shape Shape
InfoEntry: 1 key bytes; 2 value TensorInfo
Signature: 1 inputs *InfoEntry; 2 outputs *InfoEntry; 3 method_name bytes
SignatureEntry: 1 key bytes; 2 value Signature
OpList: 1 op *OpDef
MetaInfo: 2 stripped_op_list OpList; 4 tags *bytes; 5 tensorflow_version bytes
Saver: 1 filename_tensor_name bytes; 3 restore_op_name bytes
SavedVariable: 1 dtype Type; 2 shape Shape; 6 name bytes
SavedConstant: 1 operation bytes
SavedObject: 7 variable SavedVariable; 9 constant SavedConstant
SavedFunction: 2 bound_inputs *int32
FunctionEntry: 1 key bytes; 2 value SavedFunction
SavedObjects: 1 nodes *SavedObject; 2 concrete_functions *FunctionEntry
MetaGraphDef: 1 meta_info_def MetaInfo; 2 graph_def GraphDef; 3 saver_def Saver;
  5 signature_def *SignatureEntry; 7 object_graph_def SavedObjects
SavedModel: 1 saved_model_schema_version int64; 2 meta_graphs *MetaGraphDef
TrackedAttribute: 1 name bytes; 2 full_name bytes; 3 checkpoint_key bytes
TrackedObject: 2 attributes *TrackedAttribute
TrackedObjects: 1 nodes *TrackedObject
SliceSize: 1 start int64; 2 length/has_length int64
Slice: 1 sizes *SliceSize
BundleHeader: 1 num_shards int32; 2 endianness int32
BundleEntry: 1 dtype Type; 2 shape Shape; 3 shard_id int32; 4 offset int64; 5 size int64; 6 crc32c fixed32;
  7 slices *Slice
"""
"""Messages: ``NUMBER NAME[/ONEOF] TYPE``, ``*`` for a repeated field; maps are their entries."""

TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    15: "qint16",
    16: "quint16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    29: "int4",
    30: "uint4",
}
"""Names of data types by their number in types.proto; that of a reference is 100 higher."""
_TEXT_NAMES = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}

LAYOUT = Layout(
    "a TensorFlow file",
    "graph",
    {
        "saved_model": {2: "meta_graph"},
        "meta_graph": {2: "graph"},
        "graph": {1: "node", 2: "library"},
        "library": {1: "function"},
        "function": {3: "node"},
        "node": {5: "attribute"},
        "attribute": {2: "value"},
        "value": {1: "list", 8: "tensor"},
        "list": {8: "tensor"},
    },
    {"tensor": 4},
)
"""Fields on the way to ``tensor_content``."""


def dtype_name(number: int) -> str:
    """Return the name of a data type, also of its reference; ``invalid`` if unknown."""
    return TYPES.get(number - 100 if number > 100 else number, "invalid")


def message(kind: str, data: bytes = b"") -> Any:
    """Return a message of a kind of the table, parsed from data.

    Raises:
        ValueError: If the data are another message.
    """
    from google.protobuf.message import DecodeError

    parsed = _classes()[kind]()
    try:
        parsed.ParseFromString(data)
    except DecodeError as error:
        raise ValueError("protobuf cannot parse it") from error
    return parsed


@cache
def _classes() -> dict[str, Any]:
    """Return the message classes, in a separate pool because TensorFlow may be loaded."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="xdlc_tensorflow.proto", package=_PACKAGE, syntax="proto3")
    types = file.enum_type.add(name="Type")
    types.value.add(name="DT_INVALID", number=0)
    for number, name in TYPES.items():
        text = f"DT_{_TEXT_NAMES.get(name, name.upper())}"
        types.value.add(name=text, number=number)
        types.value.add(name=f"{text}_REF", number=number + 100)
    kinds = [line.split(":", 1) for line in _TABLE.strip().replace("\n  ", " ").splitlines()]
    for kind, fields in kinds:
        _add_message(file, kind, fields, {other for other, _ in kinds})
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        kind: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{kind}"))
        for kind, _ in kinds
    }


def _add_message(file: Any, kind: str, fields: str, kinds: set[str]) -> None:
    """Add the descriptor of a message to that of the file."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    described = file.message_type.add(name=kind)
    for text in fields.split(";"):
        number, name, type = text.split()
        name, _, choice = name.partition("/")
        field = described.field.add(name=name, number=int(number))
        field.label = Field.LABEL_REPEATED if type.startswith("*") else Field.LABEL_OPTIONAL
        type = type.lstrip("*")
        if type in kinds or type == "Type":
            field.type = Field.TYPE_ENUM if type == "Type" else Field.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{type}"
        else:
            field.type = getattr(Field, f"TYPE_{type.upper()}")
        if choice:
            names = [each.name for each in described.oneof_decl]
            if choice not in names:
                described.oneof_decl.add(name=choice)
                names.append(choice)
            field.oneof_index = names.index(choice)
