"""Picture of which SoC runs which op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from xdlc.page.svg import WIDTH, picture, rect, short, text

MOST_COLUMNS = 300
"""Most columns of a row; of more ops, neighbours share a column."""


def verdicts(socs: Sequence[str], ops: Sequence[str], refused: Mapping[tuple[str, str], str]) -> str:
    """Return which SoC supports which op.

    Args:
        socs: Names of SoCs, with what is to know about them.
        ops: Names of the ops, in order.
        refused: Reasons by SoC and op.
    """
    step, body = (WIDTH - 200) / max(len(ops), 1), [text(16, 22, "Which SoC runs which op", "h")]
    joined = -(-len(ops) // MOST_COLUMNS) or 1
    body += [rect(236, 12, 11, 11, "c"), text(252, 22, "on HTP", "small dim"), rect(306, 12, 11, 11, "no")]
    body += [text(322, 22, "not supported", "small dim")]
    for row, soc in enumerate(socs):
        high = 40 + 26 * row
        count = sum((soc, op) not in refused for op in ops)
        body.append(text(16, high + 15, short(soc, 15), "mono"))
        reasons = [refused.get((soc, op), "") for op in ops]
        columns = range(0, len(ops), joined)
        of_columns = {at: next(filter(None, reasons[at : at + joined]), "") for at in columns}
        for reason, members in groupby(columns, key=of_columns.__getitem__):
            first, *_, last = [*members] * 2
            last = min(last + joined, len(ops)) - 1
            tip = f"{ops[first]} to {ops[last]}: {reason or 'on HTP'}"
            wide = step * (last - first + 1) - 1
            body.append(rect(130 + step * first, high, wide, 20, "no" if reason else "c", tip))
        body.append(text(WIDTH - 62, high + 15, f"{count} of {len(ops)}", "small dim"))
    listed = list(dict.fromkeys(refused.values()))[:2]
    high = 40 + 26 * len(socs)
    body += [
        text(16, high + 16 + 18 * row, short(reason, 130), "small dim") for row, reason in enumerate(listed)
    ]
    return picture(WIDTH, high + 30 + 18 * len(listed), "Verdicts on each op by SoC", body)
