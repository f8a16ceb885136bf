"""PyTorch networks in memory, exported by the user's torch to files or ONNX.

Modules are traced by ``torch.export`` in the process of the caller, as they cannot be sent to another one.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
import subprocess
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from xdlc.converter.formats import TORCH_EXPORT, recognize
from xdlc.errors import ProblemList, UnsupportedOp, UsageError, XdlcError
from xdlc.options import spell
from xdlc.worker.process import environment

_EXPORTERS = ("torch", "onnx")
_MOST_SECONDS = 1800
_MEMORY = 16 << 30


def uses_onnx(options: Mapping[str, Any]) -> bool:
    """Return whether options choose the exporter of torch.onnx.

    Raises:
        UsageError: If they name another one that does not exist.
    """
    exporter = options.get("torch_exporter", "torch")
    if exporter not in _EXPORTERS:
        raise UsageError(f"unknown exporter {exporter!r}", fix=f"exporters: {', '.join(_EXPORTERS)}")
    return bool(exporter == "onnx")


def export_file(source: Path, folder: Path, shapes: Mapping[str, Sequence[int]], *, trusted: bool) -> Path:
    """Export a PyTorch file to ONNX in a child process; return the path.

    Args:
        source: A program of torch.export, or a script.
        folder: Folder of the result.
        shapes: Shapes by input name, which a script lacks.
        trusted: Whether the file may execute code.

    Raises:
        UsageError: If it is not trusted.
        UnsupportedOp: If torch cannot load or export it.
    """
    if not trusted:
        raise UsageError(
            "loading the file with torch executes code that it may contain",
            where=str(source),
            fix=f"add {spell('trust', True)} if you trust the file, or omit {spell('torch_exporter')}",
        )
    target, sizes = folder / "model.onnx", {name.partition(".")[0]: [*each] for name, each in shapes.items()}
    request = {
        "source": str(source.absolute()),
        "target": str(target),
        "shapes": None if recognize(source) is TORCH_EXPORT else sizes,
        "seconds": _MOST_SECONDS,
        "nbytes": _MEMORY + 16 * source.stat().st_size,
    }
    command = [sys.executable, "-P", str(Path(__file__).with_name("loading.py")), json.dumps(request)]
    options: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "stdin": subprocess.DEVNULL,
        "env": environment(),
    }
    try:
        done = subprocess.run(command, timeout=_MOST_SECONDS, **options)
        lines = (
            done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["the process was killed"]
        )
        text = lines[-1]
        if done.returncode == 0 and target.is_file():
            return target
    except subprocess.TimeoutExpired:
        text = f"the export exceeds the time limit of {_MOST_SECONDS} s"
    text = json.loads(text)["error"] if text.startswith('{"error"') else text
    if "No module named" in text:
        raise UsageError(f"torch.onnx requires a package: {first_lines(text)}", fix=INSTALL)
    check_surroundings(RuntimeError(text))
    problem = f"torch.onnx cannot export the file: {first_lines(text)}"
    fix = f"omit {spell('torch_exporter')}, or export the network again"
    raise UnsupportedOp(problem, where=str(source), fix=fix, code="XD407")


INSTALL = "install torch: `pip install xdlc[torch]`"
"""Fix for a missing installation of torch, or of a package that it needs."""
_TRAINED = ("Dropout", "BatchNorm", "InstanceNorm", "RReLU")
"""Parts of the names of layers that compute something else in training."""
_MOST_TEXT = 400
_PACKED = re.compile(r"torch\.ao\.nn\.(intrinsic\.)?quantized\b")
_TENSORS = (
    "pass and return tensors, and tuples, lists and dictionaries of tensors; networks of transformers: "
    "config.use_cache = False"
)
_ODD = ("not a known type", "Unsupported input type", "TreeSpec of")
"""Words of torch's errors about other containers."""
_DEPENDENT = ("data-dependent", "Data-dependent", "Data dependent", "_SYM_OPS")
"""Words of torch's errors about Python code that reads values of tensors."""
_REWRITE = (
    "compute it with tensors, like torch.where and torch.cond, in place of .item(), int(), bool() and if"
)


