"""``xdlc-explain``: errors of xdlc, and of the vendor's libraries."""

from __future__ import annotations

import re
from dataclasses import asdict

import click

from xdlc.cli.text import clean
from xdlc.cli.tool import result, show, tool

LABELS = {"component": "component", "cause": "cause", "fix": "fix", "example": "fails", "page": "page"}


@tool(
    "xdlc-explain",
    epilog="The exit code is 0 if xdlc explained an error, 1 if the text has no known error, and 2 if a code "
    "or a name does not exist.",
)
@click.argument("subject", metavar="CODE|LINE|FILE", nargs=-1, required=True)
@click.pass_context
def main(context: click.Context, subject: tuple[str, ...]) -> None:
    """Explain errors of xdlc and of the vendor's libraries: cause and fix.

    CODE is a code of xdlc (XD104), a number of the vendor's libraries (1002 or 0x3ea), or a name
    (QNN_GRAPH_ERROR_FINALIZE_FAILED). LINE is a line of a log, in quotes. FILE is a log. xdlc shows each
    error of the log once, and counts the lines with this error.
    """
    from xdlc import explain

    several = all(re.fullmatch(r"0[xX][0-9a-fA-F]+|-?\d+|\w*ERROR\w*|[xX][dD]\d+", word) for word in subject)
    texts = subject if several else (" ".join(subject),)
    explanations = [explanation for text in texts for explanation in explain(text)]
    result(explanations=[asdict(explanation) for explanation in explanations])
    before = 0
    for explanation in explanations:
        times = f", {explanation.count} times" if explanation.count > 1 else ""
        place = f"line {explanation.line}{times}: " if explanation.line else ""
        start = f"  error{times}: " if before and before == explanation.line else place
        before = explanation.line
        show(f"{start}{clean(explanation.subject)}")
        for name, label in LABELS.items():
            if text := getattr(explanation, name):
                show(f"  {label}: {clean(text)}")
    if not explanations:
        show("the text has no known error; pass a code like XD104, a number, or a line of a log")
        context.exit(1)
