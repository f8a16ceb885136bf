"""Quantization of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdlc.api.models import executable
from xdlc.api.options import Array, Names, Notify, PathLike, Step, given, verb
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.quant.report import Reporter
    from xdlc.quant.user_metric import Evaluate


@verb
def quantize(
    model: Model | PathLike,
    samples: Iterable[Mapping[str, Array] | Array] | PathLike,
    *,
    weights_bitwidth: int = 8,
    act_bitwidth: int = 8,
    bias_bitwidth: int = 32,
    float_bitwidth: int | str = 32,
    float_ops: Names = (),
    act_bitwidth_of: Mapping[str, int] | None = None,
    weights_bitwidth_of: Mapping[str, int] | None = None,
    use_per_channel_quantization: bool | None = None,
    use_per_row_quantization: bool = True,
    act_quantizer_calibration: str = "auto",
    param_quantizer_calibration: str = "auto",
    act_quantizer_schema: str = "asymmetric",
    param_quantizer_schema: str = "asymmetric",
    percentile_calibration_value: float = 99.99,
    restrict_quantization_steps: tuple[int, int] | None = None,
    weights_block_size: int | None = None,
    use_lpbq: bool = False,
    adjust_bias_encoding: bool = True,
    bias_correction: bool = True,
    bound_attention_masks: bool = True,
    drop_nan_checks: bool = True,
    one_act_bitwidth: bool = False,
    enable_float_fallback: bool = False,
    algorithms: Names = (),
    min_sqnr: float | None = None,
    max_sqnr_drop: float | None = None,
    evaluate: Evaluate | str | None = None,
    min_score: float | None = None,
    fail_below: float | None = None,
    output_kind: Mapping[str, str] | None = None,
    accuracy: str = "fast",
    target: str | None = None,
    jobs: int = 1,
    loop_timeout: float | None = None,
    quantization_overrides: PathLike | Mapping[str, Any] | None = None,
    override_missing: str = "error",
    ignore_quantization_overrides: bool = False,
    requantize: bool = False,
    report: Reporter | PathLike | None = None,
    report_list: Iterable[Mapping[str, Array] | Array] | PathLike | None = None,
    udo_package_path: PathLike | Sequence[PathLike] | None = None,
    udo_timeout: float | None = None,
    notify: Notify | None = None,
    step: Step | None = None,
    command: Sequence[str] = (),
) -> Model:
    """Return a quantized copy of a float model, or with ``requantize`` of a quantized one.

    Args:
        model: The model, or the path of a DLC.
        samples: Input arrays by name, one mapping per calibration sample, read in order; arrays will do
            for a model with one input.  Or the path of an .npz file with an array for each input, of an
            .npy file for the only one, both with samples along the first axis, or of an input list.
        weights_bitwidth: 2, 4, 8 or 16 bits; 16 only with 16-bit activations.
        act_bitwidth: 8 or 16 bits.
        bias_bitwidth: 8 or 32 bits.
        float_bitwidth: 32, 16 or ``"bf16"``: type of ops that stay float.
        float_ops: Ops that stay float, by name of the op, of a source node or of a tensor that it writes.
        act_bitwidth_of: Bits of the activations of single ops, by the same names.
        weights_bitwidth_of: Bits of the weights of single ops, by the same names.
        use_per_channel_quantization: One scale per output channel of convolution weights; default: yes.
        use_per_row_quantization: One scale per output of FullyConnected and MatMul weights.
        act_quantizer_calibration: Range method for activations, like ``auto`` or ``min-max``.
        param_quantizer_calibration: Range method for weights.
        act_quantizer_schema: ``asymmetric``, ``symmetric`` or ``unsignedsymmetric``.
        param_quantizer_schema: Schema of 8-bit weights with one scale; others are symmetric.
        percentile_calibration_value: Percentage of values that the method ``percentile`` covers, 90 to 100.
        restrict_quantization_steps: Smallest and largest quantized value of symmetric weights, like
            (-0x80, 0x7F).
        weights_block_size: Input channels that share a scale of weights; default: all.
        use_lpbq: Store scales of blocks as integers times one float scale per channel, as HTP needs them;
            blocks of 16 or 32 keep 4 bits there.
        adjust_bias_encoding: Widen scales of weights whose bias would overflow 32 bits.
        bias_correction: Correct biases by what rounding the weights adds to the mean of each channel, where
            the outputs of held-out samples gain by it; a note reports it.
        bound_attention_masks: Bound masks before a Softmax, so that scores keep the steps of their encoding.
        drop_nan_checks: Remove tests for NaN of values in fixed point, which hold none.
        one_act_bitwidth: Widen no activations to 16 bits where 8 lose values.
        enable_float_fallback: Keep tensors without an encoding float, without calibration.
        algorithms: Accuracy algorithms, like ``cle``.
        min_sqnr: Least SQNR in dB of each output, of the input of a Softmax: as few activations as reach it
            become 16 bits wide.
        max_sqnr_drop: Most dB that outputs may lose against all activations at 16 bits.
        evaluate: Judge of a network: called with a function that takes arrays by input name and returns
            arrays by output name, it returns a number, the higher the better; or its place, as
            ``FILE.py:FUNCTION``.
        min_score: Least number that ``evaluate`` has to return; mixed precision sees to it.
        fail_below: Least SQNR in dB of each output on held-out samples; a network below fails.
        output_kind: What outputs are judged as, by name: ``classes``, ``labels``, ``map``, ``scores``,
            ``boxes``, ``landmarks``, ``embedding`` or ``signal``; others are inferred, which a note reports.
        accuracy: ``fast``: the widths of the other arguments; ``balanced``: as few 16-bit activations more as
            the outputs need; ``best``: 16-bit weights and floats too, as far as the target has them.
        target: SoC that the result is for, like ``sm8650``.
        jobs: Processes that calibrate; the result does not depend on it.
        loop_timeout: Seconds that each loop may take whenever the model runs, at most 15; default: 3.
        quantization_overrides: Encodings that win over calibration: a file of the vendor's form or of AIMET's
            0.4.0 to 2.0.0, or what it holds.
        override_missing: ``error`` or ``warn`` for names in it that match nothing.
        ignore_quantization_overrides: Drop the encodings of float tensors in the model.
        requantize: Read a quantized model as a float model: weights with their stored precision, encodings
            dropped.
        report: Path of a report to write, ``.html``, ``.json`` or ``.csv``, or what makes one.
        report_list: Samples that do not calibrate, in the forms of ``samples``: the figures of outputs and
            the report are measured with them; default: every fifth sample, under the ranges of the others.
        udo_package_path: Registration libraries, Python files with kernels, or ``kernel_meta``, of UDOs.
        udo_timeout: Seconds that one execution of a UDO may take; default: 60.
        notify: Called at the end with each note on what was done, a line of text; those on outputs of which
            something is lost begin with ``warning:``.  Without it, warnings are logged by ``xdlc.quant``.
        step: Called with the title of what is done, the number of steps done and of all (0: not known).
        command: Command line to which advice adds options; default: it names keyword arguments.

    Raises:
        UsageError: If an option is not known, or a sample does not fit the model's inputs.
        ModelError: If weights or activations are NaN or infinite.
        ConstraintError: If the target does not support the widths of an op, or an output is below
            ``fail_below``.
        StorageError: If a file cannot be read or written.
    """
    options = given(quantize, locals())
    from xdlc.quant import quantize as quantize_model

    return quantize_model(executable(model), samples, **options)
