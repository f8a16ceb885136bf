"""``xdlc-doctor``: this machine with advice, and the known SoCs in short."""

from __future__ import annotations

from importlib.util import find_spec

from xdlc.cli import bars, text
from xdlc.cli.tool import output, result, tool
from xdlc.cli.tools.platform_check import described, machine_lines

_EXTRAS = {
    "h5py": ("keras", "reads Keras and Caffe files of HDF5"),
    "torch": ("torch", "exports PyTorch modules; .pt2 and TorchScript files do not need it"),
    "tokenizers": ("llm", "runs language models with texts"),
    "numba": ("numba", "compiles kernels of plugins in Python"),
}


@tool("xdlc-doctor")
def main() -> None:
    """Check this machine: show what works, and how to install what is missing.

    xdlc runs a small graph on each runtime. xdlc platform-check shows the details of each SoC.
    """
    from xdlc import api

    with bars.steps("trying"):
        machine = api.check_platform()
    result(**described(machine))
    broken = [runtime.name for runtime in machine.runtimes if runtime.problem is not None]
    failed = f"runtime {', '.join(broken)} does not work: read the fix below"
    output(failed if broken else "xdlc can convert, quantize, prepare and run models on this machine")
    for line in machine_lines(machine, every_trial=False):
        output(line)
    missing = {name: extra for name, extra in _EXTRAS.items() if find_spec(name) is None}
    output("optional packages" if missing else "optional packages  all installed")
    rows = [(name, f"pip install 'xdlc[{extra}]'", use) for name, (extra, use) in missing.items()]
    for line in text.columns(rows):
        output(line)
    output("SoCs with HTP, newest first")
    archs = {soc.arch: soc.capabilities.name for soc in machine.socs if soc.has_htp}
    names = {arch: ", ".join(soc.name for soc in machine.socs if soc.arch == arch) for arch in archs}
    for line in text.columns([(archs[arch], names[arch]) for arch in sorted(archs, reverse=True)]):
        output(line)
