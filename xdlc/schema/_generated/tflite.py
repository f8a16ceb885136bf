"""Generated from tflite.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from typing import Annotated

from xdlc.schema.table import Table, blob, byte, long, string, ubyte, uint, ulong, ushort, vector


class BlockwiseQuantization(Table):
    scales: int = 0
    zero_points: int = 0
    block_size: int = 0
    block_shape: vector[int] | None = None


class MultiAxisQuantization(Table):
    scales: int = 0
    zero_points: int = 0
    block_size: int = 0
    quantized_dimensions: vector[int] | None = None


class QuantizationParameters(Table):
    min: vector[float] | None = None
    max: vector[float] | None = None
    scale: vector[float] | None = None
    zero_point: vector[long] | None = None
    details_type: ubyte = 0
    details: Annotated[Table, 'union', 'QuantizationDetails'] | None = None
    quantized_dimension: int = 0


class Int32Vector(Table):
    values: vector[int] | None = None


class Uint16Vector(Table):
    values: vector[ushort] | None = None


class Uint8Vector(Table):
    values: blob | None = None


class DimensionMetadata(Table):
    format: byte = 0
    dense_size: int = 0
    array_segments_type: ubyte = 0
    array_segments: Annotated[Table, 'union', 'SparseIndexVector'] | None = None
    array_indices_type: ubyte = 0
    array_indices: Annotated[Table, 'union', 'SparseIndexVector'] | None = None


class SparsityParameters(Table):
    traversal_order: vector[int] | None = None
    block_map: vector[int] | None = None
    dim_metadata: vector[DimensionMetadata] | None = None


class Tensor(Table):
    shape: vector[int] | None = None
    type: byte = 0
    buffer: uint = 0
    name: string | None = None
    quantization: QuantizationParameters | None = None
    is_variable: bool = False
    sparsity: SparsityParameters | None = None
    shape_signature: vector[int] | None = None
    has_rank: bool = False
    variant_tensors: vector[uint] | None = None
    external_buffer: uint = 0


class StablehloGatherOptions(Table):
    offset_dims: vector[long] | None = None
    collapsed_slice_dims: vector[long] | None = None
    start_index_map: vector[long] | None = None
    index_vector_dim: long = 0
    slice_sizes: vector[long] | None = None
    indices_are_sorted: bool = False


class StablehloTransposeOptions(Table):
    permutation: vector[long] | None = None


class StablehloDotGeneralOptions(Table):
    lhs_batching_dimensions: vector[long] | None = None
    rhs_batching_dimensions: vector[long] | None = None
    lhs_contracting_dimensions: vector[long] | None = None
    rhs_contracting_dimensions: vector[long] | None = None
    precision_config: vector[uint] | None = None


class StablehloReduceWindowOptions(Table):
    window_dimensions: vector[long] | None = None
    window_strides: vector[long] | None = None
    base_dilations: vector[long] | None = None
    window_dilations: vector[long] | None = None
    padding: vector[long] | None = None
    body_subgraph_index: int = 0


class StablehloWhileOptions(Table):
    cond_subgraph_index: int = 0
    body_subgraph_index: int = 0


class StablehloSortOptions(Table):
    dimension: long = 0
    is_stable: bool = False
    comparator_subgraph_index: int = 0


class StablehloConcatenateOptions(Table):
    dimension: long = 0


class StablehloBroadcastInDimOptions(Table):
    broadcast_dimensions: vector[long] | None = None


class StablehloCompareOptions(Table):
    comparison_direction: uint = 0
    compare_type: uint = 0


class StablehloDynamicSliceOptions(Table):
    slice_sizes: vector[long] | None = None


class StablehloPadOptions(Table):
    edge_padding_low: vector[long] | None = None
    edge_padding_high: vector[long] | None = None
    interior_padding: vector[long] | None = None


class StablehloIotaOptions(Table):
    iota_dimension: long = 0


class StablehloReduceOptions(Table):
    dimensions: vector[long] | None = None
    body_subgraph_index: int = 0


class StablehloSliceOptions(Table):
    start_indices: vector[long] | None = None
    limit_indices: vector[long] | None = None
    strides: vector[long] | None = None


class StablehloConvolutionOptions(Table):
    window_strides: vector[long] | None = None
    padding: vector[long] | None = None
    lhs_dilation: vector[long] | None = None
    rhs_dilation: vector[long] | None = None
    window_reversal: vector[bool] | None = None
    input_batch_dimension: long = 0
    input_feature_dimension: long = 0
    input_spatial_dimensions: vector[long] | None = None
    kernel_input_feature_dimension: long = 0
    kernel_output_feature_dimension: long = 0
    kernel_spatial_dimensions: vector[long] | None = None
    output_batch_dimension: long = 0
    output_feature_dimension: long = 0
    output_spatial_dimensions: vector[long] | None = None
    feature_group_count: long = 0
    batch_group_count: long = 0
    precision_config: vector[uint] | None = None


class StablehloScatterOptions(Table):
    indices_are_sorted: bool = False
    update_window_dims: vector[long] | None = None
    inserted_window_dims: vector[long] | None = None
    scatter_dims_to_operand_dims: vector[long] | None = None
    index_vector_dim: long = 0
    unique_indices: bool = False
    update_computation_subgraph_index: int = 0


class StablehloCaseOptions(Table):
    branch_subgraph_indices: vector[int] | None = None


class Conv2DOptions(Table):
    padding: byte = 0
    stride_w: int = 0
    stride_h: int = 0
    fused_activation_function: byte = 0
    dilation_wfactor: int = 1
    dilation_hfactor: int = 1
    quantized_bias_type: byte = 0


class Conv3DOptions(Table):
    padding: byte = 0
    stride_d: int = 0
    stride_w: int = 0
    stride_h: int = 0
    fused_activation_function: byte = 0
    dilation_dfactor: int = 1
    dilation_wfactor: int = 1
    dilation_hfactor: int = 1


class Pool2DOptions(Table):
    padding: byte = 0
    stride_w: int = 0
    stride_h: int = 0
    filter_width: int = 0
    filter_height: int = 0
    fused_activation_function: byte = 0


class DepthwiseConv2DOptions(Table):
    padding: byte = 0
    stride_w: int = 0
    stride_h: int = 0
    depth_multiplier: int = 0
    fused_activation_function: byte = 0
    dilation_wfactor: int = 1
    dilation_hfactor: int = 1


class SVDFOptions(Table):
    rank: int = 0
    fused_activation_function: byte = 0
    asymmetric_quantize_inputs: bool = False


class RNNOptions(Table):
    fused_activation_function: byte = 0
    asymmetric_quantize_inputs: bool = False


class SequenceRNNOptions(Table):
    time_major: bool = False
    fused_activation_function: byte = 0
    asymmetric_quantize_inputs: bool = False


class BidirectionalSequenceRNNOptions(Table):
    time_major: bool = False
    fused_activation_function: byte = 0
    merge_outputs: bool = False
    asymmetric_quantize_inputs: bool = False


class FullyConnectedOptions(Table):
    fused_activation_function: byte = 0
    weights_format: byte = 0
    keep_num_dims: bool = False
    asymmetric_quantize_inputs: bool = False
    quantized_bias_type: byte = 0
    quant_spec: blob | None = None


class SoftmaxOptions(Table):
    beta: float = 0.0


class ConcatenationOptions(Table):
    axis: int = 0
    fused_activation_function: byte = 0


class AddOptions(Table):
    fused_activation_function: byte = 0
    pot_scale_int16: bool = True


class MulOptions(Table):
    fused_activation_function: byte = 0


class L2NormOptions(Table):
    fused_activation_function: byte = 0


class LocalResponseNormalizationOptions(Table):
    radius: int = 0
    bias: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0


class LSTMOptions(Table):
    fused_activation_function: byte = 0
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    kernel_type: byte = 0
    asymmetric_quantize_inputs: bool = False


class UnidirectionalSequenceLSTMOptions(Table):
    fused_activation_function: byte = 0
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    time_major: bool = False
    asymmetric_quantize_inputs: bool = False
    diagonal_recurrent_tensors: bool = False


class BidirectionalSequenceLSTMOptions(Table):
    fused_activation_function: byte = 0
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    merge_outputs: bool = False
    time_major: bool = True
    asymmetric_quantize_inputs: bool = False


class ResizeBilinearOptions(Table):
    unused0: ubyte = 0
    unused1: ubyte = 0
    align_corners: bool = False
    half_pixel_centers: bool = False


class ResizeNearestNeighborOptions(Table):
    align_corners: bool = False
    half_pixel_centers: bool = False


class ReshapeOptions(Table):
    new_shape: vector[int] | None = None


class SpaceToDepthOptions(Table):
    block_size: int = 0


class DepthToSpaceOptions(Table):
    block_size: int = 0


class SubOptions(Table):
    fused_activation_function: byte = 0
    pot_scale_int16: bool = True


class DivOptions(Table):
    fused_activation_function: byte = 0


class GatherOptions(Table):
    axis: int = 0
    batch_dims: int = 0


class ReducerOptions(Table):
    keep_dims: bool = False


class SqueezeOptions(Table):
    squeeze_dims: vector[int] | None = None


class SplitOptions(Table):
    num_splits: int = 0


class SplitVOptions(Table):
    num_splits: int = 0


class StridedSliceOptions(Table):
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    offset: bool = False


class CastOptions(Table):
    in_data_type: byte = 0
    out_data_type: byte = 0


class ArgMaxOptions(Table):
    output_type: byte = 0


class ArgMinOptions(Table):
    output_type: byte = 0


class TransposeConvOptions(Table):
    padding: byte = 0
    stride_w: int = 0
    stride_h: int = 0
    fused_activation_function: byte = 0
    quantized_bias_type: byte = 0


class SparseToDenseOptions(Table):
    validate_indices: bool = False


class ShapeOptions(Table):
    out_type: byte = 0


class FakeQuantOptions(Table):
    min: float = 0.0
    max: float = 0.0
    num_bits: int = 0
    narrow_range: bool = False


class PackOptions(Table):
    values_count: int = 0
    axis: int = 0


class OneHotOptions(Table):
    axis: int = 0


class UnpackOptions(Table):
    num: int = 0
    axis: int = 0


class LeakyReluOptions(Table):
    alpha: float = 0.0


class MirrorPadOptions(Table):
    mode: byte = 0


class UniqueOptions(Table):
    idx_out_type: byte = 2


class ReverseSequenceOptions(Table):
    seq_dim: int = 0
    batch_dim: int = 0


class IfOptions(Table):
    then_subgraph_index: int = 0
    else_subgraph_index: int = 0


class CallOnceOptions(Table):
    init_subgraph_index: int = 0


class WhileOptions(Table):
    cond_subgraph_index: int = 0
    body_subgraph_index: int = 0


class BatchMatMulOptions(Table):
    adj_x: bool = False
    adj_y: bool = False
    asymmetric_quantize_inputs: bool = False


class CumsumOptions(Table):
    exclusive: bool = False
    reverse: bool = False


class VarHandleOptions(Table):
    container: string | None = None
    shared_name: string | None = None


class RandomOptions(Table):
    seed: long = 0
    seed2: long = 0


class BucketizeOptions(Table):
    boundaries: vector[float] | None = None


class GeluOptions(Table):
    approximate: bool = False


class ReduceWindowOptions(Table):
    reduce_function: int = 0


class OperatorCode(Table):
    deprecated_builtin_code: byte = 0
    custom_code: string | None = None
    version: int = 1
    builtin_code: int = 0


class StableHLOCompositeOptions(Table):
    name: string | None = None
    decomposition_subgraph_index: int = 0
    composite_attributes: blob | None = None
    composite_attributes_format: byte = 0
    version: int = 0


class Operator(Table):
    opcode_index: uint = 0
    inputs: vector[int] | None = None
    outputs: vector[int] | None = None
    builtin_options_type: ubyte = 0
    builtin_options: Annotated[Table, 'union', 'BuiltinOptions'] | None = None
    custom_options: blob | None = None
    custom_options_format: byte = 0
    mutating_variable_inputs: vector[bool] | None = None
    intermediates: vector[int] | None = None
    large_custom_options_offset: ulong = 0
    large_custom_options_size: ulong = 0
    builtin_options2_type: ubyte = 0
    builtin_options2: Annotated[Table, 'union', 'BuiltinOptions2'] | None = None
    debug_metadata_index: int = -1


class SubGraph(Table):
    tensors: vector[Tensor] | None = None
    inputs: vector[int] | None = None
    outputs: vector[int] | None = None
    operators: vector[Operator] | None = None
    name: string | None = None
    debug_metadata_index: int = -1


class Buffer(Table):
    data: blob | None = None
    offset: ulong = 0
    size: ulong = 0


class ExternalBufferGroup(Table):
    name: string | None = None


class ExternalBuffer(Table):
    id: uint = 0
    group: uint = 0
    offset: ulong = 0
    length: ulong = 0
    packing: string | None = None


class Metadata(Table):
    name: string | None = None
    buffer: uint = 0


class TensorMap(Table):
    name: string | None = None
    tensor_index: uint = 0


class SignatureDef(Table):
    inputs: vector[TensorMap] | None = None
    outputs: vector[TensorMap] | None = None
    signature_key: string | None = None
    unused3: ubyte = 0
    subgraph_index: uint = 0


class Model(Table):
    IDENTIFIER = b'TFL3'
    version: uint = 0
    operator_codes: vector[OperatorCode] | None = None
    subgraphs: vector[SubGraph] | None = None
    description: string | None = None
    buffers: vector[Buffer] | None = None
    metadata_buffer: vector[int] | None = None
    metadata: vector[Metadata] | None = None
    signature_defs: vector[SignatureDef] | None = None
    external_buffer_groups: vector[ExternalBufferGroup] | None = None
    external_buffers: vector[ExternalBuffer] | None = None


QuantizationDetails: dict[int, type[Table]] = {
    2: BlockwiseQuantization,
    3: MultiAxisQuantization,
}


SparseIndexVector: dict[int, type[Table]] = {
    1: Int32Vector,
    2: Uint16Vector,
    3: Uint8Vector,
}


BuiltinOptions: dict[int, type[Table]] = {
    1: Conv2DOptions,
    2: DepthwiseConv2DOptions,
    5: Pool2DOptions,
    6: SVDFOptions,
    7: RNNOptions,
    8: FullyConnectedOptions,
    9: SoftmaxOptions,
    10: ConcatenationOptions,
    11: AddOptions,
    12: L2NormOptions,
    13: LocalResponseNormalizationOptions,
    14: LSTMOptions,
    15: ResizeBilinearOptions,
    17: ReshapeOptions,
    19: SpaceToDepthOptions,
    21: MulOptions,
    23: GatherOptions,
    27: ReducerOptions,
    28: SubOptions,
    29: DivOptions,
    30: SqueezeOptions,
    31: SequenceRNNOptions,
    32: StridedSliceOptions,
    35: SplitOptions,
    37: CastOptions,
    40: ArgMaxOptions,
    49: TransposeConvOptions,
    50: SparseToDenseOptions,
    55: ShapeOptions,
    57: ArgMinOptions,
    58: FakeQuantOptions,
    59: PackOptions,
    61: OneHotOptions,
    64: UnpackOptions,
    69: BidirectionalSequenceLSTMOptions,
    70: BidirectionalSequenceRNNOptions,
    71: UnidirectionalSequenceLSTMOptions,
    74: ResizeNearestNeighborOptions,
    75: LeakyReluOptions,
    77: MirrorPadOptions,
    79: SplitVOptions,
    80: UniqueOptions,
    87: ReverseSequenceOptions,
    92: IfOptions,
    93: WhileOptions,
    94: DepthToSpaceOptions,
    101: BatchMatMulOptions,
    102: CumsumOptions,
    103: CallOnceOptions,
    106: Conv3DOptions,
    111: VarHandleOptions,
    114: RandomOptions,
    115: BucketizeOptions,
    116: GeluOptions,
}


BuiltinOptions2: dict[int, type[Table]] = {
    1: StablehloConcatenateOptions,
    2: StablehloBroadcastInDimOptions,
    3: StablehloSliceOptions,
    4: StablehloConvolutionOptions,
    6: StablehloReduceOptions,
    7: StablehloScatterOptions,
    8: StablehloCompareOptions,
    9: StablehloDynamicSliceOptions,
    10: StablehloPadOptions,
    11: StablehloIotaOptions,
    12: StablehloDotGeneralOptions,
    13: StablehloReduceWindowOptions,
    14: StablehloSortOptions,
    15: StablehloWhileOptions,
    16: StablehloGatherOptions,
    17: StablehloTransposeOptions,
    20: ReduceWindowOptions,
    21: StableHLOCompositeOptions,
    23: StablehloCaseOptions,
}
