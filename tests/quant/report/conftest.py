import pytest

from xdlc.quant.report import OpReport, OutputReport, QuantReport, TensorReport
from xdlc.quant.report.model import Bars, ChannelRanges

HOSTILE = "=1+1</script><img src=x onerror=alert(1)>&\"'\u2028\ud800{{name}}$name"


@pytest.fixture
def report():
    """A report with every field in use, and names that nobody should run."""
    tensors = (
        TensorReport(
            HOSTILE,
            HOSTILE,
            0,
            "activation",
            (1, 8, 8, 4),
            "ufixed8",
            bits=8,
            granularity="tensor",
            scale=0.05,
            offset=-128,
            grid_low=-6.4,
            grid_high=6.35,
            seen_low=-7.0,
            seen_high=3.0,
            calibrated_low=-6.4,
            calibrated_high=3.5,
            clipped=0.02,
            beyond=0.6,
            used=0.75,
            cumulative=12.3456,
            isolated=15.0,
            sensitivity=9.0,
            source="min-max of 4 samples",
            shared=("other", HOSTILE),
            shared_count=2,
            heard="its readers clip",
            histogram=Bars(-7.0, 0.5, (1, 0, 4, 900, 20, 3)),
        ),
        TensorReport(
            "w",
            "conv",
            0,
            "weight",
            (3, 3, 4, 2),
            "sfixed8",
            bits=4,
            granularity="channel",
            scale=0.2,
            scale_low=0.1,
            seen_low=-1.4,
            seen_high=1.2,
            isolated=21.0,
            histogram=Bars(-1.5, 0.5, (1, 5, 40, 20, 5, 1)),
            channels=ChannelRanges(3, 2, (-1.4, -0.5), (1.2, 0.6)),
        ),
        TensorReport("y", "soft", 1, "output", (1, 4), "float32", cumulative=11.0),
    )
    ops = (
        OpReport(
            HOSTILE,
            "Conv2d",
            0,
            (HOSTILE,),
            "fixed",
            None,
            "A8W8 to A16W8, worth 3.0 dB",
            8,
            4,
            (HOSTILE,),
            cumulative=12.3,
            isolated=14.0,
            lost=3.0,
            sensitivity=8.5,
            sensitivity_weights=9.0,
            sensitivity_activation=18.0,
        ),
        OpReport("soft", "Custom", 1, (), "float", f"{HOSTILE} is odd", None, None, None, ("y",), 11.0),
    )
    return QuantReport(
        1,
        "xdlc 0",
        HOSTILE,
        {"act_bitwidth": "8"},
        3,
        11.0,
        25.0,
        12.0,
        (OutputReport("y", 11.0, 25.0, 12.0), OutputReport("label", same=0.5)),
        ops,
        tensors,
        (f"{HOSTILE}: activations 16 bits",),
        ("a note",),
        ("what was not measured",),
    )
