"""Compiles into a kernel what brings its tensors into the formats that it wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xdlc.errors import UsageError
from xdlc.udo.plugin.formats import find_format

SOURCE = Path(__file__).parent / "native" / "packed.c"
_NUMBERS = {"NC1HWC0": 1}
"""Packed formats of activations that ``packed.c`` knows; 0 stands for all that move nothing there."""


def outer_name(entry: str) -> str:
    """Return the name of the kernel around a kernel."""
    return f"{entry}_packed"


def needs_packing(formats: Sequence[str]) -> bool:
    """Return whether any of the formats moves elements."""
    return any(find_format(name).is_packed for name in formats)


def formats_header(entry: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Return the text of ``formats.h``, of which ``packed.c`` makes the kernel around a kernel.

    Args:
        entry: Function of the inner kernel.
        inputs: Formats of the inputs; ``ND`` where they come as they are stored.
        outputs: Formats of the outputs.

    Raises:
        UsageError: If activations do not come in a format.
    """
    names = (*inputs, *outputs)
    for name in names:
        if find_format(name).for_weights_only:
            raise UsageError(f"format {name} is for weights", fix="name it in weight_formats")
    numbers = ", ".join(str(_NUMBERS[name] if find_format(name).is_packed else 0) for name in names)
    return "\n".join(
        (
            *(f"#define XDLC_{name} {number}" for name, number in _NUMBERS.items()),
            f"#define XDLC_INNER {entry}",
            f"#define XDLC_OUTER {outer_name(entry)}",
            f"#define XDLC_NUM_INPUTS {len(inputs)}",
            f"#define XDLC_NUM_OUTPUTS {len(outputs)}",
            f"static const unsigned char FORMATS[] = {{{numbers}}};",
            "",
        )
    )
