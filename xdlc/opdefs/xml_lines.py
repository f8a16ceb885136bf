"""Lines of elements and attributes: lxml tells where a start tag ends, people look for where it begins."""

from __future__ import annotations

import re

from xdlc.opdefs.xml_elements import Element

LARGEST = 65_535
"""The largest line that lxml can be told; it counts beyond by itself."""
_TAG = re.compile(rb"<[^\s/>]+")
_ATTRIBUTE = re.compile(rb"\s+([^\s=<>/]+)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_BREAK = re.compile(rb"\r\n?|\n")

AttributeLines = dict[Element, dict[str, int]]
"""Lines of the attributes that do not stand on the first line of their element."""


def attribute_lines(data: bytes, start: int, line: int) -> dict[str, int]:
    r"""Return the lines of the attributes of a start tag; empty if all stand on its first line.

    Args:
        data: The document; of one with two bytes a character nothing is told.
        start: Offset of the tag.
        line: Its line.

    Example:
        >>> attribute_lines(b'<A b="1"\n  c="2"/>', 0, 7), attribute_lines(b'<A b="1"/>', 0, 1)
        ({'b': 7, 'c': 8}, {})
    """
    found: dict[str, int] = {}
    tag = _TAG.match(data, start)
    position = tag.end() if tag else len(data)
    here = line
    while match := _ATTRIBUTE.match(data, position):
        here += len(_BREAK.findall(data, position, match.start(1)))
        found[match[1].decode("utf-8", "replace")] = here
        here += len(_BREAK.findall(data, match.start(1), match.end()))
        position = match.end()
    return found if here != line else {}


def settle(root: Element, lines: list[int], attributes: dict[int, dict[str, int]]) -> AttributeLines:
    """Give elements their first lines; return the lines of attributes.

    Args:
        root: An lxml element.
        lines: Lines of all elements, in the order of the document.
        attributes: Lines of attributes, by the place of their element in that order.
    """
    found: AttributeLines = {}
    for index, (element, line) in enumerate(zip(root.iter(), lines, strict=False)):
        if line < LARGEST:
            element.sourceline = line
        if index in attributes:
            found[element] = attributes[index]
    return found
