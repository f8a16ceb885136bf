"""Brings encodings from outside into a quantization, step by step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir import Model, Tensor
from xdlc.quant.existing_encodings import forget_given
from xdlc.quant.job import Job
from xdlc.quant.overrides.applying import Given, give, settle
from xdlc.quant.overrides.matching import Matching, match, moved
from xdlc.quant.overrides.reading import read_overrides

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file of encodings, or what such a file holds."""


class Importing:
    """The encodings of a file on their way into a quantization; without one every step does nothing.

    Args:
        source: The file, or what it holds; None: encodings are those of the model alone.
        ignore: Leave out the encodings that tensors of floats have in the model.

    Raises:
        UsageError: If encodings are to be ignored but a file is given, or the file is no file of encodings.
        StorageError: If the file cannot be read.
    """

    def __init__(self, source: Source | None, *, ignore: bool) -> None:
        if ignore and source is not None:
            raise UsageError(
                "encodings are given and are to be ignored",
                where="ignore_quantization_overrides",
                fix="leave out quantization_overrides, or ignore_quantization_overrides",
            )
        self._overrides = None if source is None else read_overrides(source)
        self._ignore = ignore
        self._matching = Matching()
        self._given: Given | None = None
        self._summary = ""

    def match(self, job: Job) -> None:
        """Find the tensors of the float model, before it is changed.

        Raises:
            UsageError: For names that match nothing, unless these are to be warned of.
        """
        if self._ignore:
            count = forget_given(job.graph)
            job.notes.append(f"{count} encoding(s) of the model were ignored")
        if self._overrides is not None:
            self._matching = match(job.model, self._overrides, job.options.override_missing)

    def give(self, job: Job, new: Mapping[Tensor, Tensor]) -> None:
        """Give tensors their encodings.

        Args:
            job: The quantization, its graph in the form that is quantized.
            new: Static tensors in new shapes, and the old ones.

        Raises:
            UsageError: For encodings that their tensors cannot have.
        """
        if self._overrides is not None:
            moved(self._matching, job.graph, new)
            per_channel = job.options.use_per_channel_quantization
            self._given = give(job.graph, self._matching, self._overrides.where, per_channel=per_channel)

    def settle(self, job: Job) -> None:
        """Let the job's bit widths follow, once they are those of the options.

        Raises:
            UsageError: For a combination of bits that no kernel has.
        """
        if self._given is not None:
            settle(job, self._given)

    def conclude(self, job: Job) -> None:
        """Note how many encodings were matched, filled in and left, once all are decided."""
        if self._given is None:
            return
        self._summary = self._given.summary(job.decision)
        job.notes.append(f"overrides: {self._summary}")
        reasons: dict[str, list[str]] = {}
        for name, reason in self._given.left.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            job.notes.append(f"override left, {reason}: {', '.join(names[:5])}{more}")

    def sign(self, model: Model) -> None:
        """Add to the last step of the history what became of the encodings."""
        if self._overrides is not None:
            model.metadata["history"][-1]["args"]["quantization_overrides"] = self._summary
