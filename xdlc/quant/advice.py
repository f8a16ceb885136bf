"""What a user can do about lost quality, as options of the quantizer that are not set already."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xdlc.errors import ConstraintError, raise_all
from xdlc.quant.mixed_scale_ops import writer
from xdlc.quant.output_accuracy import Figure

if TYPE_CHECKING:
    from xdlc.quant.job import Job

Options: TypeAlias = Mapping[str, Any]
"""Keyword arguments of ``quantize``: mappings of names to bits, sequences of names, numbers or text."""

REPORT = "report.html"

NEAR_DB = 1.0
"""An output may be this much below a goal before it is worth a warning."""


def written(options: Options, command: Sequence[str]) -> str:
    """Return options as the command line that has them, or as keyword arguments where there is none.

    Args:
        options: What to set.
        command: The command line to set them in, by words; empty: the API was called.

    Example:
        >>> written({"act_bitwidth_of": {"a b": 16}}, ["xdlc-quant", "-i", "m.dlc"])
        "xdlc-quant -i m.dlc --act_bitwidth_of 'a b' 16"
        >>> written({"act_bitwidth_of": {"a": 16}}, ["xdlc-quant", "--act_bitwidth_of", "a", "8"])
        'xdlc-quant --act_bitwidth_of a 16'
        >>> written({"act_bitwidth": 16}, [])
        'act_bitwidth=16'
    """
    if not command:
        return ", ".join(f"{name}={value!r}" for name, value in options.items())
    words = list(command)
    for name, value in options.items():
        if isinstance(value, Mapping):
            for key, held in value.items():
                words = [*_without(words, name, str(key)), f"--{name}", str(key), str(held)]
        else:
            text = str(value) if isinstance(value, str | int | float) else ",".join(value)
            words = [*_without(words, name), f"--{name}", text]
    return shlex.join(words)


def _without(words: Sequence[str], name: str, key: str | None = None) -> list[str]:
    """Return a command line without an option; of one that takes a name and bits, without that of a name.

    Args:
        words: The command line.
        name: The option's name, without dashes.
        key: The name that the option's first value has to be; None: it has one value, any.
    """
    left: list[str] = []
    index = 0
    while index < len(words):
        flag, glued, value = words[index].partition("=")
        count = (1 if key is None else 2) + (not glued) if flag == f"--{name}" else 1
        taken = words[index : index + count]
        first = value if glued else "".join(taken[1:2])
        if flag != f"--{name}" or (key is not None and first != key):
            left += taken
        index += count
    return left


def warnings(job: Job, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield a line for each output of which something is lost: what, and what to do.

    Args:
        job: The quantization, decided.
        figures: The figures of its outputs.
    """
    for figure in figures:
        for lost in figure.lost:
            is_whole = lost.startswith("is ")
            text, options = remedy(job, figure, is_whole=is_whole)
            place = f"output {figure.output!r}{'' if is_whole else ','}"
            yield f"warning: {place} {lost}; {text}: {written(options, job.command)}"


def goal_warnings(job: Job, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield a line if outputs are below the goal that mixed precision kept on the samples it judged by.

    Args:
        job: The quantization, decided.
        figures: The figures of its outputs.
    """
    goal = job.goal
    if goal is None:
        return
    below = [(f.sqnr, f) for f in figures if f.held_out and f.sqnr is not None and f.sqnr < goal - NEAR_DB]
    if not below:
        return
    reached, worst = min(below, key=lambda pair: pair[0])
    others = f", {len(below) - 1} more outputs below it too" if len(below) > 1 else ""
    higher = written({"min_sqnr": math.ceil(10 * (2 * goal - max(reached, 0.0))) / 10}, job.command)
    yield (
        f"warning: output {worst.output!r} is at {reached:.1f} dB on {worst.samples} held-out samples, below "
        f"the goal of {goal:.1f} dB that the samples for the choice of widths reach{others}; calibrate with "
        f"more samples of what the network will see, or set a higher goal: {higher}"
    )


def check_figures(job: Job, figures: Sequence[Figure], least: float | None) -> None:
    """Refuse a quantized network with outputs below a least SQNR.

    Args:
        job: The quantization, decided.
        figures: The figures of its outputs.
        least: In dB; None: any will do.

    Raises:
        ConstraintError: If an output is below, or lost in another way; several make a ProblemList.
    """
    if least is None:
        return
    problems = []
    for figure in figures:
        if figure.lost or (figure.sqnr is not None and figure.sqnr < least):
            text, options = remedy(job, figure, is_whole=not figure.lost or figure.lost[0].startswith("is "))
            problem = f"fail_below is {least:g} dB, {'; '.join((str(figure), *figure.lost))}"
            fix = f"{text}: {written(options, job.command)}"
            problems.append(ConstraintError(problem, where=f"output {figure.output!r}", fix=fix))
    raise_all(problems)


def remedy(job: Job, figure: Figure, *, is_whole: bool) -> tuple[str, Options]:
    """Return what to do about an output of which something is lost, and the options for it.

    Args:
        job: The quantization, decided.
        figure: The figure of the output.
        is_whole: Whether it is lost as a whole, not a part or channel alone.
    """
    options, precision = job.options, job.precision
    op = writer(job.graph.tensors[figure.output])
    if not is_whole and op is not None and op in job.placement.fixed and precision.act_bits_of(op) == 8:
        return "give its values 16 bits", {"act_bitwidth_of": {op.name: 16}}
    if options.act_bitwidth == 8:
        return "give activations 16 bits", {"act_bitwidth": 16}
    if options.weights_bitwidth < 8:
        return "give weights 8 bits", {"weights_bitwidth": 8}
    reported = "--report" in job.command
    if (reported or not is_whole) and op is not None and op in job.placement.fixed:
        return "let it stay float", {"float_ops": (*options.float_ops, op.name)}
    return "see where it is lost", {"report": REPORT}
