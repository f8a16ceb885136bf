import pytest

from xdlc.schema import generate

STEMS = sorted(path.stem for path in generate.FOLDER.glob("*.fbs"))


@pytest.mark.parametrize("stem", STEMS)
def test_generated_module_is_up_to_date(stem):
    written = (generate.FOLDER / "_generated" / f"{stem}.py").read_text(encoding="utf-8")
    assert written == generate.generate(stem), "run: python -m xdlc.schema.generate"


def test_no_generated_module_is_left_over():
    modules = {path.stem for path in (generate.FOLDER / "_generated").glob("*.py")} - {"__init__"}
    assert modules == set(STEMS)


@pytest.mark.parametrize(
    "text", ["struct A { a:int; }", "table A { a:int (key); }", "table A { a:int }", "%"]
)
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(ValueError, match=r"expected|cannot"):
        generate.parse(text)
