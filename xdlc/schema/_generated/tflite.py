"""Generated from tflite.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.schema.table import Blob, Field, Table


class BlockwiseQuantization(Table):
    """Table BlockwiseQuantization of tflite.fbs."""

    __slots__ = ('scales', 'zero_points', 'block_size', 'block_shape',)

    def __init__(
        self,
        scales: int = 0,
        zero_points: int = 0,
        block_size: int = 0,
        block_shape: Sequence[int] | None = None,
    ) -> None:
        self.scales = scales
        self.zero_points = zero_points
        self.block_size = block_size
        self.block_shape = block_shape


class MultiAxisQuantization(Table):
    """Table MultiAxisQuantization of tflite.fbs."""

    __slots__ = ('scales', 'zero_points', 'block_size', 'quantized_dimensions',)

    def __init__(
        self,
        scales: int = 0,
        zero_points: int = 0,
        block_size: int = 0,
        quantized_dimensions: Sequence[int] | None = None,
    ) -> None:
        self.scales = scales
        self.zero_points = zero_points
        self.block_size = block_size
        self.quantized_dimensions = quantized_dimensions


class QuantizationParameters(Table):
    """Table QuantizationParameters of tflite.fbs."""

    __slots__ = ('min', 'max', 'scale', 'zero_point', 'details_type', 'details', 'quantized_dimension',)

    def __init__(
        self,
        min: Sequence[float] | None = None,
        max: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        zero_point: Sequence[int] | None = None,
        details_type: int = 0,
        details: Table | None = None,
        quantized_dimension: int = 0,
    ) -> None:
        self.min = min
        self.max = max
        self.scale = scale
        self.zero_point = zero_point
        self.details_type = details_type
        self.details = details
        self.quantized_dimension = quantized_dimension


class Int32Vector(Table):
    """Table Int32Vector of tflite.fbs."""

    __slots__ = ('values',)

    def __init__(
        self,
        values: Sequence[int] | None = None,
    ) -> None:
        self.values = values


class Uint16Vector(Table):
    """Table Uint16Vector of tflite.fbs."""

    __slots__ = ('values',)

    def __init__(
        self,
        values: Sequence[int] | None = None,
    ) -> None:
        self.values = values


class Uint8Vector(Table):
    """Table Uint8Vector of tflite.fbs."""

    __slots__ = ('values',)

    def __init__(
        self,
        values: Blob | bytes | None = None,
    ) -> None:
        self.values = values


class DimensionMetadata(Table):
    """Table DimensionMetadata of tflite.fbs."""

    __slots__ = ('format', 'dense_size', 'array_segments_type', 'array_segments', 'array_indices_type', 'array_indices',)

    def __init__(
        self,
        format: int = 0,
        dense_size: int = 0,
        array_segments_type: int = 0,
        array_segments: Table | None = None,
        array_indices_type: int = 0,
        array_indices: Table | None = None,
    ) -> None:
        self.format = format
        self.dense_size = dense_size
        self.array_segments_type = array_segments_type
        self.array_segments = array_segments
        self.array_indices_type = array_indices_type
        self.array_indices = array_indices


class SparsityParameters(Table):
    """Table SparsityParameters of tflite.fbs."""

    __slots__ = ('traversal_order', 'block_map', 'dim_metadata',)

    def __init__(
        self,
        traversal_order: Sequence[int] | None = None,
        block_map: Sequence[int] | None = None,
        dim_metadata: Sequence[DimensionMetadata] | None = None,
    ) -> None:
        self.traversal_order = traversal_order
        self.block_map = block_map
        self.dim_metadata = dim_metadata


class Tensor(Table):
    """Table Tensor of tflite.fbs."""

    __slots__ = ('shape', 'type', 'buffer', 'name', 'quantization', 'is_variable', 'sparsity', 'shape_signature', 'has_rank', 'variant_tensors', 'external_buffer',)

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        type: int = 0,
        buffer: int = 0,
        name: str | None = None,
        quantization: QuantizationParameters | None = None,
        is_variable: bool = False,
        sparsity: SparsityParameters | None = None,
        shape_signature: Sequence[int] | None = None,
        has_rank: bool = False,
        variant_tensors: Sequence[int] | None = None,
        external_buffer: int = 0,
    ) -> None:
        self.shape = shape
        self.type = type
        self.buffer = buffer
        self.name = name
        self.quantization = quantization
        self.is_variable = is_variable
        self.sparsity = sparsity
        self.shape_signature = shape_signature
        self.has_rank = has_rank
        self.variant_tensors = variant_tensors
        self.external_buffer = external_buffer


class StablehloGatherOptions(Table):
    """Table StablehloGatherOptions of tflite.fbs."""

    __slots__ = ('offset_dims', 'collapsed_slice_dims', 'start_index_map', 'index_vector_dim', 'slice_sizes', 'indices_are_sorted',)

    def __init__(
        self,
        offset_dims: Sequence[int] | None = None,
        collapsed_slice_dims: Sequence[int] | None = None,
        start_index_map: Sequence[int] | None = None,
        index_vector_dim: int = 0,
        slice_sizes: Sequence[int] | None = None,
        indices_are_sorted: bool = False,
    ) -> None:
        self.offset_dims = offset_dims
        self.collapsed_slice_dims = collapsed_slice_dims
        self.start_index_map = start_index_map
        self.index_vector_dim = index_vector_dim
        self.slice_sizes = slice_sizes
        self.indices_are_sorted = indices_are_sorted


class StablehloTransposeOptions(Table):
    """Table StablehloTransposeOptions of tflite.fbs."""

    __slots__ = ('permutation',)

    def __init__(
        self,
        permutation: Sequence[int] | None = None,
    ) -> None:
        self.permutation = permutation


class StablehloDotGeneralOptions(Table):
    """Table StablehloDotGeneralOptions of tflite.fbs."""

    __slots__ = ('lhs_batching_dimensions', 'rhs_batching_dimensions', 'lhs_contracting_dimensions', 'rhs_contracting_dimensions', 'precision_config',)

    def __init__(
        self,
        lhs_batching_dimensions: Sequence[int] | None = None,
        rhs_batching_dimensions: Sequence[int] | None = None,
        lhs_contracting_dimensions: Sequence[int] | None = None,
        rhs_contracting_dimensions: Sequence[int] | None = None,
        precision_config: Sequence[int] | None = None,
    ) -> None:
        self.lhs_batching_dimensions = lhs_batching_dimensions
        self.rhs_batching_dimensions = rhs_batching_dimensions
        self.lhs_contracting_dimensions = lhs_contracting_dimensions
        self.rhs_contracting_dimensions = rhs_contracting_dimensions
        self.precision_config = precision_config


class StablehloReduceWindowOptions(Table):
    """Table StablehloReduceWindowOptions of tflite.fbs."""

    __slots__ = ('window_dimensions', 'window_strides', 'base_dilations', 'window_dilations', 'padding', 'body_subgraph_index',)

    def __init__(
        self,
        window_dimensions: Sequence[int] | None = None,
        window_strides: Sequence[int] | None = None,
        base_dilations: Sequence[int] | None = None,
        window_dilations: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        body_subgraph_index: int = 0,
    ) -> None:
        self.window_dimensions = window_dimensions
        self.window_strides = window_strides
        self.base_dilations = base_dilations
        self.window_dilations = window_dilations
        self.padding = padding
        self.body_subgraph_index = body_subgraph_index


class StablehloWhileOptions(Table):
    """Table StablehloWhileOptions of tflite.fbs."""

    __slots__ = ('cond_subgraph_index', 'body_subgraph_index',)
    IS_FLAT = True

    def __init__(
        self,
        cond_subgraph_index: int = 0,
        body_subgraph_index: int = 0,
    ) -> None:
        self.cond_subgraph_index = cond_subgraph_index
        self.body_subgraph_index = body_subgraph_index


class StablehloSortOptions(Table):
    """Table StablehloSortOptions of tflite.fbs."""

    __slots__ = ('dimension', 'is_stable', 'comparator_subgraph_index',)
    IS_FLAT = True

    def __init__(
        self,
        dimension: int = 0,
        is_stable: bool = False,
        comparator_subgraph_index: int = 0,
    ) -> None:
        self.dimension = dimension
        self.is_stable = is_stable
        self.comparator_subgraph_index = comparator_subgraph_index


class StablehloConcatenateOptions(Table):
    """Table StablehloConcatenateOptions of tflite.fbs."""

    __slots__ = ('dimension',)
    IS_FLAT = True

    def __init__(
        self,
        dimension: int = 0,
    ) -> None:
        self.dimension = dimension


class StablehloBroadcastInDimOptions(Table):
    """Table StablehloBroadcastInDimOptions of tflite.fbs."""

    __slots__ = ('broadcast_dimensions',)

    def __init__(
        self,
        broadcast_dimensions: Sequence[int] | None = None,
    ) -> None:
        self.broadcast_dimensions = broadcast_dimensions


class StablehloCompareOptions(Table):
    """Table StablehloCompareOptions of tflite.fbs."""

    __slots__ = ('comparison_direction', 'compare_type',)
    IS_FLAT = True

    def __init__(
        self,
        comparison_direction: int = 0,
        compare_type: int = 0,
    ) -> None:
        self.comparison_direction = comparison_direction
        self.compare_type = compare_type


class StablehloDynamicSliceOptions(Table):
    """Table StablehloDynamicSliceOptions of tflite.fbs."""

    __slots__ = ('slice_sizes',)

    def __init__(
        self,
        slice_sizes: Sequence[int] | None = None,
    ) -> None:
        self.slice_sizes = slice_sizes


class StablehloPadOptions(Table):
    """Table StablehloPadOptions of tflite.fbs."""

    __slots__ = ('edge_padding_low', 'edge_padding_high', 'interior_padding',)

    def __init__(
        self,
        edge_padding_low: Sequence[int] | None = None,
        edge_padding_high: Sequence[int] | None = None,
        interior_padding: Sequence[int] | None = None,
    ) -> None:
        self.edge_padding_low = edge_padding_low
        self.edge_padding_high = edge_padding_high
        self.interior_padding = interior_padding


class StablehloIotaOptions(Table):
    """Table StablehloIotaOptions of tflite.fbs."""

    __slots__ = ('iota_dimension',)
    IS_FLAT = True

    def __init__(
        self,
        iota_dimension: int = 0,
    ) -> None:
        self.iota_dimension = iota_dimension


class StablehloReduceOptions(Table):
    """Table StablehloReduceOptions of tflite.fbs."""

    __slots__ = ('dimensions', 'body_subgraph_index',)

    def __init__(
        self,
        dimensions: Sequence[int] | None = None,
        body_subgraph_index: int = 0,
    ) -> None:
        self.dimensions = dimensions
        self.body_subgraph_index = body_subgraph_index


class StablehloSliceOptions(Table):
    """Table StablehloSliceOptions of tflite.fbs."""

    __slots__ = ('start_indices', 'limit_indices', 'strides',)

    def __init__(
        self,
        start_indices: Sequence[int] | None = None,
        limit_indices: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> None:
        self.start_indices = start_indices
        self.limit_indices = limit_indices
        self.strides = strides


class StablehloConvolutionOptions(Table):
    """Table StablehloConvolutionOptions of tflite.fbs."""

    __slots__ = ('window_strides', 'padding', 'lhs_dilation', 'rhs_dilation', 'window_reversal', 'input_batch_dimension', 'input_feature_dimension', 'input_spatial_dimensions', 'kernel_input_feature_dimension', 'kernel_output_feature_dimension', 'kernel_spatial_dimensions', 'output_batch_dimension', 'output_feature_dimension', 'output_spatial_dimensions', 'feature_group_count', 'batch_group_count', 'precision_config',)

    def __init__(
        self,
        window_strides: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        window_reversal: Sequence[bool] | None = None,
        input_batch_dimension: int = 0,
        input_feature_dimension: int = 0,
        input_spatial_dimensions: Sequence[int] | None = None,
        kernel_input_feature_dimension: int = 0,
        kernel_output_feature_dimension: int = 0,
        kernel_spatial_dimensions: Sequence[int] | None = None,
        output_batch_dimension: int = 0,
        output_feature_dimension: int = 0,
        output_spatial_dimensions: Sequence[int] | None = None,
        feature_group_count: int = 0,
        batch_group_count: int = 0,
        precision_config: Sequence[int] | None = None,
    ) -> None:
        self.window_strides = window_strides
        self.padding = padding
        self.lhs_dilation = lhs_dilation
        self.rhs_dilation = rhs_dilation
        self.window_reversal = window_reversal
        self.input_batch_dimension = input_batch_dimension
        self.input_feature_dimension = input_feature_dimension
        self.input_spatial_dimensions = input_spatial_dimensions
        self.kernel_input_feature_dimension = kernel_input_feature_dimension
        self.kernel_output_feature_dimension = kernel_output_feature_dimension
        self.kernel_spatial_dimensions = kernel_spatial_dimensions
        self.output_batch_dimension = output_batch_dimension
        self.output_feature_dimension = output_feature_dimension
        self.output_spatial_dimensions = output_spatial_dimensions
        self.feature_group_count = feature_group_count
        self.batch_group_count = batch_group_count
        self.precision_config = precision_config


class StablehloScatterOptions(Table):
    """Table StablehloScatterOptions of tflite.fbs."""

    __slots__ = ('indices_are_sorted', 'update_window_dims', 'inserted_window_dims', 'scatter_dims_to_operand_dims', 'index_vector_dim', 'unique_indices', 'update_computation_subgraph_index',)

    def __init__(
        self,
        indices_are_sorted: bool = False,
        update_window_dims: Sequence[int] | None = None,
        inserted_window_dims: Sequence[int] | None = None,
        scatter_dims_to_operand_dims: Sequence[int] | None = None,
        index_vector_dim: int = 0,
        unique_indices: bool = False,
        update_computation_subgraph_index: int = 0,
    ) -> None:
        self.indices_are_sorted = indices_are_sorted
        self.update_window_dims = update_window_dims
        self.inserted_window_dims = inserted_window_dims
        self.scatter_dims_to_operand_dims = scatter_dims_to_operand_dims
        self.index_vector_dim = index_vector_dim
        self.unique_indices = unique_indices
        self.update_computation_subgraph_index = update_computation_subgraph_index


class StablehloCaseOptions(Table):
    """Table StablehloCaseOptions of tflite.fbs."""

    __slots__ = ('branch_subgraph_indices',)

    def __init__(
        self,
        branch_subgraph_indices: Sequence[int] | None = None,
    ) -> None:
        self.branch_subgraph_indices = branch_subgraph_indices


class Conv2DOptions(Table):
    """Table Conv2DOptions of tflite.fbs."""

    __slots__ = ('padding', 'stride_w', 'stride_h', 'fused_activation_function', 'dilation_wfactor', 'dilation_hfactor', 'quantized_bias_type',)
    IS_FLAT = True

    def __init__(
        self,
        padding: int = 0,
        stride_w: int = 0,
        stride_h: int = 0,
        fused_activation_function: int = 0,
        dilation_wfactor: int = 1,
        dilation_hfactor: int = 1,
        quantized_bias_type: int = 0,
    ) -> None:
        self.padding = padding
        self.stride_w = stride_w
        self.stride_h = stride_h
        self.fused_activation_function = fused_activation_function
        self.dilation_wfactor = dilation_wfactor
        self.dilation_hfactor = dilation_hfactor
        self.quantized_bias_type = quantized_bias_type


class Conv3DOptions(Table):
    """Table Conv3DOptions of tflite.fbs."""

    __slots__ = ('padding', 'stride_d', 'stride_w', 'stride_h', 'fused_activation_function', 'dilation_dfactor', 'dilation_wfactor', 'dilation_hfactor',)
    IS_FLAT = True

    def __init__(
        self,
        padding: int = 0,
        stride_d: int = 0,
        stride_w: int = 0,
        stride_h: int = 0,
        fused_activation_function: int = 0,
        dilation_dfactor: int = 1,
        dilation_wfactor: int = 1,
        dilation_hfactor: int = 1,
    ) -> None:
        self.padding = padding
        self.stride_d = stride_d
        self.stride_w = stride_w
        self.stride_h = stride_h
        self.fused_activation_function = fused_activation_function
        self.dilation_dfactor = dilation_dfactor
        self.dilation_wfactor = dilation_wfactor
        self.dilation_hfactor = dilation_hfactor


class Pool2DOptions(Table):
    """Table Pool2DOptions of tflite.fbs."""

    __slots__ = ('padding', 'stride_w', 'stride_h', 'filter_width', 'filter_height', 'fused_activation_function',)
    IS_FLAT = True

    def __init__(
        self,
        padding: int = 0,
        stride_w: int = 0,
        stride_h: int = 0,
        filter_width: int = 0,
        filter_height: int = 0,
        fused_activation_function: int = 0,
    ) -> None:
        self.padding = padding
        self.stride_w = stride_w
        self.stride_h = stride_h
        self.filter_width = filter_width
        self.filter_height = filter_height
        self.fused_activation_function = fused_activation_function


class DepthwiseConv2DOptions(Table):
    """Table DepthwiseConv2DOptions of tflite.fbs."""

    __slots__ = ('padding', 'stride_w', 'stride_h', 'depth_multiplier', 'fused_activation_function', 'dilation_wfactor', 'dilation_hfactor',)
    IS_FLAT = True

    def __init__(
        self,
        padding: int = 0,
        stride_w: int = 0,
        stride_h: int = 0,
        depth_multiplier: int = 0,
        fused_activation_function: int = 0,
        dilation_wfactor: int = 1,
        dilation_hfactor: int = 1,
    ) -> None:
        self.padding = padding
        self.stride_w = stride_w
        self.stride_h = stride_h
        self.depth_multiplier = depth_multiplier
        self.fused_activation_function = fused_activation_function
        self.dilation_wfactor = dilation_wfactor
        self.dilation_hfactor = dilation_hfactor


class SVDFOptions(Table):
    """Table SVDFOptions of tflite.fbs."""

    __slots__ = ('rank', 'fused_activation_function', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        rank: int = 0,
        fused_activation_function: int = 0,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.rank = rank
        self.fused_activation_function = fused_activation_function
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class RNNOptions(Table):
    """Table RNNOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class SequenceRNNOptions(Table):
    """Table SequenceRNNOptions of tflite.fbs."""

    __slots__ = ('time_major', 'fused_activation_function', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        time_major: bool = False,
        fused_activation_function: int = 0,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.time_major = time_major
        self.fused_activation_function = fused_activation_function
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class BidirectionalSequenceRNNOptions(Table):
    """Table BidirectionalSequenceRNNOptions of tflite.fbs."""

    __slots__ = ('time_major', 'fused_activation_function', 'merge_outputs', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        time_major: bool = False,
        fused_activation_function: int = 0,
        merge_outputs: bool = False,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.time_major = time_major
        self.fused_activation_function = fused_activation_function
        self.merge_outputs = merge_outputs
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class FullyConnectedOptions(Table):
    """Table FullyConnectedOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'weights_format', 'keep_num_dims', 'asymmetric_quantize_inputs', 'quantized_bias_type', 'quant_spec',)

    def __init__(
        self,
        fused_activation_function: int = 0,
        weights_format: int = 0,
        keep_num_dims: bool = False,
        asymmetric_quantize_inputs: bool = False,
        quantized_bias_type: int = 0,
        quant_spec: Blob | bytes | None = None,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.weights_format = weights_format
        self.keep_num_dims = keep_num_dims
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs
        self.quantized_bias_type = quantized_bias_type
        self.quant_spec = quant_spec


class SoftmaxOptions(Table):
    """Table SoftmaxOptions of tflite.fbs."""

    __slots__ = ('beta',)
    IS_FLAT = True

    def __init__(
        self,
        beta: float = 0.0,
    ) -> None:
        self.beta = beta


class ConcatenationOptions(Table):
    """Table ConcatenationOptions of tflite.fbs."""

    __slots__ = ('axis', 'fused_activation_function',)
    IS_FLAT = True

    def __init__(
        self,
        axis: int = 0,
        fused_activation_function: int = 0,
    ) -> None:
        self.axis = axis
        self.fused_activation_function = fused_activation_function


class AddOptions(Table):
    """Table AddOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'pot_scale_int16',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
        pot_scale_int16: bool = True,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.pot_scale_int16 = pot_scale_int16


class MulOptions(Table):
    """Table MulOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
    ) -> None:
        self.fused_activation_function = fused_activation_function


class L2NormOptions(Table):
    """Table L2NormOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
    ) -> None:
        self.fused_activation_function = fused_activation_function


class LocalResponseNormalizationOptions(Table):
    """Table LocalResponseNormalizationOptions of tflite.fbs."""

    __slots__ = ('radius', 'bias', 'alpha', 'beta',)
    IS_FLAT = True

    def __init__(
        self,
        radius: int = 0,
        bias: float = 0.0,
        alpha: float = 0.0,
        beta: float = 0.0,
    ) -> None:
        self.radius = radius
        self.bias = bias
        self.alpha = alpha
        self.beta = beta


class LSTMOptions(Table):
    """Table LSTMOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'cell_clip', 'proj_clip', 'kernel_type', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
        cell_clip: float = 0.0,
        proj_clip: float = 0.0,
        kernel_type: int = 0,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.kernel_type = kernel_type
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class UnidirectionalSequenceLSTMOptions(Table):
    """Table UnidirectionalSequenceLSTMOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'cell_clip', 'proj_clip', 'time_major', 'asymmetric_quantize_inputs', 'diagonal_recurrent_tensors',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
        cell_clip: float = 0.0,
        proj_clip: float = 0.0,
        time_major: bool = False,
        asymmetric_quantize_inputs: bool = False,
        diagonal_recurrent_tensors: bool = False,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.time_major = time_major
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs
        self.diagonal_recurrent_tensors = diagonal_recurrent_tensors


class BidirectionalSequenceLSTMOptions(Table):
    """Table BidirectionalSequenceLSTMOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'cell_clip', 'proj_clip', 'merge_outputs', 'time_major', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
        cell_clip: float = 0.0,
        proj_clip: float = 0.0,
        merge_outputs: bool = False,
        time_major: bool = True,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.merge_outputs = merge_outputs
        self.time_major = time_major
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class ResizeBilinearOptions(Table):
    """Table ResizeBilinearOptions of tflite.fbs."""

    __slots__ = ('unused0', 'unused1', 'align_corners', 'half_pixel_centers',)
    IS_FLAT = True

    def __init__(
        self,
        unused0: int = 0,
        unused1: int = 0,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> None:
        self.unused0 = unused0
        self.unused1 = unused1
        self.align_corners = align_corners
        self.half_pixel_centers = half_pixel_centers


class ResizeNearestNeighborOptions(Table):
    """Table ResizeNearestNeighborOptions of tflite.fbs."""

    __slots__ = ('align_corners', 'half_pixel_centers',)
    IS_FLAT = True

    def __init__(
        self,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> None:
        self.align_corners = align_corners
        self.half_pixel_centers = half_pixel_centers


class ReshapeOptions(Table):
    """Table ReshapeOptions of tflite.fbs."""

    __slots__ = ('new_shape',)

    def __init__(
        self,
        new_shape: Sequence[int] | None = None,
    ) -> None:
        self.new_shape = new_shape


class SpaceToDepthOptions(Table):
    """Table SpaceToDepthOptions of tflite.fbs."""

    __slots__ = ('block_size',)
    IS_FLAT = True

    def __init__(
        self,
        block_size: int = 0,
    ) -> None:
        self.block_size = block_size


class DepthToSpaceOptions(Table):
    """Table DepthToSpaceOptions of tflite.fbs."""

    __slots__ = ('block_size',)
    IS_FLAT = True

    def __init__(
        self,
        block_size: int = 0,
    ) -> None:
        self.block_size = block_size


class SubOptions(Table):
    """Table SubOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function', 'pot_scale_int16',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
        pot_scale_int16: bool = True,
    ) -> None:
        self.fused_activation_function = fused_activation_function
        self.pot_scale_int16 = pot_scale_int16


