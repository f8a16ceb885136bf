"""The stored form of static data that users' ops read: what their definitions take, with one scale.

Which axis has channels, a definition does not say; scales per channel are taken over where they are given.
"""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED32, DType
from xdlc.quant.affine import asymmetric, in_type, stored_form, used_bits
from xdlc.quant.decision import Form
from xdlc.quant.options import QuantOptions
from xdlc.quant.precision import Precision
from xdlc.quant.udo import Place
from xdlc.quant.weight_methods import find_weight_method
from xdlc.quant.weight_storage import symmetric_method
from xdlc.quant.weights import bias_encoding, channel_ranges, channel_scales, weight_encoding, weight_steps


def custom_static_form(
    op: Op, tensor: Tensor, place: Place, precision: Precision, options: QuantOptions
) -> Form | None:
    """Return the stored form of a static input or parameter, or None if it stays float.

    Args:
        op: A quantized op of a user.
        tensor: Static floats; an encoding that they have is kept.
        place: What the definition takes.
        precision: Bits of weights, and the types that given encodings are for.
        options: Range method and steps of symmetric weights.

    Raises:
        ConstraintError: If the definition does not take an encoding that is given.
        ModelError: If the data hold NaN or infinite values.
    """
    if tensor.encoding is not None and place.static_types():
        return _given(op, tensor, tensor.encoding, precision.statics.get(tensor.name), place)
    stored = place.static(precision.weight_bits_of(op))
    if stored is None:
        return None
    if stored is SFIXED32:
        return stored, bias_encoding(channel_ranges(tensor, None), tensor.size, None, None)
    if not stored.is_signed:
        return stored, asymmetric(channel_ranges(tensor, None).whole, stored.bits, min_width=0.0)
    steps = weight_steps(stored.bits, options)
    fit = find_weight_method(symmetric_method(options, stored.bits), stored.bits)
    return stored_form(stored, weight_encoding(channel_scales(tensor, None, steps, fit), None, stored.bits))


def _given(op: Op, tensor: Tensor, encoding: Encoding, stated: DType | None, place: Place) -> Form:
    types = place.static_types()
    bits = used_bits(encoding) or (stated.bits if stated is not None else types[0].bits)
    if stated in types:
        return stored_form(stated, encoding)
    fits = [held for held in types if held.bits == bits]
    if isinstance(encoding, ScaleOffset):
        for held in fits:
            if stated is None or held.is_signed is stated.is_signed:
                return stored_form(held, encoding)
            return stored_form(held, in_type(encoding, stated, held))
    elif isinstance(encoding, AxisScaleOffset | BlockScaleOffset | BlockwiseExpansion):
        signed = not any(encoding.offsets)
        for held in fits:
            if held.is_signed is signed:
                return stored_form(held, encoding)
    raise ConstraintError(
        f"{tensor.name!r} has an encoding of {bits} bits ({type(encoding).__name__}); "
        f"the definition takes {place}",
        where=f"op {op.name!r} ({op.package}::{op.type})",
        fix="leave the encoding out, or name its type in the configuration",
        node=op.name,
        op=op.type,
    )
