"""Fixes that show shell lines quote what they take from files."""

import ast
import re
from pathlib import Path

import pytest

import xdlc
from xdlc.errors import UsageError

PACKAGE = Path(xdlc.__file__).parent
FLAG = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*|cp|mv \w+|mkdir -p) $")
OWN = {
    "batch", "choice.soc", "device.name", "flag", "flags", "len(shapes)", "options['level']", "package",
    "runtimes[0]", "soc.name", "x.shape[0]",
}  # fmt: skip
"""Expressions whose values no file chooses."""


def test_names_in_shell_lines_are_quoted():
    values = set()
    for path in PACKAGE.rglob("*.py"):
        for text in (
            each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.JoinedStr)
        ):
            for before, value in zip(text.values, text.values[1:], strict=False):
                is_after = isinstance(before, ast.Constant) and FLAG.search(str(before.value))
                if is_after and isinstance(value, ast.FormattedValue):
                    values.add((ast.unparse(value.value), path.name))
    assert len(values) > 30
    assert not [each for each in values if each[0] not in OWN and "quote" not in each[0]]


def test_a_fix_may_be_pasted():
    from onnx import TensorProto, helper

    name = "x;touch PWNED;$(id)"
    info = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in (name, "y")]
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "g", info[:1], info[1:])
    with pytest.raises(UsageError) as caught:
        xdlc.convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    assert f" '{name}' N,N" in caught.value.fix
