"""Free names: numbers that only grow, so that many alike cost no time."""

from xdlc.ir.names import FreeNames


class Counted(set[str]):
    """A set that counts how often it is queried."""

    queries = 0

    def __contains__(self, name: object) -> bool:
        self.queries += 1
        return super().__contains__(name)


def test_many_of_one_name_take_steps_in_proportion() -> None:
    taken = Counted()
    free_name = FreeNames(taken)
    for _ in range(2_000):
        taken.add(free_name("a"))
    assert len(taken) == 2_000
    assert {"a", "a_1", "a_1999"} <= taken
    assert taken.queries < 5_000


def test_a_name_that_is_released_comes_again() -> None:
    taken = {"a", "b#2"}
    free_name = FreeNames(taken, {"b"}, mark="#", first=2)
    assert free_name("b") == "b#3"
    assert free_name("a") == "a#2"
    free_name.release("a#2")
    assert free_name("a") == "a#2"