class DivOptions(Table):
    """Table DivOptions of tflite.fbs."""

    __slots__ = ('fused_activation_function',)
    IS_FLAT = True

    def __init__(
        self,
        fused_activation_function: int = 0,
    ) -> None:
        self.fused_activation_function = fused_activation_function


class GatherOptions(Table):
    """Table GatherOptions of tflite.fbs."""

    __slots__ = ('axis', 'batch_dims',)
    IS_FLAT = True

    def __init__(
        self,
        axis: int = 0,
        batch_dims: int = 0,
    ) -> None:
        self.axis = axis
        self.batch_dims = batch_dims


class ReducerOptions(Table):
    """Table ReducerOptions of tflite.fbs."""

    __slots__ = ('keep_dims',)
    IS_FLAT = True

    def __init__(
        self,
        keep_dims: bool = False,
    ) -> None:
        self.keep_dims = keep_dims


class SqueezeOptions(Table):
    """Table SqueezeOptions of tflite.fbs."""

    __slots__ = ('squeeze_dims',)

    def __init__(
        self,
        squeeze_dims: Sequence[int] | None = None,
    ) -> None:
        self.squeeze_dims = squeeze_dims


class SplitOptions(Table):
    """Table SplitOptions of tflite.fbs."""

    __slots__ = ('num_splits',)
    IS_FLAT = True

    def __init__(
        self,
        num_splits: int = 0,
    ) -> None:
        self.num_splits = num_splits


