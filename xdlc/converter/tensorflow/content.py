"""Content of a file's graph: nodes, functions, outputs, and dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xdlc import ir
from xdlc.converter.protobuf_fields import Blobs
from xdlc.converter.tensorflow.nodes import Port, attribute_messages, data_inputs, port, text
from xdlc.converter.tensorflow.tensors import tensor_data
from xdlc.errors import ModelError

_SEVERAL = """
Batch batched_tensors* batch_index id
BlockLSTM i cs f o ci co h
BlockLSTMV2 i cs f o ci co h
CTCBeamSearchDecoder decoded_indices* decoded_values* decoded_shape* log_probability
CTCGreedyDecoder decoded_indices decoded_values decoded_shape log_probability
Case output*
CombinedNonMaxSuppression nmsed_boxes nmsed_scores nmsed_classes valid_detections
CudnnRNN output output_h output_c reserve_space
CudnnRNNV2 output output_h output_c reserve_space host_reserved
CudnnRNNV3 output output_h output_c reserve_space host_reserved
DynamicPartition outputs*
FractionalAvgPool output row_pooling_sequence col_pooling_sequence
FractionalMaxPool output row_pooling_sequence col_pooling_sequence
FusedBatchNorm y batch_mean batch_variance reserve_space_1 reserve_space_2
FusedBatchNormV2 y batch_mean batch_variance reserve_space_1 reserve_space_2
FusedBatchNormV3 y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3
GRUBlockCell r u c h
IdentityN output*
IteratorGetNext components*
If output*
LSTMBlockCell i cs f o ci co h
ListDiff out idx
MaxPoolWithArgmax output argmax
Merge output value_index
NonMaxSuppressionV4 selected_indices valid_outputs
NonMaxSuppressionV5 selected_indices selected_scores valid_outputs
ParseExample sparse_indices* sparse_values* sparse_shapes* dense_values*
ParseExampleV2 sparse_indices* sparse_values* sparse_shapes* dense_values* ragged_values* ragged_row_splits*
PartitionedCall output*
QueueDequeueManyV2 components*
QueueDequeueV2 components*
Qr q r
QuantizeV2 output output_min output_max
QuantizeDownAndShrinkRange output output_min output_max
QuantizedConv2D output min_output max_output
QuantizedMatMul out min_out max_out
Requantize output output_min output_max
RestoreV2 tensors*
SampleDistortedBoundingBoxV2 begin size bboxes
SelfAdjointEigV2 e v
RefMerge output value_index
RefSwitch output_false output_true
ShapeN output*
Split output*
SplitV output*
StatefulPartitionedCall output*
StatelessCase output*
StatelessIf output*
StatelessWhile output*
Svd s u v
Switch output_false output_true
TensorArrayV3 handle flow
TensorArrayConcatV3 value lengths
TensorListConcat tensor lengths
TensorListConcatV2 tensor lengths
TensorListPopBack output_handle tensor
TopK values indices
TopKV2 values indices
Unique y idx
UniqueV2 y idx
UniqueWithCounts y idx count
UniqueWithCountsV2 y idx count
Unpack output*
While output*
_FusedBatchNormEx y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3
"""
"""Names of the outputs of operators with several; ``*``: as many tensors as an attribute states."""
_OUTPUTS = {op: names for op, *names in map(str.split, _SEVERAL.strip().splitlines())}
_NUMBERS = ("num_split", "num", "N", "num_partitions", "top_paths", "num_batch")
_TYPES = ("Tout", "T", "dtypes", "output_types", "component_types", "Tdense", "sparse_types")


def output_names(op: str, definitions: Mapping[str, Any]) -> list[str] | None:
    """Return an operator's output names, ``*`` after a list's; None for just one.

    Args:
        definitions: ``OpDef`` by operator of those that the file defines.
    """
    if op in _OUTPUTS or op not in definitions:
        return _OUTPUTS.get(op)
    found = [
        text(each.name) + "*" * bool(each.number_attr or each.type_list_attr)
        for each in definitions[op].output_arg
    ]
    return found if len(found) > 1 or found[:1] == ["*"] or any(n.endswith("*") for n in found) else None


def output_index(names: list[str] | None, name: str, index: int) -> int | None:
    """Return the number of the output that ``node:name:index`` names, or None.

    After a list, of unknown length, only the positions of the same list are known.
    """
    if names is None:
        return index
    for place, each in enumerate(names):
        if each.rstrip("*") == name:
            return place + index
        if each.endswith("*"):
            return None
    return None


def output_count(op: str, names: list[str] | None, attributes: Mapping[str, Any]) -> int:
    """Return the number of outputs of a node, as operator and attributes state it.

    Args:
        attributes: ``AttrValue`` by name.
    """
    if names is None:
        return 1
    if not names[0].endswith("*"):
        return len([name for name in names if not name.endswith("*")])
    for name in _NUMBERS:
        if name in attributes and attributes[name].WhichOneof("kind") == "i":
            return int(max(0, min(attributes[name].i, 1 << 16)))
    for name in _TYPES:
        if name in attributes and attributes[name].WhichOneof("kind") == "list":
            return len(attributes[name].list.type)
    return 1


DEPTH = 64
"""Functions, conditionals and loops that may be inside each other at most."""


def broken(problem: str, where: str) -> ModelError:
    """Return the error of a graph that contradicts itself."""
    return ModelError(problem, where=where, fix="export or freeze the graph again")


class Content(NamedTuple):
    """Content of a graph in a file.

    Attributes:
        functions: ``FunctionDef`` by name.
        definitions: ``OpDef`` by operator of those that the file defines.
        file: The file; None for text.
        blobs: Ranges that were cut out of it.
        path: Its path, for errors.
    """

    nodes: Mapping[str, Any]
    functions: Mapping[str, Any]
    definitions: Mapping[str, Any]
    file: ir.MappedFile | None
    blobs: Blobs | None
    path: str

    def constant(self, node: Any) -> ir.TensorData:
        """Return the value of a ``NodeDef`` of operator Const.

        Raises:
            ModelError: If it has none, or one that does not fit its type.
            UnsupportedOp: If no DLC holds its elements.
        """
        where = f"{self.path}: node {text(node.name)!r}"
        value = attribute_messages(node).get("value")
        if value is None or value.WhichOneof("kind") != "tensor":
            raise broken("the node is a constant without a value", where)
        return self.data(value.tensor, where)

    def data(self, tensor: Any, where: str) -> ir.TensorData:
        """Return the elements of a ``TensorProto``."""
        return tensor_data(tensor, self.file, self.blobs, where)


def body_port(value: str, ops: Mapping[str, str], content: Content, where: str) -> Port:
    """Return the output that ``argument`` or ``node:output:k`` names in a function.

    Raises:
        ModelError: If it names none, or one whose number is not known.
    """
    node, *rest = value.split(":")
    if not rest or node not in ops:
        return Port(node)
    name, index = rest[0], rest[1] if len(rest) > 1 else "0"
    if not rest[1:] and name.isdecimal():  # of the main graph's form
        name, index = "", name
    if index.isdecimal() and len(index) < 10:
        function = content.functions.get(ops[node])
        if function is None:
            names = output_names(ops[node], content.definitions)
        else:
            names = [text(each.name) for each in function.signature.output_arg]
        found = output_index(names, name, int(index)) if name else int(index)
        if found is not None:
            return Port(node, found)
    raise broken(f"the node reads {value!r} of operator {ops[node]}, whose outputs are not known", where)


def waits_for(nodes: Mapping[str, Any], name: str) -> Port | None:
    """Return predicate and side of the Switch that a node without inputs waits for."""
    at, waits = port(name), False
    for _ in range(DEPTH):
        message = nodes.get(at.node)
        if message is None:
            break
        inputs = list(data_inputs(message))
        if text(message.op) == "Switch" and waits and len(inputs) > 1:
            return Port(str(port(inputs[1])), at.number)
        if not inputs:
            inputs, waits = [text(each)[1:] for each in message.input if each.startswith(b"^")], True
        elif not waits or text(message.op) != "Identity":
            break
        if not inputs:
            break
        at = port(inputs[0])
    return None


def _predicates(nodes: Mapping[str, Any], message: Any) -> list[str]:
    """Return the predicates that a Merge needs of its inputs that are constants."""
    if text(message.op) not in ("Merge", "RefMerge"):
        return []
    found = (waits_for(nodes, value) for value in data_inputs(message))
    return [each.node for each in found if each is not None]


def needed_nodes(
    nodes: Mapping[str, Any],
    values: Sequence[str],
    inputs: set[str],
    reads: Callable[[Any], Iterable[str]] = data_inputs,
    *,
    in_body: bool = False,
) -> list[str]:
    """Return the names of the nodes that values need, in the order of the file.

    Args:
        inputs: Names of values that need nothing.
        reads: Returns the names of the values that a node reads.
        in_body: Whether names have the form of a function's body.
    """
    needed: set[str] = set()
    followed: set[str] = set()
    pending = list(values)
    while pending:
        name = pending.pop()
        node = name.split(":")[0] if in_body else port(name).node
        if node not in nodes or node in followed:
            continue
        needed.add(node)
        if not in_body and str(port(name)) in inputs:
            continue
        followed.add(node)
        pending += reads(nodes[node])
        pending += [] if in_body else _predicates(nodes, nodes[node])
    return [name for name in nodes if name in needed]
