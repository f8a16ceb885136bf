"""How good the network's outputs are, and what of it weights and activations cost."""

from __future__ import annotations

from xdlc.quant.noise_power import Noise
from xdlc.quant.op_specs import is_real
from xdlc.quant.report.comparison import Step, Subject, run
from xdlc.quant.report.model import OutputReport


def measure_outputs(subject: Subject, step: Step) -> list[OutputReport]:
    """Return what becomes of each output, also if weights or activations alone are quantized.

    Args:
        subject: What is measured.
        step: Called after each sample.
    """
    import numpy as np

    session = subject.job.session
    floats = session(subject.reference, quantized=False)
    variants = {
        "sqnr": session(subject.trial),
        "weights_only": session(subject.trial, quantized=False),
        "activations_only": session(subject.job.trial(weights_of=subject.reference)),
    }
    outputs = subject.graph.outputs
    noises = {(output.name, kind): Noise() for output in outputs for kind in variants}
    same = {output.name: [0, 0] for output in outputs}
    for index, sample in enumerate(subject.samples):
        wanted = run(floats, sample, index)
        for kind, variant in variants.items():
            found = run(variant, sample, index)
            for output in outputs:
                first, second = np.asarray(wanted[output.name]), np.asarray(found[output.name])
                if is_real(output):
                    noises[output.name, kind].add(first, second)
                elif kind == "sqnr":
                    equal = first == second if first.shape == second.shape else np.zeros(first.shape)
                    same[output.name][0] += int(np.count_nonzero(equal))
                    same[output.name][1] += first.size
        step()
    return [
        OutputReport(output.name, **{kind: noises[output.name, kind].db for kind in variants})
        if is_real(output)
        else OutputReport(output.name, same=same[output.name][0] / max(1, same[output.name][1]))
        for output in outputs
    ]
