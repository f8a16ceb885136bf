"""Recurrent cells: orders of gates, inputs of QNN's ops, and steps.

Gates have letters: i, f, c and o in an LSTM, z, r and n in a GRU, n in an RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from xdlc.ir import Op

GATES = {
    "i": "input",
    "f": "forget",
    "c": "cell",
    "o": "output",
    "z": "update",
    "r": "reset",
    "n": "new",
}
ORDERS: dict[str, dict[str, str]] = {
    "LSTM": {
        "ONNX": "iofc",
        "PyTorch": "ifco",
        "Keras": "ifco",
        "BlockLSTM": "icfo",
        "BlockLSTMV2": "ifco",
        "LSTMBlockCell": "icfo",
        "TFLite": "ifco",
        "TFLite basic": "icfo",
        "Caffe": "ifoc",
    },
    "GRU": {"ONNX": "zrn", "PyTorch": "rzn", "Keras": "zrn", "GRUBlockCell": "rz"},
    "RNN": {"ONNX": "n", "PyTorch": "n", "Keras": "n", "Caffe": "n", "TFLite": "n"},
}
"""Order of the gates in the weights of each format. Peepholes have this order without ``c``."""


class State(NamedTuple):
    """The positions of a state among the outputs and the inputs of a QNN op."""

    output: int
    input: int


@dataclass(frozen=True)
class Operation:
    """A recurrent operation of QNN.

    Attributes:
        inputs: Position of each gate's weights ``w``, recurrent weights ``r``, biases ``b`` (of the
            recurrence ``rb``) and peepholes ``p``.
        states: Positions of the states, the hidden state first.
        reset: Position of the reset input.
        others: Positions of norms, projections and reset.
        is_time_major: Whether the first axis is the time by default.
    """

    type: str
    inputs: Mapping[str, Mapping[str, int]]
    states: tuple[State, ...]
    reset: int
    others: tuple[int, ...]
    is_time_major: bool

    def time_axis(self, op: Op) -> int:
        """Return the axis of the steps in an input of three axes."""
        return 0 if op.param("time_major", self.is_time_major) else 1


OPERATIONS = {
    "LSTM": Operation(
        "Lstm",
        {
            "w": {"f": 1, "c": 2, "o": 3, "i": 16},
            "r": {"f": 4, "c": 5, "o": 6, "i": 17},
            "b": {"f": 7, "c": 8, "o": 9, "i": 21},
            "p": {"i": 18, "f": 19, "o": 20},
        },
        (State(2, 10), State(1, 11)),
        24,
        (12, 13, 14, 15, 22, 23, 24),
        False,
    ),
    "GRU": Operation(
        "Gru",
        {
            "w": {"z": 1, "r": 2, "n": 3},
            "r": {"z": 4, "r": 5, "n": 6},
            "b": {"z": 7, "r": 8, "n": 9},
            "rb": {"z": 10, "r": 11, "n": 12},
        },
        (State(1, 13),),
        14,
        (14,),
        True,
    ),
}
"""QNN's operation of a cell (OpDefs of Lstm and Gru)."""
BY_TYPE = {operation.type: operation for operation in OPERATIONS.values()}


class Number(Protocol):
    """A value with Python operators: the steps of cells are written with them."""

    def __add__(self, other: Any, /) -> Self:
        """Return a sum."""

    def __mul__(self, other: Any, /) -> Self:
        """Return a product, element by element."""

    def __rsub__(self, other: Any, /) -> Self:
        """Return a number minus the value."""


N = TypeVar("N", bound=Number)


def lstm_step(
    gate: Callable[[str, N], N],
    cell: N,
    activation: Callable[[N], N],
    keep: Callable[[str, N], N] = lambda _, value: value,
    *,
    missing: str = "",
    whole: float = 1,
) -> tuple[N, N]:
    """Return the hidden state and the cell after a step of an LSTM.

    Args:
        gate: Returns an activated gate by its letter, and the cell that its peephole reads.
        activation: Function of the cell in the hidden state.
        keep: Changes the values ``i``, ``kept`` and ``added``, their sum ``cell``, ``shown`` and ``hidden``.
        missing: The gate, ``i`` or ``f``, that is ``whole`` minus the other gate.
    """
    if missing == "f":
        entry = gate("i", cell)
        forget = whole - entry
    else:
        forget = gate("f", cell)
        entry = keep("i", whole - forget) if missing else gate("i", cell)
    added = keep("added", entry * gate("c", cell))
    cell = keep("cell", keep("kept", forget * cell) + added)
    return keep("hidden", gate("o", cell) * keep("shown", activation(cell))), cell


def gru_step(
    gate: Callable[[str], N],
    state: N,
    product: Callable[[N], N],
    new: Callable[[N], N],
    *,
    after: bool,
) -> N:
    """Return the state after a step of a GRU.

    Args:
        gate: Returns the activated gates ``z`` and ``r``.
        product: Multiplies by the recurrent weights of the gate ``n``.
        new: Returns the activated gate ``n`` for its share of the state.
        after: Whether the reset gate multiplies the product instead of the state.
    """
    reset = gate("r")
    share = reset * product(state) if after else product(reset * state)
    update = gate("z")
    return update * state + (1 - update) * new(share)