class SplitVOptions(Table):
    """Table SplitVOptions of tflite.fbs."""

    __slots__ = ('num_splits',)
    IS_FLAT = True

    def __init__(
        self,
        num_splits: int = 0,
    ) -> None:
        self.num_splits = num_splits


class StridedSliceOptions(Table):
    """Table StridedSliceOptions of tflite.fbs."""

    __slots__ = ('begin_mask', 'end_mask', 'ellipsis_mask', 'new_axis_mask', 'shrink_axis_mask', 'offset',)
    IS_FLAT = True

    def __init__(
        self,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
        offset: bool = False,
    ) -> None:
        self.begin_mask = begin_mask
        self.end_mask = end_mask
        self.ellipsis_mask = ellipsis_mask
        self.new_axis_mask = new_axis_mask
        self.shrink_axis_mask = shrink_axis_mask
        self.offset = offset


class CastOptions(Table):
    """Table CastOptions of tflite.fbs."""

    __slots__ = ('in_data_type', 'out_data_type',)
    IS_FLAT = True

    def __init__(
        self,
        in_data_type: int = 0,
        out_data_type: int = 0,
    ) -> None:
        self.in_data_type = in_data_type
        self.out_data_type = out_data_type


class ArgMaxOptions(Table):
    """Table ArgMaxOptions of tflite.fbs."""

    __slots__ = ('output_type',)
    IS_FLAT = True

    def __init__(
        self,
        output_type: int = 0,
    ) -> None:
        self.output_type = output_type


