"""Graph passes: each rewrites a graph and keeps what it computes."""

from xdlc.passes.base import Pass, run
from xdlc.passes.cast_reinterpreted import CastReinterpreted
from xdlc.passes.dequantize_weights import DequantizeWeights
from xdlc.passes.exact_casts import ExactCasts
from xdlc.passes.fold_affine import FoldAffine
from xdlc.passes.fold_batchnorm import FoldBatchnorm
from xdlc.passes.fold_pad import FoldPad
from xdlc.passes.fold_quantize_dequantize import FoldQuantizeDequantize
from xdlc.passes.fold_transpose_into_fully_connected import FoldTransposeIntoFullyConnected
from xdlc.passes.fuse_gelu import FuseGelu
from xdlc.passes.fuse_hard_swish import FuseHardSwish
from xdlc.passes.lift_scalar_io import LiftScalarIo
from xdlc.passes.merge_casts import MergeCasts
from xdlc.passes.merge_views import MergeViews
from xdlc.passes.narrow_integers import NarrowIntegers
from xdlc.passes.prune import Prune
from xdlc.passes.reinterpret_io import ReinterpretIo
from xdlc.passes.store_quantized_weights import StoreQuantizedWeights
from xdlc.passes.widen_bytes import WidenBytes

CONVERTER: tuple[Pass, ...] = (
    FuseGelu(),
    FuseHardSwish(),
    FoldBatchnorm(),
    FoldAffine(),
    MergeViews(),
    MergeCasts(),
    FoldPad(),
    FoldTransposeIntoFullyConnected(),
    FoldQuantizeDequantize(),
    Prune(),
)
"""What the importers run, in this order, until nothing changes."""

STORAGE: tuple[Pass, ...] = (StoreQuantizedWeights(),)
"""What the importers run on the result, once."""

HTP: tuple[Pass, ...] = (
    LiftScalarIo(),
    ReinterpretIo(),
    NarrowIntegers(),
    ExactCasts(),
    WidenBytes(),
    DequantizeWeights(),
    CastReinterpreted(),
)
"""What brings a graph into the form that HTP takes, before it is asked about, compiled or emulated."""

HTP_ASKED: tuple[Pass, ...] = tuple(
    NarrowIntegers(check=False) if isinstance(entry, NarrowIntegers) else entry for entry in HTP
)
"""The same where integers that do not fit are reported in another way, to ask about the ops all the same."""

__all__ = [
    "CONVERTER",
    "HTP",
    "HTP_ASKED",
    "STORAGE",
    "CastReinterpreted",
    "DequantizeWeights",
    "ExactCasts",
    "FoldAffine",
    "FoldBatchnorm",
    "FoldPad",
    "FoldQuantizeDequantize",
    "FoldTransposeIntoFullyConnected",
    "FuseGelu",
    "FuseHardSwish",
    "LiftScalarIo",
    "MergeCasts",
    "MergeViews",
    "NarrowIntegers",
    "Pass",
    "Prune",
    "ReinterpretIo",
    "StoreQuantizedWeights",
    "WidenBytes",
    "run",
]