def is_live(model: object) -> bool:
    """Return whether an object is a torch module, program or script.

    torch is not imported to find out.
    """
    return any(
        each.__module__.partition(".")[0] == "torch"
        and each.__name__ in ("Module", "ExportedProgram", "ScriptFunction")
        for each in type(model).__mro__
    )


def export(
    model: Any, folder: Path, examples: Any = None, dynamic_shapes: Any = None, *, as_onnx: bool = False
) -> tuple[Path, dict[str, Sequence[int]]]:
    """Export a network in memory to a file; return its path and missing input shapes.

    Args:
        model: A module, a program of torch.export, or a script.
        folder: Folder of the file.
        examples: Inputs of the module: a tuple of them, one tensor, or a mapping of them by name.
        dynamic_shapes: Dimensions that stay dynamic, as ``torch.export.export`` takes them.
        as_onnx: Whether torch.onnx exports it, instead of torch.export.

    Raises:
        UsageError: If the module is in training mode, its inputs are missing or do not fit, or torch does
            not work.
        UnsupportedOp: If torch cannot trace the module, or save the program; several reasons make a
            ProblemList.
    """
    torch = _torch()
    kwargs = dict(examples) if isinstance(examples, Mapping) else {}
    args = () if kwargs or examples is None else examples if isinstance(examples, tuple) else (examples,)
    kind = type(model).__name__
    path = folder / (re.sub(r"\W", "", kind)[:64] or "model")
    is_program = isinstance(model, torch.export.ExportedProgram)
    is_script = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    if examples is None and not is_program:
        raise UsageError(
            f"tracing a {kind} requires example inputs",
            fix="pass a tuple of tensors: example_inputs=(torch.zeros(1, 3, 224, 224),)",
        )
    if not is_program and not is_script:
        _check_mode(torch, model)
        _check_weights(model)
        _check_inputs(torch, model, args, kwargs)
    with _quiet(), torch.no_grad():
        if as_onnx:
            options = {} if is_script else {"verbose": False, "dynamic_shapes": dynamic_shapes}
            options |= {"kwargs": kwargs, "dynamo": not is_script}
            return _as_onnx(torch, model, path.with_suffix(".onnx"), args, options), {}
        if is_script:
            return _as_script(torch, model, path.with_suffix(".pt"), args)
        program = model
        if not is_program:
            program = _traced(torch, _with_plain_weights(torch, model), args, kwargs, dynamic_shapes)
        path = path.with_suffix(".pt2")
        try:
            torch.export.save(program, path)
        except Exception as error:
            place = _line_of_node(program, error)
            problem = "torch.export.save cannot store the program"
            raise _refusal(torch, problem, error, None if is_program else model, kind, place) from error
        return path, {}


def _torch() -> Any:
    """Return the package torch.

    Raises:
        UsageError: If it does not work.
    """
    try:
        import torch
        import torch.export
    except Exception as error:
        problem = f"the package torch cannot be imported: {first_lines(error)}"
        raise UsageError(problem, fix=INSTALL) from error
    return torch


def _check_mode(torch: Any, module: Any) -> None:
    """Refuse a module in training mode.

    Raises:
        UsageError: If it is.
    """
    if isinstance(module, torch.fx.GraphModule):
        return  # its mode is part of its graph
    modules = [(name, type(each).__name__) for name, each in module.named_modules() if each.training]
    odd = [name for name, kind in modules if any(part in kind for part in _TRAINED)]
    if module.training or odd:
        which = "" if module.training else f" of {odd[0]!r}"
        raise UsageError(
            f"the module is in training mode{which}, in which layers behave differently",
            where=type(module).__name__,
            fix="call module.eval() first",
        )


def _check_weights(module: Any) -> None:
    """Refuse a module whose weights have no values.

    Raises:
        UsageError: If there are any on the device meta.
    """
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_meta:
            raise UsageError(
                f"weight {name!r} is on the device meta, which holds no values",
                where=type(module).__name__,
                fix="load the weights first: module.to_empty(device='cpu'), module.load_state_dict(weights)",
            )


