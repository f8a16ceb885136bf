"""A product of a few rows with a panel of weights, in vector registers.

numba has no vectors of its own, so this one function is in LLVM's language.  ``ROWS`` times ``WIDTH`` sums
stay in registers.  Each step multiplies a group of 32 bits: four bytes where the processor has an instruction
for that (AVX-512 VNNI), elsewhere two numbers of 16 bits.  Both are exact.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

binding.initialize_native_asmparser()
_, _, _features = cpu_target.target_context.codegen().magic_tuple()
_FEATURES = frozenset(_features.split(","))
"""Those of the processor that numba compiles for: its settings may leave out some of this machine's."""
HAS_BYTES = "+avx512vnni" in _FEATURES
"""Whether the processor multiplies four bytes at a time."""
ROWS, _VECTORS = 6, 2
_LANES = 16 if "+avx512f" in _FEATURES else 8
WIDTH = _VECTORS * _LANES

_INDEX, _WORD = ir.IntType(64), ir.IntType(32)
_SUMS = ir.VectorType(_WORD, _LANES)
_WORD_BYTES = 4


@intrinsic  # type: ignore[untyped-decorator]
def multiply(context: Any, rows: Any, first: Any, weights: Any, panel: Any, sums: Any) -> Any:
    """Multiply rows with a panel of weights.

    Args:
        rows: [any, K] contiguous; uint8 for signed bytes as weights, int16 for int16.
        first: The first of ``ROWS`` rows.
        weights: [panels, K / group, WIDTH, group] contiguous.
        panel: The panel.
        sums: [ROWS, WIDTH] contiguous, int32; gets the result.
    """
    del context
    product = _of_bytes if weights.dtype == types.int8 else _of_halves

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, args, strict=True)
            if isinstance(kind, types.Array)
        ]
        row_bytes, _ = _strides(builder, arrays[0])
        panel_bytes, group_bytes = _strides(builder, arrays[1])
        starts = [builder.ptrtoint(array.data, _INDEX) for array in arrays]
        left = builder.add(starts[0], builder.mul(args[1], row_bytes))
        right = builder.add(starts[1], builder.mul(args[3], panel_bytes))
        end = builder.add(right, panel_bytes)

        before, loop, after = builder.block, *map(builder.append_basic_block, ("groups", "done"))
        builder.branch(loop)
        builder.position_at_end(loop)
        row, column = builder.phi(_INDEX), builder.phi(_INDEX)
        totals = [[builder.phi(_SUMS) for _ in range(_VECTORS)] for _ in range(ROWS)]
        panels = [_load(builder, column, _SUMS, _WORD_BYTES * _LANES * vector) for vector in range(_VECTORS)]
        results, place = [], row
        for number in range(ROWS):
            word = builder.insert_element(_undefined(_SUMS), _load(builder, place, _WORD), _number(_WORD, 0))
            broadcast = builder.shuffle_vector(word, _undefined(_SUMS), _lanes([0] * _LANES))
            pairs = zip(totals[number], panels, strict=True)
            results.append([product(builder, total, broadcast, right) for total, right in pairs])
            place = builder.add(place, row_bytes)
        next_column = builder.add(column, group_bytes)
        for phi, begin, following in (
            (row, left, builder.add(row, _number(_INDEX, _WORD_BYTES))),
            (column, right, next_column),
            *((total, _zero(), new) for old, made in zip(totals, results, strict=True)
              for total, new in zip(old, made, strict=True)),
        ):  # fmt: skip
            phi.add_incoming(begin, before)
            phi.add_incoming(following, loop)
        builder.cbranch(builder.icmp_unsigned("<", next_column, end), loop, after)
        builder.position_at_end(after)
        for number, vector in enumerate(vector for line in results for vector in line):
            place = builder.add(starts[2], _number(_INDEX, number * _LANES * _WORD_BYTES))
            builder.store(vector, builder.inttoptr(place, ir.PointerType(_SUMS)), align=_WORD_BYTES)
        return context.get_dummy_value()

    return types.void(rows, first, weights, panel, sums), generate


def _of_bytes(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """Return sums plus products of four unsigned bytes with four signed ones."""
    kind = ir.FunctionType(_SUMS, [_SUMS, _SUMS, _SUMS])
    return builder.call(ir.InlineAsm(kind, "vpdpbusd $3, $2, $0", "=v,0,v,v"), [total, left, right])


def _of_halves(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """Return sums plus products of two numbers of 16 bits with two others."""
    halves, words = ir.VectorType(ir.IntType(16), 2 * _LANES), ir.VectorType(_WORD, 2 * _LANES)
    wide = (builder.sext(builder.bitcast(value, halves), words) for value in (left, right))
    products = builder.mul(*wide)
    parts = (
        builder.shuffle_vector(products, _undefined(words), _lanes(range(place, 2 * _LANES, 2)))
        for place in (0, 1)
    )
    return builder.add(total, builder.add(*parts))


def _strides(builder: Any, array: Any) -> tuple[Any, Any]:
    """Return the bytes from one item of the first and of the second axis to the next."""
    return builder.extract_value(array.strides, 0), builder.extract_value(array.strides, 1)


def _load(builder: Any, place: Any, kind: Any, offset: int = 0) -> Any:
    place = builder.add(place, _number(_INDEX, offset))
    return builder.load(builder.inttoptr(place, ir.PointerType(kind)), align=1)


def _number(kind: Any, value: int) -> Any:
    return ir.Constant(kind, value)


def _undefined(kind: Any) -> Any:
    return ir.Constant(kind, ir.Undefined)


def _zero() -> Any:
    return ir.Constant(_SUMS, [0] * _LANES)


def _lanes(numbers: Any) -> Any:
    lanes = [*numbers]
    return ir.Constant(ir.VectorType(_WORD, len(lanes)), lanes)
