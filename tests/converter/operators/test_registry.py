"""The modules of importers are found by their sources, without importing them."""

from xdlc.converter.operators import registry


def test_sources_name_the_module_of_every_importer() -> None:
    for (domain, type), entries in registry.load_all().items():
        modules = {entry.function.__module__ for entry in entries}
        assert modules <= set(registry._homes()[type]), type
        assert registry.entries(domain, type) == entries
