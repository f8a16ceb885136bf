"""Rules are read as what they say; words are left as words."""

import pytest

from xdlc.opdefs.constraint_parser import MAX_DEPTH, NotAnExpressionError, parse


def tree(text, subject=""):
    """Return an expression as nested tuples."""

    def of(node):
        return (node.kind, node.value, *map(of, node.parts))

    return of(parse(text, subject))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", ("sum", "+", ("number", 1), ("sum", "*", ("number", 2), ("number", 3)))),
        ("(1 + 2) % 3", ("sum", "%", ("sum", "+", ("number", 1), ("number", 2)), ("number", 3))),
        ("8 - 4 - 2", ("sum", "-", ("sum", "-", ("number", 8), ("number", 4)), ("number", 2))),
        ("--x", ("name", "x")),
        ("-x", ("sign", "-", ("name", "x"))),
        ("1.5e3", ("number", 1500.0)),
        ("in[0]", ("index", None, ("name", "in"), ("number", 0))),
        (
            "in[0].dim[1]",
            ("index", None, ("call", "shape", ("index", None, ("name", "in"), ("number", 0))), ("number", 1)),
        ),
        ("rank of x", ("call", "rank", ("name", "x"))),
        ("Rank(x)", ("call", "rank", ("name", "x"))),
        ("number of inputs", ("call", "number", ("name", "inputs"))),
        ("a = b", ("compare", ("==",), ("name", "a"), ("name", "b"))),
        ("0 <= a < b", ("compare", ("<=", "<"), ("number", 0), ("name", "a"), ("name", "b"))),
        ("a ≥ 1", ("compare", (">=",), ("name", "a"), ("number", 1))),
        ("a in [0, 1]", ("compare", ("in",), ("name", "a"), ("list", None, ("number", 0), ("number", 1)))),
        (
            "shape = in[0]",
            ("compare", ("==",), ("name", "shape"), ("index", None, ("name", "in"), ("number", 0))),
        ),
        ("not a == 1", ("not", None, ("compare", ("==",), ("name", "a"), ("number", 1)))),
        ("'a' == \"b\"", ("compare", ("==",), ("text", "a"), ("text", "b"))),
    ],
)
def test_grammar(text, expected):
    assert tree(text) == expected


def test_and_binds_closer_than_or():
    node = parse("a == 1 or b == 2 and c == 3")
    assert node.kind == "or"
    assert [part.kind for part in node.parts] == ["compare", "and"]
    assert parse("(a == 1 or b == 2) && c == 3").kind == "and"


def test_a_rule_without_a_left_side_is_about_its_tensor():
    value = ("name", "value")
    assert tree("> 0", "value") == ("compare", (">",), value, ("number", 0))
    assert tree("in {1, 2}", "value")[2] == value
    assert tree("in [0, 1]", "value")[2] == value
    assert tree("in[0].rank == 1", "value")[2][0] == "call"
    with pytest.raises(NotAnExpressionError):
        parse("> 0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tensor must be positive only",
        "must be >= 1",
        "same as in[0]",
        "a +",
        "abs() > 1",
        "dim() > 1",
        "a b",
        "(a",
        "a[0",
        "[1, 2",
        "a..b",
        "a.b",
        "a ** 2",
        "a == ",
        "f(x)[",
        "__import__('os')",
        "a if b else c",
        "lambda: 0",
        "a; b",
        "a := 1",
        "1_000",
        "0x10",
        "9" * 19,
        "x" * 1001,
        "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1),
        "a[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1),
        "rank of " * 120 + "x",
        "[" * 400 + "]" * 400,
        "\0",
        "\u4e00",
    ],
)
def test_what_is_no_expression_is_words(text):
    with pytest.raises(NotAnExpressionError):
        parse(text)


def test_flat_expressions_are_read_up_to_a_length():
    assert parse(" + ".join(["1"] * 17)).kind == "sum"
    assert parse("-" * 900 + "1").kind == "number"
    assert parse(" and ".join(["a > 1"] * 80)).kind == "and"
    with pytest.raises(NotAnExpressionError):
        parse("+".join(["1"] * 18))
    with pytest.raises(NotAnExpressionError):
        parse("a" + "[0]" * 17)


def test_the_deepest_expression_that_is_read_can_be_evaluated():
    from xdlc.opdefs.constraint_eval import evaluate

    text = "1"
    for _ in range(MAX_DEPTH - 1):
        text = f"({text})" + "+1" * 16
    assert evaluate(parse(text), None) == 1 + 16 * (MAX_DEPTH - 1)


@pytest.mark.parametrize(
    "text",
    ["floor(1e999)", "ceil([1, 1e999])", "1e999 // 1", "-1e999", f"prod([{'1/999999999999999989, ' * 2}1])"],
)
def test_numbers_without_bound_are_not_known(text):
    from xdlc.opdefs.constraint_eval import UnknownError, evaluate

    with pytest.raises(UnknownError):
        evaluate(parse(text), None)
