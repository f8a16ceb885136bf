"""A configuration whose optional elements are all empty is valid."""

import pytest

from xdlc import opdefs
from xdlc.ir import dtype as dt

ROOT = (
    '<OpDefCollection xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" '
    'xs:noNamespaceSchemaLocation="OpDef.xsd" PackageName="ExamplePackage" Domain="example" Version="1.0">'
)


def elements(*tags):
    return "".join(f"<{tag}></{tag}>" for tag in tags)


def tensor(tag, name, mandatory, dtype, empty):
    return (
        f'<{tag}><Name>{name}</Name><Mandatory>{mandatory}</Mandatory><Constraint id="" Type=""></Constraint>'
        f"<Datatype>{dtype}</Datatype><Shape><Rank>1D</Rank>{elements('Layout', 'Text')}</Shape>"
        f"{empty}</{tag}>"
    )


def supplement(tag, name):
    return (
        f'<{tag}><Name>{name}</Name><Constraint id="" Type=""></Constraint><Datatype></Datatype>'
        f"<Shape>{elements('Layout', 'Text')}</Shape>{elements('OnlyDefaultSupported')}</{tag}>"
    )


def with_empty_elements(prefix, backend):
    """Return such a configuration; types are spelled with a prefix, QNN's or none."""
    parts = [
        ROOT,
        "<OpDefList><OpDef><Name>OpName</Name><Description><Content></Content><Code></Code></Description>",
        '<Reference Source="" Url=""></Reference>',
        tensor(
            "Input", "in[0]", "true", f"{prefix}FLOAT_32", elements("Default", "Repeated", "IsStaticTensor")
        ),
        tensor("Output", "out[0]", "true", f"{prefix}FLOAT_32", elements("Repeated")),
        tensor(
            "Parameter",
            "param",
            "false",
            f"{prefix}INT_32",
            f"{elements('Default')}<Enumeration><Enum></Enum></Enumeration>",
        ),
        f"{elements('UseDefaultTranslation')}<SupportedBackend>{backend}</SupportedBackend></OpDef></OpDefList>",
        '<SupplementalOpDefList Backend="HTP"><SupportedOps><OpName></OpName></SupportedOps>',
        "<SupplementalOpDef><Name>OpName</Name>",
        supplement("Input", "in[0]"),
        supplement("Output", "out[0]"),
        supplement("Parameter", "param"),
        "</SupplementalOpDef></SupplementalOpDefList></OpDefCollection>",
    ]
    return "\n".join(parts)


@pytest.mark.parametrize(("prefix", "backend"), [("QNN_DATATYPE_", "HTP"), ("", "DSP_V68")])
def test_empty_elements_mean_nothing(prefix, backend, tmp_path):
    path = tmp_path / "empty.xml"
    path.write_text(with_empty_elements(prefix, backend))
    assert opdefs.validate_xml(path) == []
    collection = opdefs.read_valid(path)
    (op,) = collection.opdefs
    assert (collection.package, collection.domain, collection.version) == ("ExamplePackage", "example", "1.0")
    assert (op.name, op.description, op.references, op.backends) == ("OpName", (), (), (backend,))
    assert not op.use_default_translation
    (place,) = op.inputs
    assert (place.name, place.mandatory, place.dtypes, place.rank) == ("in[0]", True, (dt.FLOAT32,), 1)
    assert (place.layout, place.text, place.default, place.constraints) == ("", "", None, ())
    assert (place.repeated, place.is_static) == (False, False)
    assert op.params["param"].enumeration == ()
    assert opdefs.resolve(op, collection, backend).inputs == op.inputs
    assert opdefs.parse_collection(opdefs.write_collection(collection).encode(), "again") == collection