class ArgMinOptions(Table):
    """Table ArgMinOptions of tflite.fbs."""

    __slots__ = ('output_type',)
    IS_FLAT = True

    def __init__(
        self,
        output_type: int = 0,
    ) -> None:
        self.output_type = output_type


class TransposeConvOptions(Table):
    """Table TransposeConvOptions of tflite.fbs."""

    __slots__ = ('padding', 'stride_w', 'stride_h', 'fused_activation_function', 'quantized_bias_type',)
    IS_FLAT = True

    def __init__(
        self,
        padding: int = 0,
        stride_w: int = 0,
        stride_h: int = 0,
        fused_activation_function: int = 0,
        quantized_bias_type: int = 0,
    ) -> None:
        self.padding = padding
        self.stride_w = stride_w
        self.stride_h = stride_h
        self.fused_activation_function = fused_activation_function
        self.quantized_bias_type = quantized_bias_type


class SparseToDenseOptions(Table):
    """Table SparseToDenseOptions of tflite.fbs."""

    __slots__ = ('validate_indices',)
    IS_FLAT = True

    def __init__(
        self,
        validate_indices: bool = False,
    ) -> None:
        self.validate_indices = validate_indices


class ShapeOptions(Table):
    """Table ShapeOptions of tflite.fbs."""

    __slots__ = ('out_type',)
    IS_FLAT = True

    def __init__(
        self,
        out_type: int = 0,
    ) -> None:
        self.out_type = out_type


class FakeQuantOptions(Table):
    """Table FakeQuantOptions of tflite.fbs."""

    __slots__ = ('min', 'max', 'num_bits', 'narrow_range',)
    IS_FLAT = True

    def __init__(
        self,
        min: float = 0.0,
        max: float = 0.0,
        num_bits: int = 0,
        narrow_range: bool = False,
    ) -> None:
        self.min = min
        self.max = max
        self.num_bits = num_bits
        self.narrow_range = narrow_range


class PackOptions(Table):
    """Table PackOptions of tflite.fbs."""

    __slots__ = ('values_count', 'axis',)
    IS_FLAT = True

    def __init__(
        self,
        values_count: int = 0,
        axis: int = 0,
    ) -> None:
        self.values_count = values_count
        self.axis = axis


class OneHotOptions(Table):
    """Table OneHotOptions of tflite.fbs."""

    __slots__ = ('axis',)
    IS_FLAT = True

    def __init__(
        self,
        axis: int = 0,
    ) -> None:
        self.axis = axis


class UnpackOptions(Table):
    """Table UnpackOptions of tflite.fbs."""

    __slots__ = ('num', 'axis',)
    IS_FLAT = True

    def __init__(
        self,
        num: int = 0,
        axis: int = 0,
    ) -> None:
        self.num = num
        self.axis = axis


class LeakyReluOptions(Table):
    """Table LeakyReluOptions of tflite.fbs."""

    __slots__ = ('alpha',)
    IS_FLAT = True

    def __init__(
        self,
        alpha: float = 0.0,
    ) -> None:
        self.alpha = alpha


class MirrorPadOptions(Table):
    """Table MirrorPadOptions of tflite.fbs."""

    __slots__ = ('mode',)
    IS_FLAT = True

    def __init__(
        self,
        mode: int = 0,
    ) -> None:
        self.mode = mode


class UniqueOptions(Table):
    """Table UniqueOptions of tflite.fbs."""

    __slots__ = ('idx_out_type',)
    IS_FLAT = True

    def __init__(
        self,
        idx_out_type: int = 2,
    ) -> None:
        self.idx_out_type = idx_out_type


class ReverseSequenceOptions(Table):
    """Table ReverseSequenceOptions of tflite.fbs."""

    __slots__ = ('seq_dim', 'batch_dim',)
    IS_FLAT = True

    def __init__(
        self,
        seq_dim: int = 0,
        batch_dim: int = 0,
    ) -> None:
        self.seq_dim = seq_dim
        self.batch_dim = batch_dim


