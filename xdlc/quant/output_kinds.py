"""Kinds of outputs: what an application does with their values, which decides by what they are judged."""

from __future__ import annotations

from enum import StrEnum


class OutputKind(StrEnum):
    """What an application reads from an output."""

    CLASSES = "classes"
    """Logits or probabilities of classes along the last axis: the largest one counts."""
    LABELS = "labels"
    """Integers: equality counts."""
    MAP = "map"
    """A mask: which pixels are above the threshold counts."""
    SCORES = "scores"
    """Scores of candidates: which are above the threshold counts."""
    BOXES = "boxes"
    """Coordinates of many candidates."""
    LANDMARKS = "landmarks"
    """Coordinates of one object."""
    EMBEDDING = "embedding"
    """A vector whose direction counts."""
    SIGNAL = "signal"
    """Audio, pictures and other values that count as they are."""
