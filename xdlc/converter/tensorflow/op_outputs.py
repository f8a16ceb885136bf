"""Outputs of TensorFlow's operators that have several, by name and number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.converter.tensorflow.nodes import text

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
        names: Names of its outputs.
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
