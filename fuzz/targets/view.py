"""Pages of damaged DLCs, and of reports about a model."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from fuzz.targets import Files, Target
from fuzz.targets.dlc import files
from tests.support.htp_models import cnn
from tests.view.test_reports import KINDS
from xdlc import api
from xdlc.view.content import assembled, page, side
from xdlc.view.reports import report_findings

REPORT = "report.json"


def reports() -> Iterator[Files]:
    """Iterate over a report of each kind."""
    for kind in KINDS:
        yield {REPORT: json.dumps(kind()).encode()}


def read_report(folder: Path, _rng: random.Random) -> str:
    """Make a page with a report."""
    model = cnn(quantized=True)
    findings = report_findings(model, [folder / REPORT])
    page(assembled(side(model, findings=[findings], statistics=False)))
    return f"{len(findings.overlays)} overlays"


def draw(folder: Path, _rng: random.Random) -> str:
    """Make the page of a container."""
    (path,) = folder.glob("*.dlc")
    result = api.view_content(path)
    page(result)
    return f"{min(len(result['sides'][0]['graphs']), 3)} graphs"


TARGETS = [Target("view-report", reports, read_report), Target("view-dlc", files, draw)]
