"""Plugins are found by name and entry point; broken ones are notices."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
from onnx import helper

from tests.udo.plugin.plugins import node, spec, written
from xdlc import api
from xdlc.errors import ProblemList, StorageError, UsageError, XdlcError
from xdlc.udo.load import GROUP, load
from xdlc.udo.plugin import Plugin, discovery
from xdlc.udo.plugin.collection import plugin_set

TEXT = """class Base(Plugin):
    package = "Pack"
    inputs = ["x"]
    outputs = ["y"]

class {name}(Base):
    op_type = "{type}"
    {more}
"""


def plugin_text(name="Mine", type="Mine", more=""):
    return TEXT.format(name=name, type=type, more=more)


def test_a_file_and_a_class(tmp_path):
    path = written(tmp_path, plugin_text())
    for name in (f"{path}:Mine", str(path)):
        found = plugin_set([name], False)
        assert [op.definition.name for op in found.ops] == ["Mine"]
        assert found.ops[0].source == "plugin Mine (mine.py:8)"
        assert list(found.collections) == ["Pack"]
        assert found.collections["Pack"].opdefs == (found.ops[0].definition,)
    assert not list(tmp_path.glob("**/*.pyc"))


def test_a_module_and_a_class(tmp_path, monkeypatch):
    written(tmp_path, plugin_text(), "my_ops.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = plugin_set(["my_ops:Mine"], False)
    assert found.candidates("onnx", "Mine", "any.domain")[0].definition.package == "Pack"
    assert found.candidates("caffe", "Mine") == ()
    del sys.modules["my_ops"]


def test_a_name_that_is_nearly_that_of_a_hook_is_told(tmp_path):
    path, notes = written(tmp_path, plugin_text(more="def infer_shapes_and_type(self, op): ...")), []
    plugin_set([str(path)], False, notes.append)
    assert notes == [
        "plugin Mine has 'infer_shapes_and_type', which xdlc ignores: did you mean 'infer_shape_and_type'?"
    ]


def test_the_same_plugin_named_twice_counts_once(tmp_path):
    path = written(tmp_path, plugin_text())
    assert len(plugin_set([f"{path}:Mine", str(path)], False).ops) == 1


def test_a_file_may_import_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_the_plugin.py").write_text("NAME = 'Mine'\n")
    path = written(tmp_path, "from beside_the_plugin import NAME\n" + plugin_text())
    before = list(sys.path)
    assert plugin_set([f"{path}:Mine"], False).ops[0].definition.name == "Mine"
    assert sys.path == before
    assert not list(tmp_path.glob("**/*.pyc"))
    del sys.modules["beside_the_plugin"]


def test_a_changed_file_is_read_again(tmp_path):
    path = written(tmp_path, plugin_text())
    plugin_set([str(path)], False)
    written(tmp_path, plugin_text(type="Other"))
    assert plugin_set([str(path)], False).ops[0].source_types == ("Other",)


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        (
            "import no_such_module_here\n",
            ":3: plugin mine.py, import",
            "raised ModuleNotFoundError: No module named",
        ),
        ("\n\nclass Mine(Plugin:\n", ":5: plugin mine.py, import", "raised SyntaxError"),
        (
            "\ndef f():\n    raise OSError('disk')\nf()\n",
            ":5: plugin mine.py, import",
            "raised OSError: disk",
        ),
        ("import sys\nsys.exit(3)\n", ":4: plugin mine.py, import", "raised SystemExit: 3"),
        (
            plugin_text(more="inputs = [Input('x', dtypes=3)]"),
            ":10: plugin mine.py, import",
            "raised TypeError",
        ),
        (
            plugin_text(more="params = {'a': Int('x')}"),
            ":10: plugin mine.py, import",
            "'x', expected a number of int32",
        ),
        (
            plugin_text(more="def __init__(self):\n        1 / 0"),
            ":11: plugin Mine, __init__",
            "ZeroDivisionError",
        ),
        (plugin_text(more="def __init__(self, x): pass"), ":8: plugin Mine, __init__", "TypeError"),
        ("Mine = 3\n", "", "mine.py:Mine is the int 3, not a plugin"),
        ("class Mine: pass\n", "", "is the type Mine, not a plugin"),
        ("Mine = Plugin\n", "", "is the type Plugin, not a plugin"),
        (plugin_text(name="Mine2"), "", "there is no 'Mine' in"),
    ],
)
def test_what_is_broken_is_told_with_its_line(tmp_path, text, where, problem):
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=problem) as caught:
        plugin_set([f"{path}:Mine"], False)
    if where:
        assert f"{path}{where}" in caught.value.where
    assert "Traceback" not in str(caught.value)


def test_a_broken_file_is_not_remembered(tmp_path):
    path = written(tmp_path, "1 / 0\n")
    for _ in range(2):
        with pytest.raises(UsageError, match="ZeroDivisionError"):
            plugin_set([str(path)], False)


@pytest.mark.parametrize(
    ("name", "error", "problem"),
    [
        ("mine", UsageError, "'mine' names no plugin"),
        ("no_such_module:Mine", UsageError, "there is no module 'no_such_module'"),
        ("no_such.module:Mine", UsageError, "there is no module 'no_such.module'"),
        (".relative:Mine", UsageError, "raised"),
        ("json:JSONDecoder", UsageError, "not a plugin"),
        ("json:", UsageError, "names no plugin"),
        (":Mine", UsageError, "names no plugin"),
        ("/none/mine.py:Mine", StorageError, "cannot be read"),
        ("/none/mine.py", StorageError, "cannot be read"),
    ],
)
def test_names_that_lead_nowhere(name, error, problem):
    with pytest.raises(error, match=problem):
        plugin_set([name], False)


def test_a_string_is_no_list_of_names():
    with pytest.raises(UsageError, match="are the string"):
        plugin_set("a:B", False)


def test_a_file_without_plugins(tmp_path):
    path = written(tmp_path, "x = 1\n")
    with pytest.raises(UsageError, match="defines no plugin"):
        plugin_set([str(path)], False)


def test_a_large_file_is_not_read(tmp_path):
    path = tmp_path / "mine.py"
    with open(path, "wb") as file:
        file.truncate((8 << 20) + 1)
    with pytest.raises(UsageError, match="larger than 8 MiB"):
        plugin_set([str(path)], False)


def test_all_broken_plugins_are_told_at_once(tmp_path):
    one = written(tmp_path, plugin_text(more="outputs = []"), "one.py")
    two = written(tmp_path, plugin_text(more="inputs = 3"), "two.py")
    with pytest.raises(ProblemList) as caught:
        plugin_set([str(one), str(two)], False)
    assert len(caught.value.problems) == 2


# ---------------------------------------------------------------------- clashes

CHOOSY = "def accepts(self, node):\n        return node.inputs[0].shape == (1,)"


def pair(tmp_path, first, second):
    one = written(tmp_path, first, "one.py")
    two = written(tmp_path, second, "two.py")
    return [str(one), str(two)]


def test_two_plugins_for_one_operator_clash(tmp_path):
    names = pair(tmp_path, plugin_text(more="name = 'A'"), plugin_text(more="name = 'B'"))
    with pytest.raises(
        UsageError, match=r"Mine \(one.py:8\) and plugin Mine \(two.py:8\) both convert Mine of onnx"
    ):
        plugin_set(names, False)


def test_two_plugins_that_define_one_op_clash(tmp_path):
    names = pair(tmp_path, plugin_text(), plugin_text(more="op_type = 'Other'\n    name = 'Mine'"))
    with pytest.raises(UsageError, match="both define Pack::Mine"):
        plugin_set(names, False)


@pytest.mark.parametrize(
    "more", ["name = 'B'; domain = 'other'", "name = 'B'; framework = 'caffe'", f"name = 'B'\n    {CHOOSY}"]
)
def test_plugins_that_do_not_clash(tmp_path, more):
    names = pair(tmp_path, plugin_text(more="name = 'A'; domain = 'one'"), plugin_text(more=more))
    assert len(plugin_set(names, False).ops) == 2


def test_plugins_that_choose_are_asked_first(tmp_path):
    names = pair(tmp_path, plugin_text(more="name = 'All'"), plugin_text(more=f"name = 'Some'\n    {CHOOSY}"))
    found = plugin_set(names, False)
    assert [op.definition.name for op in found.candidates("onnx", "Mine")] == ["Some", "All"]
    assert [op.accepts(node(spec(2))) for op in found.ops] == [False, True]
    assert sorted(op.name for op in found.collections["Pack"].opdefs) == ["All", "Some"]


# ---------------------------------------------------------------------- entry points


class Distribution:
    name = "my-ops"
    version = "2.1"


def installed(monkeypatch, *values):
    entries = [EntryPoint(f"entry{place}", value, GROUP) for place, value in enumerate(values)]
    for entry in entries:
        vars(entry).update(dist=Distribution)
    monkeypatch.setattr(discovery, "plugin_entries", lambda: entries)


def test_installed_plugins_are_used_unless_they_are_named(tmp_path, monkeypatch):
    written(tmp_path, plugin_text(), "their_ops.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(monkeypatch, "their_ops:Mine")
    notes: list[str] = []
    (op,) = plugin_set([], True, notes.append).ops
    assert notes == []
    assert op.installed == ("xdlc uses plugin Mine: entry point 'entry0' of my-ops 2.1",)
    assert plugin_set([], False).ops == ()
    (op,) = plugin_set(["their_ops:Mine"], True).ops
    assert not op.installed


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_ops:Mine", "raised ModuleNotFoundError"),
        ("json:Mine", "raised AttributeError"),
        ("json:JSONDecoder", "entry point 'entry0' of my-ops 2.1 is the type JSONDecoder, not a plugin"),
        ("broken_ops:Mine", "raised ZeroDivisionError"),
    ],
)
def test_installed_plugins_that_are_broken(tmp_path, monkeypatch, value, problem):
    path = written(tmp_path, "\n1 / 0\n", "broken_ops.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(monkeypatch, value)
    with pytest.raises(XdlcError, match=problem) as caught:
        plugin_set([])
    assert "my-ops 2.1" in str(caught.value)
    if value.startswith("broken"):
        assert f"{path}:4: " in caught.value.where
    assert "no_plugins=True" in caught.value.fix


def test_plugins_of_a_real_installation(tmp_path, monkeypatch, models):
    written(tmp_path, plugin_text(more="infer_shape_and_type = lambda self, op: op.inputs[0]"), "real_ops.py")
    folder = tmp_path / "real_ops-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: real-ops\nVersion: 1.2\n")
    (folder / "entry_points.txt").write_text("[xdlc.plugins]\nmine = real_ops:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    node = helper.make_node("Mine", ["x"], ["y"], "n", domain="custom")
    model = models.make([node], {"x": [2]}, {"y": [2]})
    model.opset_import.append(helper.make_opsetid("custom", 1))
    path = models.save(model)
    notes: list[str] = []
    assert [op.package for op in api.convert(path, notify=notes.append).main.ops] == ["Pack"]
    assert "xdlc uses plugin Mine: entry point 'mine' of real-ops 1.2; 1 op is Pack::Mine" in notes
    with pytest.raises(XdlcError):
        api.convert(path, no_plugins=True)
    other = models.save(models.make([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, {"y": [2]}))
    for named, notices in ((), ()), (["real_ops:Mine"], ("no op of the model is Pack::Mine",)):
        assert api.check(other, plugin=named).notices == notices


def test_a_class_may_be_given_itself():
    class Mine(Plugin):
        op_type = "Mine"
        package = "Pack"
        inputs = ("x",)
        outputs = ("y",)

    assert plugin_set([Mine], False).ops[0].source.startswith("plugin Mine (test_discovery.py:")
    with pytest.raises(UsageError, match="a plugin is the type int, not a plugin"):
        plugin_set([int], False)


def test_a_package_that_a_configuration_tells_of_too(tmp_path):
    path = written(tmp_path, plugin_text())
    config = tmp_path / "other.json"
    config.write_text(
        """{"UdoPackage_0": {"UDO_PACKAGE_NAME": "Pack", "Operators": [{"type": "Other",
        "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
        "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
        "core_types": ["CPU"]}]}}"""
    )
    with load(udo_config_paths=config, plugin=[str(path)]) as found:
        assert sorted(op.name for op in found.collections["Pack"].opdefs) == ["Mine", "Other"]
    config.write_text(config.read_text().replace("Other", "Mine"))
    notices = r"^plugin Mine \(mine.py:8\) and .*other.json.* both define Pack::Mine"
    with pytest.raises(UsageError, match=notices), load(udo_config_paths=config, plugin=[str(path)]):
        pass


def test_nothing_is_installed_nothing_is_found():
    assert plugin_set([]).ops == ()
