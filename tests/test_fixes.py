"""Fixes that show shell lines quote what they take from files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import xdlc
from xdlc.errors import UsageError

PACKAGE = Path(xdlc.__file__).parent
FLAG = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*|cp|mv \w+|mkdir -p) $")
LIKELY = re.compile(r"""(-[a-zA-Z][\w-]*|cp|mv \w+|-p) ["'{]|spell\(""")
"""In each source with a value after a flag or an option's name."""
OPTION = re.compile(r"spell\('\w+'\)")
OWN = {
    "batch", "choice.soc", "device.name", "flag", "flags", "len(shapes)", "options['level']", "package",
    "part", "runtimes[0]", "soc.name", "x.shape[0]",
}  # fmt: skip
"""Expressions whose values no file chooses."""


def test_names_in_shell_lines_are_quoted():
    values = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if LIKELY.search(source) else ():
            if isinstance(node, ast.JoinedStr):
                values.update((text, path.name) for text in _values_of_flags(node.values))
    assert len(values) > 20
    assert not [value for value in values if value[0] not in OWN and "quote" not in value[0]]


def _values_of_flags(parts: list[ast.expr]) -> Iterator[str]:
    """Yield the expressions of an f-string after a flag or an option's name."""
    texts = [str(part.value) if isinstance(part, ast.Constant) else ast.unparse(part) for part in parts]
    for index, part in enumerate(parts[1:], 1):
        is_after_option = index > 1 and texts[index - 1] == " " and OPTION.search(texts[index - 2])
        if isinstance(part, ast.FormattedValue) and (FLAG.search(texts[index - 1]) or is_after_option):
            yield ast.unparse(part.value)


def test_a_fix_may_be_pasted():
    from onnx import TensorProto, helper

    name = "x;touch PWNED;$(id)"
    info = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in (name, "y")]
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "g", info[:1], info[1:])
    with pytest.raises(UsageError) as caught:
        xdlc.convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    assert f" '{name}' N,N" in caught.value.fix
