import pkgutil

import pytest

from xdlc.ir import Op
from xdlc.runtime import ops


def test_every_module_registers_something():
    homes = {function.__module__ for function in ops._LOWERINGS.all().values()}
    modules = {f"{ops.__name__}.{module.name}" for module in pkgutil.iter_modules(ops.__path__)}
    assert modules == homes


def test_twice_is_refused():
    ops.known_types()
    with pytest.raises(ValueError, match=r"lowering of qti\.aisw\.Conv2d already"):
        ops.lowering("Conv2d")(lambda op, b: None)


def test_unknown_types_have_none():
    assert ops.find(Op("Nonsense", [], [], name="n")) is None
    assert ops.find(Op("Conv2d", [], [], name="n", package="other")) is None