def _check_inputs(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse numpy arrays, and inputs that do not fit ``forward``.

    Raises:
        UsageError: With the arguments that it has.
    """
    if any(type(leaf).__module__ == "numpy" for leaf in torch.utils._pytree.tree_leaves((args, kwargs))):
        raise UsageError(
            "example_inputs contains a numpy array; modules require tensors",
            where=type(module).__name__,
            fix="pass torch.from_numpy(array) instead",
        )
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the inputs do not fit: {error}",
            where=f"{type(module).__name__}.forward{signature}",
            fix="pass a tuple in the order of the parameters, or a mapping by their names",
        ) from error


def _with_plain_weights(torch: Any, module: Any) -> Any:
    """Return a module with plain tensors as weights, in place of torchao's objects.

    Raises:
        UnsupportedOp: If layers hold weights in objects of C++.
    """
    if any(_PACKED.match(type(weight).__module__) for weight in module.modules()):
        raise UnsupportedOp(
            "layers hold packed weights, which torch.export does not support",
            where=type(module).__name__,
            fix="convert torch.jit.trace(module, inputs), or quantize with PT2E",
        )
    plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    weights = (*module.parameters(), *module.buffers())
    if all(type(weight) in plain or not type(weight).__module__.startswith("torchao") for weight in weights):
        return module
    from torchao.utils import unwrap_tensor_subclass

    return unwrap_tensor_subclass(copy.deepcopy(module))


def _traced(
    torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> Any:
    """Return the program of a module.

    Raises:
        XdlcError: If torch cannot trace it; with all problems that ``draft_export`` lists.
    """
    errors: list[Exception] = []
    for strict in (False, True):
        try:
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
        except Exception as error:
            errors.append(error)
    where = type(module).__name__
    check_surroundings(errors[0])
    _check_examples(torch, module, args, kwargs)
    problem, place = "torch.export cannot trace the module", _line_of_frame(torch, errors[0])
    refusal = _refusal(torch, problem, errors[0], module, where, place)
    problems: list[XdlcError] = []
    try:
        draft = torch.export.draft_export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
        for failure in draft._report.failures:
            text = failure.print({})
            line = re.search(r"user stacktrace:\s*(.*)", text)
            text = first_lines(text, skip="    This was") + (f" At: {line[1].strip()}" if line else "")
            problems.append(UnsupportedOp(text, where=where, fix=refusal.fix, code="XD407"))
    except Exception:
        problems = []
    if len(problems) > 1:
        raise ProblemList(problems, where=where) from errors[0]
    raise refusal from errors[0]


def _check_examples(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a module that torch cannot trace; if that fails too, blame its inputs.

    Raises:
        UsageError: If it fails.
    """
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        torch.func.functional_call(module, buffers, args, kwargs)
    except Exception as error:
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        shapes = ", ".join(f"{list(leaf.shape)} {leaf.dtype}" for leaf in leaves if hasattr(leaf, "shape"))
        place = _line_of_frame(torch, error)
        fix = "pass example_inputs of the shapes and types with which module(*example_inputs) works"
        if len(args) == 1 and isinstance(args[0], list):
            fix = "pass a tuple of tensors: a list is one argument"
        raise UsageError(
            f"the module itself fails with example_inputs of {shapes or 'no tensor'}: {first_lines(error)}",
            where=": ".join(filter(None, (type(module).__name__, place and place[0]))),
            fix=fix,
        ) from error


def _refusal(
    torch: Any, problem: str, error: Exception, module: Any, where: str, place: tuple[str, str] | None
) -> UnsupportedOp:
    """Return the error of a module that torch cannot trace or store.

    Args:
        problem: What it cannot do.
        module: The module, None if there is only a program.
        where: Name of the module's type.
        place: File, line and code that it is about, where that is known.
    """
    reason = first_lines(error)
    fix = _TENSORS if any(part in reason for part in _ODD) else "rewrite this part of the network"
    if any(part in str(error) for part in _DEPENDENT):
        fix = _REWRITE
        if place is not None:
            reason = f"`{place[1]}` depends on values of tensors"
    if module is not None and fix is not _TENSORS and _is_scriptable(torch, module):
        fix += "; or convert torch.jit.script(module), which keeps Python's branches and numbers"
    where = where if place is None else f"{where}: {place[0]}"
    return UnsupportedOp(f"{problem}: {reason}", where=where, fix=fix, code="XD407")


def _is_scriptable(torch: Any, module: Any) -> bool:
    try:
        torch.jit.script(module)
    except Exception:
        return False
    return True


def _line_of_frame(torch: Any, error: BaseException) -> tuple[str, str] | None:
    """Return file, line and code of the innermost frame outside torch and xdlc."""
    stdlib, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    own = (Path(torch.__file__).parent, Path(__file__).parents[2])
    place = None
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        is_of_python = path.is_relative_to(stdlib) and not path.is_relative_to(packages)
        if path.is_file() and not is_of_python and not any(path.is_relative_to(each) for each in own):
            place = f"{frame.filename}:{frame.lineno}", frame.line or ""
    return place


def _line_of_node(program: Any, error: Exception) -> tuple[str, str] | None:
    """Return file, line and code of the node that an error names."""
    name = re.search(r"serializing node (\w+)", str(error))
    nodes = {node.name: node for node in program.graph.nodes}
    trace = str(nodes[name[1]].meta.get("stack_trace")) if name is not None and name[1] in nodes else ""
    lines = re.findall(r'File "(.*)", line (\d+).*\n\s*(.*)', trace)
    return (f"{lines[-1][0]}:{lines[-1][1]}", lines[-1][2]) if lines else None


def check_surroundings(error: Exception) -> None:
    """Raise a UsageError if an error is caused by the installed packages.

    Raises:
        UsageError: In its place.
    """
    found = re.search(r"operator (\w+)::\w+ does not exist", str(error))
    if found is not None:
        raise UsageError(
            f"an extension of torch does not work: {found[0]}",
            fix=f"install a {found[1]} that fits torch, or correct its installation",
        ) from error


def _as_script(
    torch: Any, model: Any, path: Path, args: tuple[Any, ...]
) -> tuple[Path, dict[str, Sequence[int]]]:
    """Write a script; return its path, and the shapes of its inputs by name."""
    torch.jit.save(model, str(path))
    graph = model.graph if isinstance(model, torch.jit.ScriptFunction) else model.forward.graph
    names = [each.debugName().partition(".")[0] for each in graph.inputs()]
    given = zip(names[max(len(names) - len(args), 0) :], args, strict=False)
    return path, {name: tuple(value.shape) for name, value in given if hasattr(value, "shape")}


def _as_onnx(torch: Any, model: Any, path: Path, args: tuple[Any, ...], options: dict[str, Any]) -> Path:
    """Write a network as ONNX, by torch's own exporter.

    Raises:
        UnsupportedOp: If it cannot.
        UsageError: If a package that it needs is not installed.
    """
    try:
        torch.onnx.export(model, args, str(path), **options)
    except ImportError as error:
        raise UsageError(
            f"torch.onnx requires a package: {first_lines(error)}",
            fix="install the package: `pip install onnxscript`",
        ) from error
    except Exception as error:
        check_surroundings(error)
        problem = f"torch.onnx cannot export the network: {first_lines(error)}"
        raise UnsupportedOp(
            problem, where=type(model).__name__, fix="rewrite this part of the network"
        ) from error
    return path


def first_lines(error: object, skip: str = "For ") -> str:
    """Return the beginning of a message of torch, in one line."""
    text = re.sub(r"\x1b\[\d+m", "", str(error)).strip() or type(error).__name__
    joined = " ".join(text.split(f"\n{skip}")[0].split())
    return joined if len(joined) <= _MOST_TEXT else f"{joined[:_MOST_TEXT]}..."


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's logs, warnings and prints while tracing."""
    import logging

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
