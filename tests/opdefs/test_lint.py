"""What breaks no rule but is good to know is told with its line."""

from tests.opdefs.user_configs import BLEND
from xdlc.opdefs.lint import notices
from xdlc.opdefs.xml_reader import collection_lines, parse_collection


def told(text):
    data = text.encode()
    return notices(parse_collection(data, "f.xml"), collection_lines(data, "f.xml"))


def line(text, at):
    return text.count("\n", 0, text.index(at)) + 1


def test_repeated_tensors_of_ops_for_dsps():
    repeated = (
        "is Repeated, but DSP_V68 cannot have an unknown number of tensors: no library there implements it"
    )
    at = line(BLEND, "<Repeated>true")
    other = line(BLEND, "<Shape><Rank>1D</Rank></Shape>") + 1
    assert told(BLEND) == [
        f"f.xml:{at}: op 'Blend': input 'rest' {repeated}",
        f"f.xml:{other}: op 'Blend': output 'out[1]' {repeated}",
    ]


def test_ops_without_a_backend_and_rules_that_are_not_enforced():
    text = BLEND.replace("<OpName>Relu</OpName>", "").replace("&gt; 0", "gain &lt; top")
    unenforced, unnamed = told(text)[2:]
    assert unenforced.startswith(f"f.xml:{line(text, 'gain &lt;')}: op 'Blend': ")
    assert "constraint 'gain < top' of parameter 'gain': 'top' is not a name of the op" in unenforced
    assert unnamed.startswith(f"f.xml:{line(text, '<Name>Relu') - 1}: op 'Relu': names no backend")


def test_lists_of_extents_that_are_none():
    text = BLEND.replace("<Text>[N, H, W, C]</Text>", "<Text>[N, H W, C]</Text>", 1)
    assert told(text)[0].startswith(f"f.xml:{line(text, '[N, H W')}: op 'Blend': ")
    assert "shape '[N, H W, C]' of input 'in[0]'" in told(text)[0]


def test_an_extent_of_an_output_that_only_names_a_tensor():
    at = BLEND.index("[N, H, W, C]", BLEND.index("<Name>out[0]"))
    text = BLEND[:at] + "[N, H, bias, C]" + BLEND[at + len("[N, H, W, C]") :]
    assert told(text)[1].startswith(f"f.xml:{line(text, '[N, H, bias')}: op 'Blend': output 'out[0]' has no ")
    assert "shape(bias)[i]" in told(text)[1]


def test_without_lines_the_op_is_named():
    found = notices(parse_collection(BLEND.encode(), "f.xml"))
    assert found[0].startswith("op 'Blend': input 'rest' is Repeated")
