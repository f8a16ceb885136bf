"""An option, a default and a runtime, each added once and seen everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.extending.conftest import Overlay
from tests.extending.test_new_files import dlc_of, samples

BEFORE = "    percentile_calibration_value: "
OPTION = """    greeting: Annotated[
        str, Option("Word of the log.", default="hello", choices=("hello", "bye"), metavar="WORD")
    ]
"""
SHOW = """
import inspect
import xdlc
from xdlc.quant.options import QuantOptions
print(QuantOptions().greeting, QuantOptions(greeting="bye").greeting)
print(inspect.signature(xdlc.quantize).parameters["greeting"].default)
"""
RUNTIME = """
from contextlib import nullcontext
import numpy as np
from xdlc.api.models import executable
from xdlc.api.runtimes import SHARED, Runtime, RuntimeState, Trial, add_runtime
class Zeros:
    def __init__(self, model):
        self.graph = model.main
    def run(self, feeds, *, native=False):
        return {tensor.name: np.zeros(tensor.shape, "float32") for tensor in self.graph.outputs}
def opened(model, where, **options):
    return nullcontext(Zeros(executable(model, where)))
def examined(name, soc):
    return RuntimeState(name, "zeros 1.0", "no core", (Trial("host", None),))
add_runtime(Runtime("zeros", SHARED, opened, examined))
"""


def help_of(overlay: Overlay, tool: str) -> str:
    return " ".join(overlay.run(tool, "--help-all").stdout.split())


def test_an_option_of_the_quantizer(overlay: Overlay, tmp_path: Path) -> None:
    overlay.replace("options/quantizing.py", f"{BEFORE}Annotated[", f"{OPTION}{BEFORE}Annotated[")
    assert "--greeting WORD Word of the log. One of hello, bye. [default: hello]" in help_of(overlay, "quant")
    assert overlay.python(SHOW).split() == ["hello", "bye", "hello"]
    words = ("-i", dlc_of(tmp_path, "Relu"), "-l", samples(tmp_path), "-o", tmp_path / "q.dlc")
    overlay.run("quant", *words, "--greeting", "bye")
    assert "hello" in overlay.run("quant", *words, "--greeting", "no", code=2).stderr


def test_another_default(overlay: Overlay) -> None:
    overlay.replace("options/quantizing.py", "default=99.99", "default=99.5")
    assert "[default: 99.5]" in help_of(overlay, "quant")
    program = (
        "from xdlc.quant.options import QuantOptions; print(QuantOptions().percentile_calibration_value)"
    )
    assert overlay.python(program) == "99.5\n"


def test_a_runtime(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add("api/runtimes/zeros.py", RUNTIME)
    assert "zeros" in overlay.run("platform-check", "--runtime", "zeros").stdout
    words = ("--container", dlc_of(tmp_path, "Relu"), "--input_list", samples(tmp_path))
    overlay.run("net-run", *words, "--output_dir", tmp_path / "out", "--runtime", "zeros")
    assert not np.fromfile(tmp_path / "out/Result_0/y.raw", "<f4").any()
    assert "zeros" in overlay.run("net-run", *words, "--runtime", "none", code=2).stderr
