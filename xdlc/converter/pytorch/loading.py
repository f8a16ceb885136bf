"""Export of a PyTorch file to ONNX by torch: the script of a child process.

Loading such a file executes code that it holds.  The script stands alone: ``python loading.py REQUEST``.
The request is JSON with the arguments of ``main``, and so is an error that is printed.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def main(source: str, target: str, shapes: dict[str, list[int]] | None, seconds: int, nbytes: int) -> None:
    """Load a program, or a script whose inputs have shapes, and write it as ONNX."""
    _limit(seconds, nbytes)
    import torch

    warnings.simplefilter("ignore")
    with torch.no_grad():
        if shapes is None:
            _register()
            torch.onnx.export(torch.export.load(source), (), target, dynamo=True, verbose=False)
            return
        jit: Any = torch.jit
        script = jit.load(source, map_location="cpu").eval()
        given = {each.debugName().partition(".")[0]: each.type() for each in script.forward.graph.inputs()}
        names = list(given)[1:]  # after the module itself
        if not shapes.keys() >= {*names}:
            raise ValueError(f"pass the shapes of the inputs {', '.join(names)}")
        dtypes = [getattr(given[name], "dtype", lambda: None)() for name in names]
        pairs = zip(names, dtypes, strict=True)
        args = tuple(torch.zeros(shapes[name], dtype=dtype or torch.float32) for name, dtype in pairs)
        torch.onnx.export(script, args, target, dynamo=False, input_names=names)


def _register() -> None:
    """Register the operators of quantized programs, which loading requires."""
    for module in ("torch.ao.quantization.fx._decomposed", "torchao.quantization.pt2e"):
        try:
            __import__(module)
        except Exception:  # an extension that is not installed, or does not fit
            continue


def _limit(seconds: int, nbytes: int) -> None:
    """Limit time and memory of the process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for kind, number in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, nbytes)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (number if hard < 0 else min(number, hard), hard))


if __name__ == "__main__":
    try:
        main(**json.loads(sys.argv[1]))
    except BaseException as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        sys.exit(1)
