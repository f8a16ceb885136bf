"""Picture of the way of a model: files, commands and figures."""

from __future__ import annotations

from xdlc.page.svg import Record, kib, path, picture, rect, short, text


def pipeline(built: Record) -> str:
    """Return the way of a model through all steps, from the result of ``build``."""
    wide, gap, x, body = 186, 66, 16.0, []
    for number, stage in enumerate(built["stages"]):
        if number:
            middle = x - gap / 2
            body.append(path("arrow", f"M{x - gap + 5:.1f} 108h{gap - 12}m-6 -5l6 5l-6 5"))
            body.append(text(middle, 26, stage["command"], "mono a", "middle"))
            body.append(path("rule dash", f"M{middle:.1f} 32V98"))
        name = str(stage["path"]).rsplit("/", 1)[-1]
        body += [
            rect(x, 44, wide, 128, "card", radius=8),
            text(x + 12, 68, stage["title"], "h"),
            text(x + 12, 88, short(name, 23), "mono dim"),
            text(x + 12, 118, kib(stage["bytes"]), "big"),
            *(
                text(x + 12, 140 + 18 * row, short(fact, 31), "small dim")
                for row, fact in enumerate(stage["facts"][:2])
            ),
        ]
        x += wide + gap
    body.append(text(16, 200, built["line"], "small"))
    return picture(x - gap + 16, 214, f"The way of a model. {built['line']}", body)
