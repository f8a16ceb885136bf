"""Parameters of plugins that are one of some names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.dtype import UINT32
from xdlc.opdefs.model import ParamDef
from xdlc.udo.plugin.declared_tensors import described
from xdlc.udo.plugin.kinds import REQUIRED, Kind, is_integer, shown


class Enum(Kind):
    """One of some names.

    Args:
        names: The names; the op stores their places, from 0 on.
        default: One of them.
        numbers: Numbers that the source uses for them; default: their places.
        source: Name of the source's attribute, if it is another.
        description: What it is.

    Example:
        >>> operation = Enum("SUM", "ASUM", numbers={1: "SUM", 2: "ASUM"}, default="SUM")
        >>> operation.check(2), operation.check("SUM")
        ('ASUM', 'SUM')
    """

    text = "a name"
    standard = "uint32"
    allowed = ("uint",)

    def __init__(
        self,
        *names: str,
        default: Any = REQUIRED,
        numbers: Mapping[int, str] | None = None,
        source: str = "",
        description: str = "",
    ) -> None:
        if not names or len(set(names)) != len(names):
            raise UsageError(f"names of an enumeration are {list(names)}", fix="give each name once")
        bad = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
        if bad:
            raise UsageError(
                f"{bad[0]!r} is no name of an enumeration", fix="use letters, digits, underscores"
            )
        unknown = sorted(set((numbers or {}).values()) - set(names))
        if unknown:
            raise UsageError(f"numbers have {unknown[0]!r}", fix=f"use one of {', '.join(names)}")
        self.names = names
        self._of_number = enum_map(dict(enumerate(names)) if numbers is None else numbers)
        super().__init__(default, source=source, description=description)

    def check(self, value: Any) -> str:
        if isinstance(value, str):
            if value not in self.names:
                near = nearest_names(value, self.names)
                raise UsageError(f"there is no {value!r}", fix=near or f"use one of {', '.join(self.names)}")
            return value
        return self._of_number(value)

    def definition(self, name: str) -> ParamDef:
        return ParamDef(
            name,
            self.default is REQUIRED,
            (UINT32,),
            0,
            default=self.default_text(),
            description=described(self.description),
            enumeration=self.names,
        )


def enum_map(names: Mapping[int, str]) -> Callable[[Any], str]:
    """Return a function from the numbers of a source's enumeration to names.

    Args:
        names: Names by number.

    Example:
        >>> enum_map({1: "SUM", 2: "ASUM"})(2)
        'ASUM'
    """
    of_number = dict(names)

    def name_of(number: Any) -> str:
        if isinstance(number, bool) or not is_integer(number) or int(number) not in of_number:
            choices = ", ".join(f"{key} ({name})" for key, name in of_number.items())
            raise UsageError(f"there is no {shown(number)}", fix=f"use one of {choices}")
        return of_number[int(number)]

    return name_of
