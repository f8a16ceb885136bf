"""Text of strangers, fit to be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return text with what has no glyph, or turns others around, as codes; line breaks too.

    Example:
        >>> printable("a\tb")
        'a\\u0009b'
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
