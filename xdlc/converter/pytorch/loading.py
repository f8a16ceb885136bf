"""Export of a file of PyTorch to ONNX by torch itself, as a script of a process of its own.

Loading such a file executes code that it holds.  The script stands alone: ``python loading.py REQUEST``.
The request is JSON with ``source``, ``target``, ``kind``, ``shapes``, ``seconds`` and ``nbytes``; an error is
printed as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def main(request: dict[str, Any]) -> None:
    """Load a program or a script, and write it as ONNX."""
    _limit(request["seconds"], request["nbytes"])
    import torch

    warnings.simplefilter("ignore")
    source, target = request["source"], request["target"]
    with torch.no_grad():
        if request["kind"] == "program":
            _register()
            torch.onnx.export(torch.export.load(source), (), target, dynamo=True, verbose=False)
            return
        jit: Any = torch.jit
        script = jit.load(source, map_location="cpu").eval()
        given = list(script.forward.graph.inputs())[1:]
        shapes = {name.partition(".")[0]: shape for name, shape in request["shapes"].items()}
        args = []
        for each in given:
            name = each.debugName().partition(".")[0]
            if name not in shapes:
                names = [one.debugName().partition(".")[0] for one in given]
                raise ValueError(f"the shapes of the inputs {', '.join(names)} are needed")
            kind = each.type()
            dtype = kind.dtype() if isinstance(kind, torch.TensorType) else None
            args.append(torch.zeros(shapes[name], dtype=dtype or torch.float32))
        names = [each.debugName().partition(".")[0] for each in given]
        torch.onnx.export(script, tuple(args), target, dynamo=False, input_names=names)


def _register() -> None:
    """Register the operators of quantized programs, without which these cannot be loaded."""
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
        main(json.loads(sys.argv[1]))
    except BaseException as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        sys.exit(1)
