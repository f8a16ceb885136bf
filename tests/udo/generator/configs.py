"""OpDef XML for tests, put together from short words."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr


def operand(
    tag: str,
    name: str,
    types: str = "FLOAT_32",
    rank: str = "ND",
    *,
    text: str = "",
    optional: bool = False,
    default: str | None = None,
    values: tuple[str, ...] = (),
    more: str = "",
) -> str:
    """Return an input, output or parameter; ``types`` are parted by commas."""
    parts = [f"<Datatype>{each}</Datatype>" for each in types.split(",")]
    parts.append(f"<Shape><Rank>{rank}</Rank><Text>{escape(text)}</Text></Shape>")
    if default is not None:
        parts.append(f"<Default>{escape(default)}</Default>")
    if values:
        parts.append(f"<Enumeration>{''.join(f'<Enum>{escape(v)}</Enum>' for v in values)}</Enumeration>")
    mandatory = "false" if optional else "true"
    head = f"<Name>{escape(name)}</Name><Mandatory>{mandatory}</Mandatory>"
    return f"<{tag}>{head}{''.join(parts)}{more}</{tag}>"


def op(name: str, *operands: str, text: str = "", backends: tuple[str, ...] = ("CPU",)) -> str:
    """Return an operation."""
    told = f"<Description><Content>{escape(text)}</Content></Description>" if text else ""
    cores = "".join(f"<SupportedBackend>{name}</SupportedBackend>" for name in backends)
    return f"<OpDef><Name>{name}</Name>{told}{''.join(operands)}{cores}</OpDef>"


def unary(name: str, *, backends: tuple[str, ...] = ("CPU",)) -> str:
    """Return an operation of one input and one output of the same shape."""
    one = operand("Input", "x", rank="4D", text="[n, h, w, c]")
    other = operand("Output", "y", rank="4D", text="[n, h, w, c]")
    return op(name, one, other, backends=backends)


def package(name: str, *ops: str, version: str = "1.0", more: str = "") -> str:
    """Return a configuration."""
    head = f'PackageName="{name}" Domain="example" Version={quoteattr(version)}'
    return f"<OpDefCollection {head}><OpDefList>{''.join(ops)}</OpDefList>{more}</OpDefCollection>"
