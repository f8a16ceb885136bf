"""What judging a cache by a rule gives."""

from __future__ import annotations

from dataclasses import dataclass

RULES = {
    "record": "the record is whole and listed",
    "mode": "the mode allows stored records",
    "outputs": "the outputs asked for are those of the record",
    "graph": "the model's graph is the one that was compiled",
    "arch": "the device's architecture is that of the record or a later one; strict: the same",
    "vtcm": "the device has the vector memory that the record plans for; strict: and no more",
    "soc": "strict: the record was compiled for the device's SoC",
    "sdk": "the device's SDK is that of the record or a later one",
    "fp16": "the device computes in the record's floating point",
}
"""Each rule's id, which stays as it is, and what it asks for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken.

    Attributes:
        rule: Its id, a key of ``RULES``.
        found: The value found.
        accepted: The values that would do.
    """

    rule: str
    found: str
    accepted: str

    def __str__(self) -> str:
        return f"{self.rule}: found {self.found}, accepted {self.accepted}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that could not be judged.

    Attributes:
        rule: Its id, a key of ``RULES``.
        reason: What is not known.
    """

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"
