"""Inputs of Caffe2 nets: what nothing makes or fills, and what an init net fills as a stand-in.

Nets state no shapes; they are given, or in a file beside the nets, or those of a stand-in.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from xdlc.converter.caffe2.fills import dims_of, fill_dtype, is_constant
from xdlc.converter.caffe2.netdef import NetDef, OperatorDef
from xdlc.converter.importer import GraphInput
from xdlc.errors import ModelError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import dtype as types

_INDICES = {"Gather": (1,), "BatchGather": (1,), "BatchOneHot": (0,), "OneHot": (0, 1)}
"""Inputs that are integers, by operator."""
_MOST_SHOWN = 120
_MOST_TYPOS = 8
_MOST_COMPARED = 2000


def find_inputs(
    predict: NetDef,
    init: NetDef | None,
    given: Collection[str],
    stated: Mapping[str, GraphInput],
    notices: list[str],
) -> dict[str, GraphInput]:
    """Return the inputs of a net by name, in the order in which it states them.

    Args:
        predict: The net.
        init: The net that fills its weights, if there is one.
        given: Names whose shape or value the user states.
        stated: Inputs whose shapes a file beside the nets states.
        notices: Gets a line for each stand-in.

    Raises:
        XdlcError: If names have neither data nor a shape.
    """
    first = init.ops if init is not None else ()
    fills = {op.outputs[0]: op for op in first if is_constant(op)}
    made = {name for op in first for name in op.outputs}
    free = _free(predict, made)
    stand_ins = {name for name in fills if name in given or name in stated} | _stand_in(predict, fills)
    indices = {
        op.inputs[index]
        for op in predict.ops
        for index in _INDICES.get(op.type, ())
        if index < len(op.inputs)
    }
    found: dict[str, GraphInput] = {}
    for name in dict.fromkeys((*predict.inputs, *free)):
        dims: Sequence[int | str] | None = None
        dtype = types.INT32 if name in indices else types.FLOAT32
        if name not in free and name not in stand_ins:
            continue
        if name in stated:
            _, dtype, dims = stated[name]
        elif name in fills:
            dtype, dims = types.from_numpy(fill_dtype(fills[name])), _shape(fills[name])
        if name in fills:
            notices.append(f"{name!r} is an input: its value in the init net is a stand-in")
        found[name] = GraphInput(name, dtype, None if name in given and name not in stated else dims)
    if not found and _first_read(predict) in made:
        name = _first_read(predict)
        problem = f"has no input: the init net fills all that it reads, {name!r} first"
        fix = f"name the input with its shape: --input_dim {name} N,C,H,W"
        raise UsageError(problem, where=str(predict.path), fix=fix)
    unknown = [name for name, entry in found.items() if entry.dims is None and name not in given]
    if unknown:
        raise_all(_unknown(predict, init, unknown, len(found), made), where=str(predict.path))
    return found


def unmade(name: str, known: Collection[str], where: str) -> ModelError:
    """Return the error of a place that reads a name without a value."""
    if name in known:
        fix = "write the operators in the order in which they run"
        return ModelError(f"reads {name!r}, which only a later operator makes", where=where, fix=fix)
    near = nearest_names(name, islice(known, _MOST_COMPARED))
    return ModelError(f"reads {name!r}, which nothing makes", where=where, fix=near or "export the net again")


def _free(predict: NetDef, made: Collection[str]) -> dict[str, OperatorDef]:
    """Return the names that are read before anything makes them, in order, and their first readers."""
    done = set(made)
    found: dict[str, OperatorDef] = {}
    for op in predict.ops:
        for name in op.inputs:
            if name and name not in done:
                found.setdefault(name, op)
        done.update(op.outputs)
    return found


def _stand_in(predict: NetDef, fills: Mapping[str, OperatorDef]) -> set[str]:
    """Return the first stated input, if the first operator reads it and one number fills it."""
    name = next(iter(predict.inputs), "")
    if name not in fills or name != _first_read(predict):
        return set()
    return {name} if fills[name].type == "ConstantFill" or _shape(fills[name]) is None else set()


def _first_read(predict: NetDef) -> str:
    """Return the first input of the first operator that has any."""
    return next((op.inputs[0] for op in predict.ops if op.inputs), "")


def _shape(stand_in: OperatorDef) -> list[int] | None:
    """Return the shape of a stand-in; None for one element, which states nothing."""
    dims = dims_of(stand_in)
    return dims if math.prod(dims) > 1 and all(0 < size < 1 << 31 for size in dims) else None


def _unknown(
    predict: NetDef, init: NetDef | None, names: Sequence[str], count: int, made: Collection[str]
) -> list[XdlcError]:
    """Return the errors of names without data and without a shape.

    Args:
        predict: The net.
        init: Its init net.
        names: The names.
        count: How many inputs there are, these among them.
        made: Names that the init net makes.
    """
    where, shape = str(predict.path), f"--input_dim {names[0]} N,C,H,W (its sizes, batch included)"
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    shown = ", ".join(map(repr, names[:_MOST_SHOWN])) + more
    if init is None:
        beside = predict.path.with_name("init_net.pb")
        file = beside if beside.is_file() and beside != predict.path else "init_net.pb"
        fix = f"give --exec_net {file}"
        if count > len(names):
            problem = f"weights are missing: nothing fills or makes {len(names)} names: {shown}"
            return [UsageError(problem, where=where, fix=fix)]
        problem = f"weights and input shape are missing: nothing fills or makes {len(names)} names: {shown}"
        return [UsageError(problem, where=where, fix=f"{fix} and {shape}")]
    listed, readers = set(predict.inputs), _free(predict, made)
    typos = [name for name in names if listed and name not in listed]
    if typos:
        known = dict.fromkeys(
            [*predict.inputs, *sorted(made), *(name for op in predict.ops for name in op.outputs)]
        )
        return [unmade(name, known, readers[name].where) for name in typos[:_MOST_TYPOS]]
    if count == 1:
        return [UsageError(f"the shape of input {shown} is nowhere stated", where=where, fix=f"give {shape}")]
    problem = f"no operator makes {shown}, {init.path.name} fills none of that name, and no shape is given"
    fix = f"give the init net of the same model; the shape, if an input: --input_dim {names[0]} N,.."
    return [ModelError(problem, where=where, fix=fix)]
