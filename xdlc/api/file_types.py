"""Types of raw files of inputs and outputs: float32, or the tensors' own (native files)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xdlc.boundary.datatype import parsed_word
from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Model, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.quantization import to_float

Array = Any  # numpy.ndarray


def native_names(
    tensors: Sequence[Tensor], every: bool, types: Mapping[str, str], named: Sequence[str] = ()
) -> frozenset[str]:
    """Return the names of the tensors whose files hold their own types.

    Args:
        tensors: The tensors.
        every: Whether these are all, but for those that ``types`` has as float32.
        types: Types of buffers by name.
        named: Those tensors, if not all.

    Raises:
        UsageError: If ``named`` has a name of none of them.
    """
    known = [tensor.name for tensor in tensors]
    for name in named:
        if name not in known:
            fix = nearest_names(name, known) or f"inputs: {', '.join(known)}"
            raise UsageError(f"the model has no input {name!r}", fix=fix)
    return frozenset(name for name in known if name in named or (every and types.get(name) != "float32"))


def named_in(text: str, model: Model) -> list[str]:
    """Return the names of the main graph's tensors in ``graph:t1,t2;graph2:t3``; it may have no name.

    Raises:
        UsageError: If a graph of several is not known.
    """
    found: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        graph, _, names = part.partition(":")
        if graph not in model.graphs and ";" in text:
            fix = nearest_names(graph, model.graphs) or f"graphs: {', '.join(model.graphs)}"
            raise UsageError(f"the model has no graph {graph!r}", fix=fix)
        if graph == model.main.name or graph not in model.graphs:
            found += (names if graph in model.graphs else part).replace(",", " ").split()
    return found


def check_types(graph: Graph, types: Mapping[str, str]) -> None:
    """Check that types of buffers are float32, or the own ones of inputs and outputs.

    Raises:
        UsageError: If a name or type is unknown, or a type another one; a ProblemList of several.
    """
    problems: list[XdlcError] = []
    held = {tensor.name: tensor for tensor in (*graph.inputs, *graph.outputs)}
    for name, word in types.items():
        if name not in held:
            fix = nearest_names(name, held) or f"inputs and outputs: {', '.join(held)}"
            problems.append(UsageError(f"{name!r} is no input or output", where="data_type_map", fix=fix))
            continue
        own, wanted = held[name].dtype, parsed_word(word)
        if wanted not in (own, FLOAT32) and not (
            wanted.is_fixed and own.is_fixed and wanted.bits == own.bits
        ):
            problem = f"{name!r} holds {own} in the DLC, not {word}"
            fix = f"write {name}={own} or {name}=float32, or change the DLC: xdlc-graph-prepare --input_dtype"
            problems.append(UsageError(problem, where="data_type_map", fix=fix))
    raise_all(problems)


def as_files(graph: Graph, results: Mapping[str, Array], native: Collection[str]) -> Mapping[str, Array]:
    """Return results of which the quantized values of tensors that are not native are real ones."""
    found = dict(results)
    for name in results:
        tensor = graph.tensors.get(name)
        if tensor is not None and tensor.dtype.is_fixed and tensor.encoding and name not in native:
            found[name] = to_float(results[name], tensor.encoding, where=f"tensor {name!r}")
    return found
