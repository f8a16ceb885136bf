"""Quantization of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from xdlc.api.models import executable
from xdlc.api.verbs import Array, verb
from xdlc.ir import Model
from xdlc.options import Notify, PathLike, Step
from xdlc.options.quantizing import QuantizeOptions

if TYPE_CHECKING:
    from xdlc.quant.report import Reporter


@verb
def quantize(
    model: Model | PathLike,
    samples: Iterable[Mapping[str, Array] | Array] | PathLike,
    *,
    report: Reporter | PathLike | None = None,
    report_list: Iterable[Mapping[str, Array] | Array] | PathLike | None = None,
    notify: Notify | None = None,
    step: Step | None = None,
    command: Sequence[str] = (),
    **options: Unpack[QuantizeOptions],
) -> Model:
    """Return a quantized copy of a float model, or with ``requantize`` of a quantized one.

    Args:
        model: The model, or the path of a DLC.
        samples: Input arrays by name, one mapping per calibration sample, read in order; plain arrays for a
            model with one input.  Or the path of an .npz file with an array for each input, of an .npy file
            for the only one, both with samples along the first axis, or of an input list.
        report: Path of a report to write, ``.html``, ``.json`` or ``.csv``, or the object that writes one.
        report_list: Samples that do not calibrate, in the forms of ``samples``: the figures of outputs and
            the report are measured with them; default: every fifth sample, under the ranges of the others.
        notify: Called at the end with each note on what was done, a line of text; those on outputs of which
            something is lost begin with ``warning:``.  Without it, warnings are logged by ``xdlc.quant``.
        step: Called with the title of what is done, the number of steps done and of all (0: not known).
        command: Command line to which advice adds options; default: it names keyword arguments.
        **options: Options of the quantizer.

    Raises:
        UsageError: If an option is not known, or a sample does not fit the model's inputs.
        ModelError: If weights or activations are NaN or infinite.
        ConstraintError: If the target does not support the widths of an op, or an output is below
            ``fail_below``.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.quant import quantize as quantize_model

    return quantize_model(
        executable(model),
        samples,
        report=report,
        report_list=report_list,
        notify=notify,
        step=step,
        command=command,
        **options,
    )
