"""Service that runs a source model on its own framework."""

from __future__ import annotations

from typing import Any

from xdlc.debug.frameworks import FRAMEWORKS, Network
from xdlc.errors import BackendError
from xdlc.worker import content

_LETTERS = 400


def commands() -> dict[str, Any]:
    """Return the functions of the process by request."""
    served: dict[str, Network] = {}

    def opened(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        del files
        framework = FRAMEWORKS.all()[request["framework"]]
        try:
            network = framework.open(request["path"], request["weights"])
        except Exception as error:  # those of the frameworks have no common base
            raise _failure(error, request["path"], "does not open the model") from error
        served["network"] = network
        return {"inputs": list(network.inputs), "names": list(network.names)}

    def values(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        import numpy

        (file,) = files
        arrays = content.read_arrays(file, request["arrays"])
        feeds = dict(zip(request["inputs"], arrays, strict=True))
        try:
            results = served["network"].values(feeds, request["names"], request["sample"])
        except Exception as error:  # likewise
            raise _failure(error, request["path"], "does not run the model") from error
        plain = [_plain(numpy.asarray(value)) for value in results]
        shapes = [list(array.shape) for array in plain]
        return {"shapes": shapes, "arrays": content.write_arrays(file, [] if request["measures"] else plain)}

    return {"open": opened, "values": values}


def _plain(array: Any) -> Any:
    """Return an array of a type that passes through the line."""
    return array.astype("float32") if array.dtype.kind not in "biuf" else array


def _failure(error: Exception, path: str, what: str) -> BackendError:
    reason = " ".join(str(error).split())[:_LETTERS] or type(error).__name__
    return BackendError(f"the framework {what}: {reason}", where=path, fix="run the model without xdlc")
