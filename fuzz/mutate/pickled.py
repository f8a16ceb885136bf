"""Mutations of pickles as opcodes."""

from __future__ import annotations

import pickletools
import random
import struct
from itertools import pairwise

from fuzz.mutate.plain import mutate_bytes
from fuzz.mutate.values import TEXTS, integer

_NAMES = (
    b"cbuiltins\neval\n", b"cos\nsystem\n", b"ctorch\nFloatStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ccollections\nOrderedDict\n", b"c__torch__\nNet\n", b"ctorch\ndevice\n",
)  # fmt: skip
_BARE = b"0()}]{NRbtsuae.Q\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94"


def mutate_pickle(rng: random.Random, data: bytes, donor: bytes = b"") -> bytes:
    """Return a pickle with opcodes removed, repeated, exchanged or replaced."""
    try:
        ops = list(pickletools.genops(data))
    except ValueError:
        return mutate_bytes(rng, data, donor)
    starts = [position or 0 for _, _, position in ops] + [len(data)]
    parts = [data[one:two] for one, two in pairwise(starts)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, kind = rng.randrange(1, max(len(parts), 2)), rng.randrange(6)
        if kind == 0:
            del parts[at : at + rng.choice((1, 1, 3))]
        elif kind == 1:
            parts[at:at] = parts[at : at + rng.choice((1, 4, 12))] * rng.choice((1, 1, 3, 60))
        elif kind == 2 and at < len(parts):
            other_at = rng.randrange(len(parts))
            parts[at], parts[other_at] = parts[other_at], parts[at]
        else:
            parts[at : at + rng.choice((0, 1, 1, 1))] = [_opcode(rng)]
    return b"".join(parts)


def _opcode(rng: random.Random) -> bytes:
    text = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    return rng.choice(
        (
            b"X" + struct.pack("<I", len(text)) + text,
            b"J" + struct.pack("<I", integer(rng, 32)),
            b"\x8a\x08" + struct.pack("<Q", integer(rng)),
            rng.choice((b"h", b"q")) + rng.randbytes(1),
            rng.choice(_NAMES),
            bytes([rng.choice(_BARE)]),
        )
    )