class IfOptions(Table):
    """Table IfOptions of tflite.fbs."""

    __slots__ = ('then_subgraph_index', 'else_subgraph_index',)
    IS_FLAT = True

    def __init__(
        self,
        then_subgraph_index: int = 0,
        else_subgraph_index: int = 0,
    ) -> None:
        self.then_subgraph_index = then_subgraph_index
        self.else_subgraph_index = else_subgraph_index


class CallOnceOptions(Table):
    """Table CallOnceOptions of tflite.fbs."""

    __slots__ = ('init_subgraph_index',)
    IS_FLAT = True

    def __init__(
        self,
        init_subgraph_index: int = 0,
    ) -> None:
        self.init_subgraph_index = init_subgraph_index


class WhileOptions(Table):
    """Table WhileOptions of tflite.fbs."""

    __slots__ = ('cond_subgraph_index', 'body_subgraph_index',)
    IS_FLAT = True

    def __init__(
        self,
        cond_subgraph_index: int = 0,
        body_subgraph_index: int = 0,
    ) -> None:
        self.cond_subgraph_index = cond_subgraph_index
        self.body_subgraph_index = body_subgraph_index


class BatchMatMulOptions(Table):
    """Table BatchMatMulOptions of tflite.fbs."""

    __slots__ = ('adj_x', 'adj_y', 'asymmetric_quantize_inputs',)
    IS_FLAT = True

    def __init__(
        self,
        adj_x: bool = False,
        adj_y: bool = False,
        asymmetric_quantize_inputs: bool = False,
    ) -> None:
        self.adj_x = adj_x
        self.adj_y = adj_y
        self.asymmetric_quantize_inputs = asymmetric_quantize_inputs


