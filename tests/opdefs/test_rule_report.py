"""Of each constraint it is told what becomes of it, with its line."""

from tests.opdefs.user_configs import BLEND
from xdlc import opdefs
from xdlc.opdefs.lint import rule_report


def test_each_constraint_is_told_with_its_line():
    text = BLEND.replace("&gt; 0", "gain &lt; top").replace("rank = 4<", "of a modest rank<")
    data = text.encode()
    report = rule_report(opdefs.parse_collection(data, "f.xml"), opdefs.collection_lines(data, "f.xml"))
    told = {
        "rank(in[0]) = 4": "input 'in[0]': enforced",
        "gain &lt; top": "parameter 'gain': documentation only, because 'top' is not a name of the op",
        "of a modest rank": "input 'in[0]' for HTP: documentation",
        "shape(in[0])[0] = 1": "input 'in[0]' for HTP: enforced",
    }
    assert report == [
        f"f.xml:{text.count(chr(10), 0, text.index(rule)) + 1}: op 'Blend': {verdict}: "
        f"{rule.replace('&lt;', '<')}"
        for rule, verdict in told.items()
    ]
    without_lines = rule_report(opdefs.parse_collection(data, "f.xml"))
    assert without_lines[0] == "op 'Blend': input 'in[0]': enforced: rank(in[0]) = 4"
