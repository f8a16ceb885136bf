"""Writes xdlc/converter/pytorch/aten.txt: arguments of ATen's operators with their defaults.

    python scripts/aten_schemas.py

Needs torch.  One operator a line: name and overload, then each argument as ``type name`` or
``type name=default``; ``T!`` is a tensor that the operator changes, ``T&`` one that results are views of.
The types of the results follow unless they are one tensor.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "xdlc" / "converter" / "pytorch" / "aten.txt"
_OMITTED = re.compile(
    r"backward|_foreach|_fused_|sparse|mkldnn|cudnn|miopen|_nested|_cslt|mps|vulkan|_out$|coo|_jagged"
)
_KINDS = {
    "Tensor": "T",
    "int": "I",
    "SymInt": "I",
    "bool": "B",
    "SymBool": "B",
    "float": "F",
    "SymFloat": "F",
    "number": "S",
    "Scalar": "S",
    "str": "Str",
    "ScalarType": "D",
}


def kind(text: str) -> str:
    """Return the code of a type."""
    if text.startswith("Optional["):
        return kind(text[9:-1]) + "?"
    if text.startswith("List["):
        return kind(text[5:-1]) + "[]"
    return _KINDS.get(text, "X")


def line(schema: Any) -> str:
    """Return the line of an operator."""
    parts = []
    for argument in schema.arguments:
        alias = argument.alias_info
        mark = "" if alias is None else "!" if alias.is_write else "&"
        text = f"{kind(str(argument.real_type))}{mark} {argument.name}"
        if argument.has_default_value():
            text += f"={argument.default_value!r}"
        parts.append(text)
    name = schema.name.removeprefix("aten::") + (f".{schema.overload_name}" if schema.overload_name else "")
    results = " ".join(kind(str(each.real_type)) for each in schema.returns)
    return f"{name}({'; '.join(parts)}){'' if results == 'T' else ' -> ' + (results or 'None')}"


def main() -> None:
    """Write the table."""
    import torch

    lines = set()
    for schema in torch._C._jit_get_all_schemas():
        given = [str(argument.type) for argument in schema.arguments]
        is_tensor = any("Tensor" in text for text in [*given, *(str(each.type) for each in schema.returns)])
        is_out = any(each.is_out for each in schema.arguments)
        if schema.name.startswith("aten::") and is_tensor and not is_out and not _OMITTED.search(schema.name):
            lines.add(line(schema))
    TABLE.write_text("\n".join(sorted(lines)) + "\n")
    print(f"{TABLE.name}: {len(lines)} operators")


if __name__ == "__main__":
    main()
