"""Mutations of XML documents as elements."""

from __future__ import annotations

import copy
import random

from lxml import etree

from fuzz.mutate.plain import mutate_bytes, mutate_text
from fuzz.mutate.values import TEXTS


def mutate_xml(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return a document with elements removed, repeated, moved or with other texts."""
    if rng.random() < 0.15:
        text = mutate_text(rng, data.decode("utf-8", "replace"), other.decode("utf-8", "replace"))
        return text.encode("utf-8", "surrogatepass")
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError:
        return mutate_bytes(rng, data, other)
    for _ in range(rng.choice((1, 1, 2, 3))):
        elements = list(root.iter("*"))
        one, two = rng.choice(elements), rng.choice(elements)
        holder, kind = one.getparent(), rng.randrange(6)
        if kind == 0 and holder is not None:
            holder.remove(one)
        elif kind == 1 and holder is not None:
            for _ in range(rng.choice((1, 1, 2, 30))):
                holder.append(copy.deepcopy(one))
        elif kind == 2 and len(elements) < 2000:
            one.append(copy.deepcopy(two))
        elif kind == 3:
            one.tag = rng.choice(elements).tag
        else:
            _set_text(rng, one, [each.text or "" for each in elements])
    return bytes(etree.tostring(root, xml_declaration=rng.random() < 0.8, encoding="UTF-8"))


def _set_text(rng: random.Random, element: etree._Element, known: list[str]) -> None:
    new = rng.choice(
        (mutate_text(rng, element.text or "", " ".join(known)), rng.choice(known), rng.choice(TEXTS))
    )
    try:
        if element.attrib and rng.random() < 0.3:
            element.set(rng.choice(list(element.attrib)), new)
        else:
            element.text = new
    except ValueError:  # characters that XML has not
        element.text = "0"