class CumsumOptions(Table):
    """Table CumsumOptions of tflite.fbs."""

    __slots__ = ('exclusive', 'reverse',)
    IS_FLAT = True

    def __init__(
        self,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> None:
        self.exclusive = exclusive
        self.reverse = reverse


class VarHandleOptions(Table):
    """Table VarHandleOptions of tflite.fbs."""

    __slots__ = ('container', 'shared_name',)

    def __init__(
        self,
        container: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        self.container = container
        self.shared_name = shared_name


class RandomOptions(Table):
    """Table RandomOptions of tflite.fbs."""

    __slots__ = ('seed', 'seed2',)
    IS_FLAT = True

    def __init__(
        self,
        seed: int = 0,
        seed2: int = 0,
    ) -> None:
        self.seed = seed
        self.seed2 = seed2


class BucketizeOptions(Table):
    """Table BucketizeOptions of tflite.fbs."""

    __slots__ = ('boundaries',)

    def __init__(
        self,
        boundaries: Sequence[float] | None = None,
    ) -> None:
        self.boundaries = boundaries


class GeluOptions(Table):
    """Table GeluOptions of tflite.fbs."""

    __slots__ = ('approximate',)
    IS_FLAT = True

    def __init__(
        self,
        approximate: bool = False,
    ) -> None:
        self.approximate = approximate


class ReduceWindowOptions(Table):
    """Table ReduceWindowOptions of tflite.fbs."""

    __slots__ = ('reduce_function',)
    IS_FLAT = True

    def __init__(
        self,
        reduce_function: int = 0,
    ) -> None:
        self.reduce_function = reduce_function


class OperatorCode(Table):
    """Table OperatorCode of tflite.fbs."""

    __slots__ = ('deprecated_builtin_code', 'custom_code', 'version', 'builtin_code',)

    def __init__(
        self,
        deprecated_builtin_code: int = 0,
        custom_code: str | None = None,
        version: int = 1,
        builtin_code: int = 0,
    ) -> None:
        self.deprecated_builtin_code = deprecated_builtin_code
        self.custom_code = custom_code
        self.version = version
        self.builtin_code = builtin_code


class StableHLOCompositeOptions(Table):
    """Table StableHLOCompositeOptions of tflite.fbs."""

    __slots__ = ('name', 'decomposition_subgraph_index', 'composite_attributes', 'composite_attributes_format', 'version',)

    def __init__(
        self,
        name: str | None = None,
        decomposition_subgraph_index: int = 0,
        composite_attributes: Blob | bytes | None = None,
        composite_attributes_format: int = 0,
        version: int = 0,
    ) -> None:
        self.name = name
        self.decomposition_subgraph_index = decomposition_subgraph_index
        self.composite_attributes = composite_attributes
        self.composite_attributes_format = composite_attributes_format
        self.version = version


class Operator(Table):
    """Table Operator of tflite.fbs."""

    __slots__ = ('opcode_index', 'inputs', 'outputs', 'builtin_options_type', 'builtin_options', 'custom_options', 'custom_options_format', 'mutating_variable_inputs', 'intermediates', 'large_custom_options_offset', 'large_custom_options_size', 'builtin_options2_type', 'builtin_options2', 'debug_metadata_index',)

    def __init__(
        self,
        opcode_index: int = 0,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        builtin_options_type: int = 0,
        builtin_options: Table | None = None,
        custom_options: Blob | bytes | None = None,
        custom_options_format: int = 0,
        mutating_variable_inputs: Sequence[bool] | None = None,
        intermediates: Sequence[int] | None = None,
        large_custom_options_offset: int = 0,
        large_custom_options_size: int = 0,
        builtin_options2_type: int = 0,
        builtin_options2: Table | None = None,
        debug_metadata_index: int = -1,
    ) -> None:
        self.opcode_index = opcode_index
        self.inputs = inputs
        self.outputs = outputs
        self.builtin_options_type = builtin_options_type
        self.builtin_options = builtin_options
        self.custom_options = custom_options
        self.custom_options_format = custom_options_format
        self.mutating_variable_inputs = mutating_variable_inputs
        self.intermediates = intermediates
        self.large_custom_options_offset = large_custom_options_offset
        self.large_custom_options_size = large_custom_options_size
        self.builtin_options2_type = builtin_options2_type
        self.builtin_options2 = builtin_options2
        self.debug_metadata_index = debug_metadata_index


class SubGraph(Table):
    """Table SubGraph of tflite.fbs."""

    __slots__ = ('tensors', 'inputs', 'outputs', 'operators', 'name', 'debug_metadata_index',)

    def __init__(
        self,
        tensors: Sequence[Tensor] | None = None,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        operators: Sequence[Operator] | None = None,
        name: str | None = None,
        debug_metadata_index: int = -1,
    ) -> None:
        self.tensors = tensors
        self.inputs = inputs
        self.outputs = outputs
        self.operators = operators
        self.name = name
        self.debug_metadata_index = debug_metadata_index


class Buffer(Table):
    """Table Buffer of tflite.fbs."""

    __slots__ = ('data', 'offset', 'size',)

    def __init__(
        self,
        data: Blob | bytes | None = None,
        offset: int = 0,
        size: int = 0,
    ) -> None:
        self.data = data
        self.offset = offset
        self.size = size


class ExternalBufferGroup(Table):
    """Table ExternalBufferGroup of tflite.fbs."""

    __slots__ = ('name',)

    def __init__(
        self,
        name: str | None = None,
    ) -> None:
        self.name = name


class ExternalBuffer(Table):
    """Table ExternalBuffer of tflite.fbs."""

    __slots__ = ('id', 'group', 'offset', 'length', 'packing',)

    def __init__(
        self,
        id: int = 0,
        group: int = 0,
        offset: int = 0,
        length: int = 0,
        packing: str | None = None,
    ) -> None:
        self.id = id
        self.group = group
        self.offset = offset
        self.length = length
        self.packing = packing


class Metadata(Table):
    """Table Metadata of tflite.fbs."""

    __slots__ = ('name', 'buffer',)

    def __init__(
        self,
        name: str | None = None,
        buffer: int = 0,
    ) -> None:
        self.name = name
        self.buffer = buffer


class TensorMap(Table):
    """Table TensorMap of tflite.fbs."""

    __slots__ = ('name', 'tensor_index',)

    def __init__(
        self,
        name: str | None = None,
        tensor_index: int = 0,
    ) -> None:
        self.name = name
        self.tensor_index = tensor_index


class SignatureDef(Table):
    """Table SignatureDef of tflite.fbs."""

    __slots__ = ('inputs', 'outputs', 'signature_key', 'unused3', 'subgraph_index',)

    def __init__(
        self,
        inputs: Sequence[TensorMap] | None = None,
        outputs: Sequence[TensorMap] | None = None,
        signature_key: str | None = None,
        unused3: int = 0,
        subgraph_index: int = 0,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.signature_key = signature_key
        self.unused3 = unused3
        self.subgraph_index = subgraph_index


class Model(Table):
    """Table Model of tflite.fbs."""

    __slots__ = ('version', 'operator_codes', 'subgraphs', 'description', 'buffers', 'metadata_buffer', 'metadata', 'signature_defs', 'external_buffer_groups', 'external_buffers',)
    IDENTIFIER = b'TFL3'

    def __init__(
        self,
        version: int = 0,
        operator_codes: Sequence[OperatorCode] | None = None,
        subgraphs: Sequence[SubGraph] | None = None,
        description: str | None = None,
        buffers: Sequence[Buffer] | None = None,
        metadata_buffer: Sequence[int] | None = None,
        metadata: Sequence[Metadata] | None = None,
        signature_defs: Sequence[SignatureDef] | None = None,
        external_buffer_groups: Sequence[ExternalBufferGroup] | None = None,
        external_buffers: Sequence[ExternalBuffer] | None = None,
    ) -> None:
        self.version = version
        self.operator_codes = operator_codes
        self.subgraphs = subgraphs
        self.description = description
        self.buffers = buffers
        self.metadata_buffer = metadata_buffer
        self.metadata = metadata
        self.signature_defs = signature_defs
        self.external_buffer_groups = external_buffer_groups
        self.external_buffers = external_buffers


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

BlockwiseQuantization.FIELDS = (
    Field('scales', 4, 'int', 0),
    Field('zero_points', 6, 'int', 0),
    Field('block_size', 8, 'int', 0),
    Field('block_shape', 10, 'vector', None, 'int', None),
)
MultiAxisQuantization.FIELDS = (
    Field('scales', 4, 'int', 0),
    Field('zero_points', 6, 'int', 0),
    Field('block_size', 8, 'int', 0),
    Field('quantized_dimensions', 10, 'vector', None, 'int', None),
)
QuantizationParameters.FIELDS = (
    Field('min', 4, 'vector', None, 'float', None),
    Field('max', 6, 'vector', None, 'float', None),
    Field('scale', 8, 'vector', None, 'float', None),
    Field('zero_point', 10, 'vector', None, 'long', None),
    Field('details_type', 12, 'ubyte', 0),
    Field('details', 14, 'union', None, choices=QuantizationDetails),
    Field('quantized_dimension', 16, 'int', 0),
)
Int32Vector.FIELDS = (
    Field('values', 4, 'vector', None, 'int', None),
)
Uint16Vector.FIELDS = (
    Field('values', 4, 'vector', None, 'ushort', None),
)
Uint8Vector.FIELDS = (
    Field('values', 4, 'vector', None, 'ubyte', None),
)
DimensionMetadata.FIELDS = (
    Field('format', 4, 'byte', 0),
    Field('dense_size', 6, 'int', 0),
    Field('array_segments_type', 8, 'ubyte', 0),
    Field('array_segments', 10, 'union', None, choices=SparseIndexVector),
    Field('array_indices_type', 12, 'ubyte', 0),
    Field('array_indices', 14, 'union', None, choices=SparseIndexVector),
)
SparsityParameters.FIELDS = (
    Field('traversal_order', 4, 'vector', None, 'int', None),
    Field('block_map', 6, 'vector', None, 'int', None),
    Field('dim_metadata', 8, 'vector', None, 'table', DimensionMetadata),
)
Tensor.FIELDS = (
    Field('shape', 4, 'vector', None, 'int', None),
    Field('type', 6, 'byte', 0),
    Field('buffer', 8, 'uint', 0),
    Field('name', 10, 'string', None),
    Field('quantization', 12, 'table', None, None, QuantizationParameters),
    Field('is_variable', 14, 'bool', False),
    Field('sparsity', 16, 'table', None, None, SparsityParameters),
    Field('shape_signature', 18, 'vector', None, 'int', None),
    Field('has_rank', 20, 'bool', False),
    Field('variant_tensors', 22, 'vector', None, 'uint', None),
    Field('external_buffer', 24, 'uint', 0),
)
StablehloGatherOptions.FIELDS = (
    Field('offset_dims', 4, 'vector', None, 'long', None),
    Field('collapsed_slice_dims', 6, 'vector', None, 'long', None),
    Field('start_index_map', 8, 'vector', None, 'long', None),
    Field('index_vector_dim', 10, 'long', 0),
    Field('slice_sizes', 12, 'vector', None, 'long', None),
    Field('indices_are_sorted', 14, 'bool', False),
)
StablehloTransposeOptions.FIELDS = (
    Field('permutation', 4, 'vector', None, 'long', None),
)
StablehloDotGeneralOptions.FIELDS = (
    Field('lhs_batching_dimensions', 4, 'vector', None, 'long', None),
    Field('rhs_batching_dimensions', 6, 'vector', None, 'long', None),
    Field('lhs_contracting_dimensions', 8, 'vector', None, 'long', None),
    Field('rhs_contracting_dimensions', 10, 'vector', None, 'long', None),
    Field('precision_config', 12, 'vector', None, 'uint', None),
)
StablehloReduceWindowOptions.FIELDS = (
    Field('window_dimensions', 4, 'vector', None, 'long', None),
    Field('window_strides', 6, 'vector', None, 'long', None),
    Field('base_dilations', 8, 'vector', None, 'long', None),
    Field('window_dilations', 10, 'vector', None, 'long', None),
    Field('padding', 12, 'vector', None, 'long', None),
    Field('body_subgraph_index', 14, 'int', 0),
)
StablehloWhileOptions.FIELDS = (
    Field('cond_subgraph_index', 4, 'int', 0),
    Field('body_subgraph_index', 6, 'int', 0),
)
StablehloSortOptions.FIELDS = (
    Field('dimension', 4, 'long', 0),
    Field('is_stable', 6, 'bool', False),
    Field('comparator_subgraph_index', 8, 'int', 0),
)
StablehloConcatenateOptions.FIELDS = (
    Field('dimension', 4, 'long', 0),
)
StablehloBroadcastInDimOptions.FIELDS = (
    Field('broadcast_dimensions', 4, 'vector', None, 'long', None),
)
StablehloCompareOptions.FIELDS = (
    Field('comparison_direction', 4, 'uint', 0),
    Field('compare_type', 6, 'uint', 0),
)
StablehloDynamicSliceOptions.FIELDS = (
    Field('slice_sizes', 4, 'vector', None, 'long', None),
)
StablehloPadOptions.FIELDS = (
    Field('edge_padding_low', 4, 'vector', None, 'long', None),
    Field('edge_padding_high', 6, 'vector', None, 'long', None),
    Field('interior_padding', 8, 'vector', None, 'long', None),
)
StablehloIotaOptions.FIELDS = (
    Field('iota_dimension', 4, 'long', 0),
)
StablehloReduceOptions.FIELDS = (
    Field('dimensions', 4, 'vector', None, 'long', None),
    Field('body_subgraph_index', 6, 'int', 0),
)
StablehloSliceOptions.FIELDS = (
    Field('start_indices', 4, 'vector', None, 'long', None),
    Field('limit_indices', 6, 'vector', None, 'long', None),
    Field('strides', 8, 'vector', None, 'long', None),
)
StablehloConvolutionOptions.FIELDS = (
    Field('window_strides', 4, 'vector', None, 'long', None),
    Field('padding', 6, 'vector', None, 'long', None),
    Field('lhs_dilation', 8, 'vector', None, 'long', None),
    Field('rhs_dilation', 10, 'vector', None, 'long', None),
    Field('window_reversal', 12, 'vector', None, 'bool', None),
    Field('input_batch_dimension', 14, 'long', 0),
    Field('input_feature_dimension', 16, 'long', 0),
    Field('input_spatial_dimensions', 18, 'vector', None, 'long', None),
    Field('kernel_input_feature_dimension', 20, 'long', 0),
    Field('kernel_output_feature_dimension', 22, 'long', 0),
    Field('kernel_spatial_dimensions', 24, 'vector', None, 'long', None),
    Field('output_batch_dimension', 26, 'long', 0),
    Field('output_feature_dimension', 28, 'long', 0),
    Field('output_spatial_dimensions', 30, 'vector', None, 'long', None),
    Field('feature_group_count', 32, 'long', 0),
    Field('batch_group_count', 34, 'long', 0),
    Field('precision_config', 36, 'vector', None, 'uint', None),
)
StablehloScatterOptions.FIELDS = (
    Field('indices_are_sorted', 4, 'bool', False),
    Field('update_window_dims', 6, 'vector', None, 'long', None),
    Field('inserted_window_dims', 8, 'vector', None, 'long', None),
    Field('scatter_dims_to_operand_dims', 10, 'vector', None, 'long', None),
    Field('index_vector_dim', 12, 'long', 0),
    Field('unique_indices', 14, 'bool', False),
    Field('update_computation_subgraph_index', 16, 'int', 0),
)
StablehloCaseOptions.FIELDS = (
    Field('branch_subgraph_indices', 4, 'vector', None, 'int', None),
)
Conv2DOptions.FIELDS = (
    Field('padding', 4, 'byte', 0),
    Field('stride_w', 6, 'int', 0),
    Field('stride_h', 8, 'int', 0),
    Field('fused_activation_function', 10, 'byte', 0),
    Field('dilation_wfactor', 12, 'int', 1),
    Field('dilation_hfactor', 14, 'int', 1),
    Field('quantized_bias_type', 16, 'byte', 0),
)
Conv3DOptions.FIELDS = (
    Field('padding', 4, 'byte', 0),
    Field('stride_d', 6, 'int', 0),
    Field('stride_w', 8, 'int', 0),
    Field('stride_h', 10, 'int', 0),
    Field('fused_activation_function', 12, 'byte', 0),
    Field('dilation_dfactor', 14, 'int', 1),
    Field('dilation_wfactor', 16, 'int', 1),
    Field('dilation_hfactor', 18, 'int', 1),
)
Pool2DOptions.FIELDS = (
    Field('padding', 4, 'byte', 0),
    Field('stride_w', 6, 'int', 0),
    Field('stride_h', 8, 'int', 0),
    Field('filter_width', 10, 'int', 0),
    Field('filter_height', 12, 'int', 0),
    Field('fused_activation_function', 14, 'byte', 0),
)
DepthwiseConv2DOptions.FIELDS = (
    Field('padding', 4, 'byte', 0),
    Field('stride_w', 6, 'int', 0),
    Field('stride_h', 8, 'int', 0),
    Field('depth_multiplier', 10, 'int', 0),
    Field('fused_activation_function', 12, 'byte', 0),
    Field('dilation_wfactor', 14, 'int', 1),
    Field('dilation_hfactor', 16, 'int', 1),
)
SVDFOptions.FIELDS = (
    Field('rank', 4, 'int', 0),
    Field('fused_activation_function', 6, 'byte', 0),
    Field('asymmetric_quantize_inputs', 8, 'bool', False),
)
RNNOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('asymmetric_quantize_inputs', 6, 'bool', False),
)
SequenceRNNOptions.FIELDS = (
    Field('time_major', 4, 'bool', False),
    Field('fused_activation_function', 6, 'byte', 0),
    Field('asymmetric_quantize_inputs', 8, 'bool', False),
)
BidirectionalSequenceRNNOptions.FIELDS = (
    Field('time_major', 4, 'bool', False),
    Field('fused_activation_function', 6, 'byte', 0),
    Field('merge_outputs', 8, 'bool', False),
    Field('asymmetric_quantize_inputs', 10, 'bool', False),
)
FullyConnectedOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('weights_format', 6, 'byte', 0),
    Field('keep_num_dims', 8, 'bool', False),
    Field('asymmetric_quantize_inputs', 10, 'bool', False),
    Field('quantized_bias_type', 12, 'byte', 0),
    Field('quant_spec', 14, 'vector', None, 'ubyte', None),
)
SoftmaxOptions.FIELDS = (
    Field('beta', 4, 'float', 0.0),
)
ConcatenationOptions.FIELDS = (
    Field('axis', 4, 'int', 0),
    Field('fused_activation_function', 6, 'byte', 0),
)
AddOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('pot_scale_int16', 6, 'bool', True),
)
MulOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
)
L2NormOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
)
LocalResponseNormalizationOptions.FIELDS = (
    Field('radius', 4, 'int', 0),
    Field('bias', 6, 'float', 0.0),
    Field('alpha', 8, 'float', 0.0),
    Field('beta', 10, 'float', 0.0),
)
LSTMOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('cell_clip', 6, 'float', 0.0),
    Field('proj_clip', 8, 'float', 0.0),
    Field('kernel_type', 10, 'byte', 0),
    Field('asymmetric_quantize_inputs', 12, 'bool', False),
)
UnidirectionalSequenceLSTMOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('cell_clip', 6, 'float', 0.0),
    Field('proj_clip', 8, 'float', 0.0),
    Field('time_major', 10, 'bool', False),
    Field('asymmetric_quantize_inputs', 12, 'bool', False),
    Field('diagonal_recurrent_tensors', 14, 'bool', False),
)
BidirectionalSequenceLSTMOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('cell_clip', 6, 'float', 0.0),
    Field('proj_clip', 8, 'float', 0.0),
    Field('merge_outputs', 10, 'bool', False),
    Field('time_major', 12, 'bool', True),
    Field('asymmetric_quantize_inputs', 14, 'bool', False),
)
ResizeBilinearOptions.FIELDS = (
    Field('unused0', 4, 'ubyte', 0),
    Field('unused1', 6, 'ubyte', 0),
    Field('align_corners', 8, 'bool', False),
    Field('half_pixel_centers', 10, 'bool', False),
)
ResizeNearestNeighborOptions.FIELDS = (
    Field('align_corners', 4, 'bool', False),
    Field('half_pixel_centers', 6, 'bool', False),
)
ReshapeOptions.FIELDS = (
    Field('new_shape', 4, 'vector', None, 'int', None),
)
SpaceToDepthOptions.FIELDS = (
    Field('block_size', 4, 'int', 0),
)
DepthToSpaceOptions.FIELDS = (
    Field('block_size', 4, 'int', 0),
)
SubOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
    Field('pot_scale_int16', 6, 'bool', True),
)
DivOptions.FIELDS = (
    Field('fused_activation_function', 4, 'byte', 0),
)
GatherOptions.FIELDS = (
    Field('axis', 4, 'int', 0),
    Field('batch_dims', 6, 'int', 0),
)
ReducerOptions.FIELDS = (
    Field('keep_dims', 4, 'bool', False),
)
SqueezeOptions.FIELDS = (
    Field('squeeze_dims', 4, 'vector', None, 'int', None),
)
SplitOptions.FIELDS = (
    Field('num_splits', 4, 'int', 0),
)
SplitVOptions.FIELDS = (
    Field('num_splits', 4, 'int', 0),
)
StridedSliceOptions.FIELDS = (
    Field('begin_mask', 4, 'int', 0),
    Field('end_mask', 6, 'int', 0),
    Field('ellipsis_mask', 8, 'int', 0),
    Field('new_axis_mask', 10, 'int', 0),
    Field('shrink_axis_mask', 12, 'int', 0),
    Field('offset', 14, 'bool', False),
)
CastOptions.FIELDS = (
    Field('in_data_type', 4, 'byte', 0),
    Field('out_data_type', 6, 'byte', 0),
)
ArgMaxOptions.FIELDS = (
    Field('output_type', 4, 'byte', 0),
)
ArgMinOptions.FIELDS = (
    Field('output_type', 4, 'byte', 0),
)
TransposeConvOptions.FIELDS = (
    Field('padding', 4, 'byte', 0),
    Field('stride_w', 6, 'int', 0),
    Field('stride_h', 8, 'int', 0),
    Field('fused_activation_function', 10, 'byte', 0),
    Field('quantized_bias_type', 12, 'byte', 0),
)
SparseToDenseOptions.FIELDS = (
    Field('validate_indices', 4, 'bool', False),
)
ShapeOptions.FIELDS = (
    Field('out_type', 4, 'byte', 0),
)
FakeQuantOptions.FIELDS = (
    Field('min', 4, 'float', 0.0),
    Field('max', 6, 'float', 0.0),
    Field('num_bits', 8, 'int', 0),
    Field('narrow_range', 10, 'bool', False),
)
PackOptions.FIELDS = (
    Field('values_count', 4, 'int', 0),
    Field('axis', 6, 'int', 0),
)
OneHotOptions.FIELDS = (
    Field('axis', 4, 'int', 0),
)
UnpackOptions.FIELDS = (
    Field('num', 4, 'int', 0),
    Field('axis', 6, 'int', 0),
)
LeakyReluOptions.FIELDS = (
    Field('alpha', 4, 'float', 0.0),
)
MirrorPadOptions.FIELDS = (
    Field('mode', 4, 'byte', 0),
)
UniqueOptions.FIELDS = (
    Field('idx_out_type', 4, 'byte', 2),
)
ReverseSequenceOptions.FIELDS = (
    Field('seq_dim', 4, 'int', 0),
    Field('batch_dim', 6, 'int', 0),
)
IfOptions.FIELDS = (
    Field('then_subgraph_index', 4, 'int', 0),
    Field('else_subgraph_index', 6, 'int', 0),
)
CallOnceOptions.FIELDS = (
    Field('init_subgraph_index', 4, 'int', 0),
)
WhileOptions.FIELDS = (
    Field('cond_subgraph_index', 4, 'int', 0),
    Field('body_subgraph_index', 6, 'int', 0),
)
BatchMatMulOptions.FIELDS = (
    Field('adj_x', 4, 'bool', False),
    Field('adj_y', 6, 'bool', False),
    Field('asymmetric_quantize_inputs', 8, 'bool', False),
)
CumsumOptions.FIELDS = (
    Field('exclusive', 4, 'bool', False),
    Field('reverse', 6, 'bool', False),
)
VarHandleOptions.FIELDS = (
    Field('container', 4, 'string', None),
    Field('shared_name', 6, 'string', None),
)
RandomOptions.FIELDS = (
    Field('seed', 4, 'long', 0),
    Field('seed2', 6, 'long', 0),
)
BucketizeOptions.FIELDS = (
    Field('boundaries', 4, 'vector', None, 'float', None),
)
GeluOptions.FIELDS = (
    Field('approximate', 4, 'bool', False),
)
ReduceWindowOptions.FIELDS = (
    Field('reduce_function', 4, 'int', 0),
)
OperatorCode.FIELDS = (
    Field('deprecated_builtin_code', 4, 'byte', 0),
    Field('custom_code', 6, 'string', None),
    Field('version', 8, 'int', 1),
    Field('builtin_code', 10, 'int', 0),
)
StableHLOCompositeOptions.FIELDS = (
    Field('name', 4, 'string', None),
    Field('decomposition_subgraph_index', 6, 'int', 0),
    Field('composite_attributes', 8, 'vector', None, 'ubyte', None),
    Field('composite_attributes_format', 10, 'byte', 0),
    Field('version', 12, 'int', 0),
)
Operator.FIELDS = (
    Field('opcode_index', 4, 'uint', 0),
    Field('inputs', 6, 'vector', None, 'int', None),
    Field('outputs', 8, 'vector', None, 'int', None),
    Field('builtin_options_type', 10, 'ubyte', 0),
    Field('builtin_options', 12, 'union', None, choices=BuiltinOptions),
    Field('custom_options', 14, 'vector', None, 'ubyte', None),
    Field('custom_options_format', 16, 'byte', 0),
    Field('mutating_variable_inputs', 18, 'vector', None, 'bool', None),
    Field('intermediates', 20, 'vector', None, 'int', None),
    Field('large_custom_options_offset', 22, 'ulong', 0),
    Field('large_custom_options_size', 24, 'ulong', 0),
    Field('builtin_options2_type', 26, 'ubyte', 0),
    Field('builtin_options2', 28, 'union', None, choices=BuiltinOptions2),
    Field('debug_metadata_index', 30, 'int', -1),
)
SubGraph.FIELDS = (
    Field('tensors', 4, 'vector', None, 'table', Tensor),
    Field('inputs', 6, 'vector', None, 'int', None),
    Field('outputs', 8, 'vector', None, 'int', None),
    Field('operators', 10, 'vector', None, 'table', Operator),
    Field('name', 12, 'string', None),
    Field('debug_metadata_index', 14, 'int', -1),
)
Buffer.FIELDS = (
    Field('data', 4, 'vector', None, 'ubyte', None),
    Field('offset', 6, 'ulong', 0),
    Field('size', 8, 'ulong', 0),
)
ExternalBufferGroup.FIELDS = (
    Field('name', 4, 'string', None),
)
ExternalBuffer.FIELDS = (
    Field('id', 4, 'uint', 0),
    Field('group', 6, 'uint', 0),
    Field('offset', 8, 'ulong', 0),
    Field('length', 10, 'ulong', 0),
    Field('packing', 12, 'string', None),
)
Metadata.FIELDS = (
    Field('name', 4, 'string', None),
    Field('buffer', 6, 'uint', 0),
)
TensorMap.FIELDS = (
    Field('name', 4, 'string', None),
    Field('tensor_index', 6, 'uint', 0),
)
SignatureDef.FIELDS = (
    Field('inputs', 4, 'vector', None, 'table', TensorMap),
    Field('outputs', 6, 'vector', None, 'table', TensorMap),
    Field('signature_key', 8, 'string', None),
    Field('unused3', 10, 'ubyte', 0),
    Field('subgraph_index', 12, 'uint', 0),
)
Model.FIELDS = (
    Field('version', 4, 'uint', 0),
    Field('operator_codes', 6, 'vector', None, 'table', OperatorCode),
    Field('subgraphs', 8, 'vector', None, 'table', SubGraph),
    Field('description', 10, 'string', None),
    Field('buffers', 12, 'vector', None, 'table', Buffer),
    Field('metadata_buffer', 14, 'vector', None, 'int', None),
    Field('metadata', 16, 'vector', None, 'table', Metadata),
    Field('signature_defs', 18, 'vector', None, 'table', SignatureDef),
    Field('external_buffer_groups', 20, 'vector', None, 'table', ExternalBufferGroup),
    Field('external_buffers', 22, 'vector', None, 'table', ExternalBuffer),
)
