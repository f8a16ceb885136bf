"""Each rule of a configuration, broken once: one error with its line."""

import pytest

from tests.opdefs.user_configs import BLEND
from xdlc import opdefs
from xdlc.errors import ModelError

BAD = {
    "text of another rank": (
        "<Text>[C]</Text>",
        "<Text>[N, C]</Text>",
        "<Text>[N, C]</Text>",
        "op 'Blend': input 'scale' is 1D, but its Text has 2 dimensions",
    ),
    "layout of another rank": (
        "<Layout>UNDEFINED</Layout><Text>[C]</Text>",
        "<Layout>NHCW</Layout><Text>[C]</Text>",
        "<Layout>NHCW</Layout>",
        "op 'Blend': input 'scale' is 1D, but NHCW is an order of 4 axes",
    ),
    "unknown root": (
        "OpDefCollection",
        "OpDefs",
        "xs:noNamespace",
        "the root is <OpDefs>, expected <OpDefCollection>",
    ),
    "unknown tag": (
        "<UseDefaultTranslation></UseDefaultTranslation>",
        "<UseDefaultTranslations/>",
        "<UseDefaultTranslations",
        "op 'Blend': <UseDefaultTranslations> is not expected, expected one of Name, Description",
    ),
    "unknown tag in a tensor": (
        "<IsStaticTensor></IsStaticTensor>",
        "<Static>true</Static>",
        "<Static>",
        "op 'Blend': input 'in[0]': <Static> is not expected, expected one of Name",
    ),
    "tag of another namespace": (
        "<IsStaticTensor></IsStaticTensor>",
        '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/>',
        "<xi:include",
        "input 'in[0]': <{http://www.w3.org/2001/XInclude}include> is not expected",
    ),
    "unknown attribute": (
        '<Constraint id="7"',
        '<Constraint key="7"',
        'key="7"',
        "input 'in[0]': <Constraint>: attribute 'key' is not expected",
    ),
    "missing attribute": (
        ' PackageName="BlendPackage"',
        "",
        "xs:noNamespace",
        "<OpDefCollection>: The attribute 'PackageName' is required",
    ),
    "unknown attribute of the package": (
        ' Version="1.0"',
        '\n    Vers\u00efon="1.0" Version="1.0"',
        "Vers\u00efon",
        "attribute 'Versïon' is not expected",
    ),
    "namespace of its own": (
        "<OpDefCollection ",
        '<OpDefCollection xmlns="http://example.org" ',
        "xs:noNamespace",
        "the root is <{http://example.org}OpDefCollection>, expected <OpDefCollection>",
    ),
    "empty package": (
        'PackageName="BlendPackage"',
        'PackageName=""',
        "PackageName=",
        "attribute 'PackageName': The value '' has a length of '0'",
    ),
    "text between elements": (
        "<SupportedOps><OpName>Relu",
        "<SupportedOps>x<OpName>Relu",
        "<SupportedOps>x",
        "<SupportedOps>: Character content other than whitespace is not allowed",
    ),
    "second list": (
        "  </OpDefList>\n",
        ("  </OpDefList>\n  <OpDefList><OpDef><Name>A</Name></OpDef></OpDefList>\n"),
        "<OpDefList><OpDef>",
        "<OpDefCollection>: a second <OpDefList> is not expected",
    ),
    "no name": (
        "<Name>x</Name>",
        "",
        ("<Input>\n        \n"),
        "op 'Relu': input '' has no <Name>",
    ),
    "second name": (
        "<Name>x</Name>",
        "<Name>x</Name><Name>z</Name>",
        "<Name>z",
        "op 'Relu': input 'x': a second <Name> is not expected",
    ),
    "no mandatory": (
        ("<Name>gain</Name>\n        <Mandatory>true</Mandatory>"),
        "<Name>gain</Name>",
        ("<Parameter>\n        <Name>gain"),
        "op 'Blend': parameter 'gain' has no <Mandatory>",
    ),
    "bad boolean": (
        "<Mandatory>False<",
        "<Mandatory>no<",
        ">no<",
        "input 'bias': <Mandatory>: The value 'no' is not an element of the set",
    ),
    "bad flag": (
        "<Repeated></Repeated>",
        "<Repeated>yes</Repeated>",
        ">yes<",
        "input 'in[0]': <Repeated>: 'yes' is not expected, expected one of true, false",
    ),
    "bad type": (
        "QNN_DATATYPE_UINT_32",
        "QNN_DATATYPE_UINT_23",
        "UINT_23",
        "parameter 'mode': <Datatype>: 'QNN_DATATYPE_UINT_23' is not expected, expected one of",
    ),
    "no type": (
        "        <Datatype>UINT_32</Datatype>\n",
        "",
        ("<Parameter>\n        <Name>pads"),
        "op 'Blend': parameter 'pads' has no <Datatype>",
    ),
    "backend specific beside others": (
        "<Datatype>UINT_32<",
        "<Datatype>BACKEND_SPECIFIC</Datatype><Datatype>UINT_32<",
        "SPECIFIC</Datatype><Datatype>UINT_32<",
        "op 'Blend': parameter 'pads' lists data types together with BACKEND_SPECIFIC",
    ),
    "bad rank": (
        "<Rank>2D<",
        "<Rank>5D<",
        "5D",
        "parameter 'pads': <Shape>: <Rank>: The value '5D' is not an element of the set",
    ),
    "bad layout": (
        ("<Layout>NHWC</Layout>\n          <Text>"),
        ("<Layout>NWHC</Layout>\n          <Text>"),
        "NWHC",
        "input 'in[0]': <Shape>: <Layout>: The value 'NWHC' is not an element of the set",
    ),
    "constraint of elements": (
        'id="0" Type="Value">',
        'id="0" Type="Value"><Content/>',
        "<Content/>",
        "parameter 'gain': <Constraint>: Element content is not allowed",
    ),
    "constraint of unknown type": (
        'id="0" Type="Value"',
        'id="0" Type="Values"',
        "Values",
        "parameter 'gain': <Constraint>: attribute 'Type': The value 'Values' is not an element",
    ),
    "constraint id twice": (
        'id="7" Type="Shape"',
        'id="0" Type="Shape"',
        ">shape(in[0])[0] = 1",
        "backend HTP: supplement of op 'Blend': input 'in[0]' has 2 constraints of id '0'",
    ),
    "constraint id twice in the definition": (
        '<Constraint id="" Type=""></Constraint>',
        '<Constraint id="0" Type="Number">one</Constraint>',
        'Type="Number"',
        "op 'Blend': input 'in[0]' has 2 constraints of id '0'",
    ),
    "default of an output": (
        (
            "<Mandatory>true</Mandatory>\n"
            "        <Datatype>BACKEND_SPECIFIC</Datatype>\n"
            "        <Shape>\n"
            "          <Rank>4D</Rank>\n"
            "          <Layout>BACKEND"
        ),
        (
            "<Mandatory>true</Mandatory>\n"
            "        <Default>1</Default>\n"
            "        <Datatype>BACKEND_SPECIFIC</Datatype>\n"
            "        <Shape>\n"
            "          <Rank>4D</Rank>\n"
            "          <Layout>BACKEND"
        ),
        ("<Default>1</Default>\n        <Datatype>BACK"),
        "op 'Blend': output 'out[0]': <Default> is not expected",
    ),
    "default of a mandatory input": (
        "<Default></Default>",
        "<Default>0</Default>",
        "<Default>0",
        "op 'Blend': input 'in[0]' is mandatory and has a default value",
    ),
    "default of a mandatory parameter": (
        ("<Shape><Rank>SCALAR</Rank></Shape>\n        <Enumeration><Enum></Enum>"),
        (
            "<Shape><Rank>SCALAR</Rank></Shape>\n"
            "        <Default>1</Default>\n"
            "        <Enumeration><Enum></Enum>"
        ),
        ("<Default>1</Default>\n        <Enumeration>"),
        "op 'Blend': parameter 'gain' is mandatory and has a default value",
    ),
    "default outside the enumeration": (
        "<Default>ADD<",
        "<Default>MUL<",
        "MUL",
        ("op 'Blend': parameter 'mode' has the default 'MUL', but the enumeration has ADD 0, SUB 1"),
    ),
    "number outside the enumeration": (
        "<Default>ADD<",
        "<Default>2<",
        "<Default>2",
        ("op 'Blend': parameter 'mode' has the default '2', but the enumeration has ADD 0, SUB 1"),
    ),
    "scalar default of a tensor": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>4<",
        "<Default>4<",
        "op 'Blend': parameter 'pads' has the default '4', a scalar, expected a tensor of rank 2",
    ),
    "default of another rank": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>[0, 1]<",
        "<Default>[0, 1]<",
        (
            "op 'Blend': parameter 'pads' has the default '[0, 1]', a tensor of rank 1, expected a te"
            "nsor of rank 2"
        ),
    ),
    "tensor default of a scalar": (
        ("<Default>0</Default>\n      </Parameter>"),
        ("<Default>[0]</Default>\n      </Parameter>"),
        "<Default>[0]",
        ("op 'Blend': parameter 'flag' has the default '[0]', a tensor of rank 1, expected a scalar"),
    ),
    "default of another shape": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>[[0, 1, 2], [3, 4, 5]]<",
        "<Default>[[0, 1, 2]",
        (
            "op 'Blend': parameter 'pads' has the default '[[0, 1, 2], [3, 4, 5]]' of shape [2, 3], e"
            "xpected [2, 2]"
        ),
    ),
    "ragged default": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>[[0, 1], [2]]<",
        "<Default>[[0",
        "op 'Blend': parameter 'pads' has the default '[[0, 1], [2]]': its rows differ in length",
    ),
    "default with a bracket missing": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>[[0, 1], [2, 3]<",
        "<Default>[[0",
        ("op 'Blend': parameter 'pads' has the default '[[0, 1], [2, 3]': ']' is missing at the end"),
    ),
    "default of another type": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>[[0, 1], [2, 3.5]]<",
        "<Default>[[0",
        "op 'Blend': parameter 'pads' has the default '3.5', expected an integer of uint32",
    ),
    "negative default of an unsigned type": (
        "<Default>{(0, 1), (2, 3)}<",
        "<Default>[[0, 1], [2, -1]]<",
        "<Default>[[0",
        "op 'Blend': parameter 'pads' has the default '-1', expected 0 to 4294967295 of uint32",
    ),
    "default beyond its type": (
        "<Default>1.0<",
        "<Default>1e39<",
        "1e39",
        "op 'Blend': input 'scale' has the default '1e39', which is too large for float32",
    ),
    "words where a number is due": (
        "<Default>1.0<",
        "<Default>one<",
        "one<",
        "op 'Blend': input 'scale' has the default 'one', expected a number of float32",
    ),
    "bool default of another value": (
        ("<Default>0</Default>\n      </Parameter>"),
        ("<Default>2</Default>\n      </Parameter>"),
        "<Default>2",
        "op 'Blend': parameter 'flag' has the default '2', expected 0 or 1 of a bool",
    ),
    "enumeration of floats": (
        "QNN_DATATYPE_UINT_32",
        "FLOAT_32",
        "<Datatype>FLOAT_32</Datatype>\n        <Shape><Rank>SCALAR</Rank></Shape>\n        <Default>ADD",
        "op 'Blend': parameter 'mode' is an enumeration of float32, expected an integer type",
    ),
    "enumeration of strings": (
        "QNN_DATATYPE_UINT_32",
        "STRING",
        "<Datatype>STRING</Datatype>\n        <Shape><Rank>SCALAR</Rank></Shape>\n        <Default>ADD",
        "op 'Blend': parameter 'mode' is an enumeration of string, expected an integer type",
    ),
    "enumerator twice": (
        "<Enum>SUB<",
        "<Enum>ADD<",
        ("<Enum>ADD</Enum>\n        </Enumeration>"),
        "op 'Blend': parameter 'mode' has enumerator 'ADD' twice",
    ),
    "enumerator without a name": (
        "<Enum>SUB<",
        "<Enum><",
        ("<Enum></Enum>\n        </Enumeration>"),
        "op 'Blend': parameter 'mode' has an <Enum> without a name",
    ),
    "op twice": (
        "  </OpDefList>\n",
        (
            "    <OpDef><Name>Relu</Name><Input><Name>a</Name><Mandatory>1</Mandatory><Datatype>INT_8"
            "</Datatype>\n"
            "<Shape><Rank>1D</Rank></Shape></Input><Output><Name>b</Name><Mandatory>1</Mandatory><Dat"
            "atype>INT_8</Datatype>\n"
            "<Shape><Rank>1D</Rank></Shape></Output></OpDef>\n"
            "  </OpDefList>\n"
        ),
        "<OpDef><Name>Relu",
        "op 'Relu' is repeated",
    ),
    "input twice": (
        "<Name>scale<",
        "<Name>in[0]<",
        ("<Name>in[0]</Name>\n        <Mandatory>false"),
        "op 'Blend': name 'in[0]' is repeated, as input",
    ),
    "name of an input and a parameter": (
        "<Name>gain<",
        "<Name>scale<",
        ("<Name>scale</Name>\n        <Mandatory>true"),
        "op 'Blend': name 'scale' is repeated, as input and as parameter",
    ),
    "name of an input and an output": (
        "<Name>y<",
        "<Name>x<",
        (
            "<Name>x</Name>\n"
            "        <Mandatory>true</Mandatory>\n"
            "        <Datatype>FIXED_8</Datatype>\n"
            "        <Shape><Rank>ND</Rank></Shape>\n"
            "      </Output>"
        ),
        "op 'Relu': name 'x' is repeated, as input and as output",
    ),
    "parameter twice": (
        "<Name>flag<",
        "<Name>pads<",
        ("<Name>pads</Name>\n        <Mandatory>false</Mandatory>\n        <Datatype>QNN_DATATYPE_BOOL_8"),
        "op 'Blend': parameter 'pads' is repeated",
    ),
    "illegal package": (
        '"BlendPackage"',
        '"Blend-Package"',
        "PackageName=",
        "package name 'Blend-Package' has '-', expected letters, digits and underscores",
    ),
    "reserved package": (
        '"BlendPackage"',
        '"qti.aisw"',
        "PackageName=",
        "package name 'qti.aisw' is reserved",
    ),
    "illegal op": (
        "<Name>Blend<",
        "<Name>2Blend<",
        "2Blend",
        "op name '2Blend' begins with a digit",
    ),
    "keyword for a parameter": (
        "<Name>gain<",
        "<Name>double<",
        "double",
        "op 'Blend': parameter name 'double' is a keyword of C++",
    ),
    "illegal input": (
        "<Name>scale<",
        "<Name>scale factor<",
        "scale factor",
        "op 'Blend': input name 'scale factor' has ' ', expected letters, digits and underscores",
    ),
    "illegal index": (
        "<Name>scale<",
        "<Name>in[x]<",
        "in[x]",
        "op 'Blend': input name 'in[x]' has '[', expected letters, digits and underscores",
    ),
    "letters beyond ASCII": (
        "<Name>gain<",
        "<Name>gr\u00f6\u00dfe<",
        "gr\u00f6",
        "op 'Blend': parameter name 'gr\u00f6\u00dfe' has '\u00f6', expected letters, digits and underscores",
    ),
    "name too long": (
        "<Name>gain<",
        (
            "<Name>gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"
            "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"
            "ggggggggggggggggggggggggggggggg<"
        ),
        "gggg",
        "has a length of '201'; this exceeds the allowed maximum length of '200'",
    ),
    "optional before mandatory": (
        "<Mandatory>False<",
        "<Mandatory>true<",
        ("<Input>\n        <Name>bias"),
        "op 'Blend': optional input 'scale' precedes mandatory input 'bias'",
    ),
    "repeated, but not last": (
        ("<Repeated>true</Repeated>\n      </Input>"),
        (
            "<Repeated>true</Repeated></Input><Input><Name>last</Name><Mandatory>0</Mandatory>\n"
            "<Datatype>FLOAT_32</Datatype><Shape><Rank>1D</Rank></Shape></Input>"
        ),
        "<Repeated>true",
        "op 'Blend': input 'rest' is Repeated, but not the last input",
    ),
    "two repeated inputs": (
        "<IsStaticTensor>true",
        "<Repeated>1</Repeated><IsStaticTensor>true",
        "<Repeated>true",
        "op 'Blend': inputs 'bias' and 'rest' are both Repeated",
    ),
    "repeated output, but not last": (
        ("<Shape><Rank>1D</Rank></Shape>\n        <Repeated>true</Repeated>\n      </Output>"),
        (
            "<Shape><Rank>1D</Rank></Shape><Repeated>true</Repeated></Output>\n"
            "<Output><Name>last</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype><Shape>"
            "<Rank>1D</Rank></Shape></Output>"
        ),
        "<Shape><Rank>1D</Rank></Shape><Repeated>true",
        "op 'Blend': output 'out[1]' is Repeated, but not the last output",
    ),
    "string input": (
        (
            "<Datatype>FLOAT_32</Datatype>\n"
            "        <Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>\n"
            "        <Shape>"
        ),
        (
            "<Datatype>FLOAT_32</Datatype><Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype><Datatype>"
            "QNN_DATATYPE_STRING</Datatype>\n"
            "        <Shape>"
        ),
        "STRING",
        "op 'Blend': input 'bias' is a tensor of strings, expected numbers",
    ),
    "string parameter with axes": (
        ("<Datatype>STRING</Datatype>\n        <Shape><Rank>SCALAR<"),
        ("<Datatype>STRING</Datatype>\n        <Shape><Rank>1D<"),
        "STRING",
        "op 'Blend': parameter 'label' is a tensor of strings, expected numbers",
    ),
    "input of rank 0": (
        "<Shape><Rank>1D</Rank><Layout>",
        "<Shape><Rank>SCALAR</Rank><Layout>",
        "<Rank>SCALAR",
        "op 'Blend': input 'scale' is SCALAR, expected rank 1 or more",
    ),
    "output of rank 0": (
        "<Shape><Rank>1D</Rank></Shape>",
        "<Shape><Rank>SCALAR</Rank></Shape>",
        "<Rank>SCALAR",
        "op 'Blend': output 'out[1]' is SCALAR, expected rank 1 or more",
    ),
    "override of no native op": (
        "<UseDefaultTranslation></",
        "<UseDefaultTranslation>true</",
        "<UseDefaultTranslation>true",
        "op 'Blend': UseDefaultTranslation is true, but QNN has no operation of this name",
    ),
    "unknown backend": (
        ">DSP_V68<",
        ">DSP_V67<",
        "DSP_V67",
        "op 'Blend' names unknown backend 'DSP_V67'",
    ),
    "backend twice": (
        "<SupportedBackend>CPU<",
        ("<SupportedBackend>CPU</SupportedBackend>\n<SupportedBackend>CPU<"),
        ("<SupportedBackend>CPU</SupportedBackend>\n      <SupportedBackend>DSP"),
        "op 'Blend' names backend 'CPU' twice",
    ),
    "type left open": (
        ("        <Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>\n        <Datatype>FIXED_16</Datatype>\n"),
        "",
        "<Datatype>BACKEND_SPECIFIC",
        (
            "op 'Blend' is BACKEND_SPECIFIC in data type of input 'in[0]', which no supplement specifi"
            "es for DSP_V68"
        ),
    ),
    "type left open for one backend": (
        "<SupportedBackend>CPU<",
        "<SupportedBackend>GPU</SupportedBackend><SupportedBackend>CPU<",
        "<Datatype>BACKEND_SPECIFIC",
        (
            "op 'Blend' is BACKEND_SPECIFIC in data type of input 'in[0]', data type of output 'out[0"
            "]', layout of output 'out[0]', which no supplement specifies for GPU"
        ),
    ),
    "layout left open": (
        "<Shape><Layout>NHCW</Layout><Text></Text></Shape>",
        "",
        "<Layout>BACKEND_SPECIFIC",
        (
            "op 'Blend' is BACKEND_SPECIFIC in layout of output 'out[0]', which no supplement specifies"
            " for DSP_V68"
        ),
    ),
    "supplement for an unknown backend": (
        'Backend="CPU"',
        'Backend="CPUS"',
        'Backend="CPUS"',
        "supplement for unknown backend 'CPUS'",
    ),
    "supplement of an unknown op": (
        (
            "    <SupplementalOpDef>\n"
            "      <Name>Blend</Name>\n"
            "      <Input>\n"
            "        <Name>in[0]</Name>\n"
            "        <Datatype>FLOAT_32"
        ),
        (
            "    <SupplementalOpDef>\n"
            "      <Name>Blent</Name>\n"
            "      <Input>\n"
            "        <Name>in[0]</Name>\n"
            "        <Datatype>FLOAT_32"
        ),
        "Blent",
        "backend CPU: supplement of op 'Blent', which is not in the OpDefList",
    ),
    "unknown op is supported": (
        "<OpName>Relu<",
        "<OpName>Relus<",
        "Relus",
        "backend CPU: supported op 'Relus' is not in the OpDefList",
    ),
    "supplement of an unknown tensor": (
        ("<Name>bias</Name>\n        <Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>\n      </Input>"),
        ("<Name>bios</Name>\n        <Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>\n      </Input>"),
        "bios",
        "backend HTP: supplement of op 'Blend': input 'bios' is not in the op's definition",
    ),
    "supplement of an op twice": (
        ("    </SupplementalOpDef>\n  </SupplementalOpDefList>\n</"),
        (
            "    </SupplementalOpDef>\n"
            "    <SupplementalOpDef><Name>Blend</Name></SupplementalOpDef>\n"
            "  </SupplementalOpDefList>\n"
            "</"
        ),
        "<SupplementalOpDef><Name>Blend",
        "backend HTP: supplement of op 'Blend' is repeated",
    ),
    "supplement of an input twice": (
        ("<Name>bias</Name>\n        <Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>\n      </Input>"),
        ("<Name>in[0]</Name>\n      </Input>"),
        ("<Name>in[0]</Name>\n      </Input>"),
        "backend HTP: supplement of op 'Blend': input 'in[0]' is repeated",
    ),
    "type that the definition lacks": (
        ("<Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>\n      </Input>"),
        ("<Datatype>INT_32</Datatype>\n      </Input>"),
        ("INT_32</Datatype>\n      </Input>"),
        (
            "backend HTP: supplement of op 'Blend': input 'bias' has type int32, but the definition a"
            "llows float32, sfixed32"
        ),
    ),
    "supplement that is backend specific": (
        ("<Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>\n      </Input>"),
        ("<Datatype>BACKEND_SPECIFIC</Datatype>\n      </Input>"),
        ("<Datatype>BACKEND_SPECIFIC</Datatype>\n      </Input>"),
        "input 'bias': <Datatype>: 'BACKEND_SPECIFIC' is not expected",
    ),
    "layout that the definition lacks": (
        "<Shape><Layout></Layout><Text>one",
        "<Shape><Layout>NHCW</Layout><Text>one",
        "<Layout>NHCW</Layout><Text>one",
        ("backend HTP: supplement of op 'Blend': input 'in[0]' has layout NHCW, but the definition has NHWC"),
    ),
    "layout that resolves nothing": (
        "<Shape><Layout></Layout><Text>one",
        "<Shape><Layout>BACKEND_SPECIFIC</Layout><Text>one",
        "<Layout>BACKEND_SPECIFIC</Layout><Text>one",
        (
            "backend HTP: supplement of op 'Blend': input 'in[0]' has layout BACKEND_SPECIFIC, which "
            "specifies no layout"
        ),
    ),
    "only a default that is not there": (
        "        <Default>ADD</Default>\n",
        "",
        "<OnlyDefaultSupported>true",
        (
            "backend HTP: supplement of op 'Blend': parameter 'mode' supports only its default, but t"
            "he definition has none"
        ),
    ),
    "only the default of an output": (
        "<OnlyDefaultSupported></Only",
        "<OnlyDefaultSupported>1</Only",
        "<OnlyDefaultSupported>1",
        (
            "backend HTP: supplement of op 'Blend': output 'out[0]' supports only its default, but ou"
            "tputs have none"
        ),
    ),
    "no input": (
        (
            "      <Input>\n"
            "        <Name>x</Name>\n"
            "        <Mandatory>true</Mandatory>\n"
            "        <Datatype>FIXED_8</Datatype>\n"
            "        <Shape><Rank>ND</Rank></Shape>\n"
            "      </Input>\n"
        ),
        "",
        ("<OpDef>\n      <Name>Relu"),
        "op 'Relu' has no input, expected at least one",
    ),
    "no output": (
        (
            "      <Output>\n"
            "        <Name>y</Name>\n"
            "        <Mandatory>true</Mandatory>\n"
            "        <Datatype>FIXED_8</Datatype>\n"
            "        <Shape><Rank>ND</Rank></Shape>\n"
            "      </Output>\n"
        ),
        "",
        ("<OpDef>\n      <Name>Relu"),
        "op 'Relu' has no output, expected at least one",
    ),
    "malformed": (
        "</OpDefList>",
        "</OpDefLists>",
        "</OpDefLists>",
        "tag mismatch: OpDefList line 5 and OpDefLists",
    ),
    "unclosed": (
        "</OpDefCollection>\n",
        "",
        None,
        "Premature end of data in tag OpDefCollection",
    ),
    "ampersand": (
        "one batch",
        "one & batch",
        "one & batch",
        "is not well-formed XML",
    ),
    "undefined entity": (
        "one batch",
        "&nbsp;",
        "&nbsp;",
        "is not well-formed XML: Entity 'nbsp' not defined",
    ),
    "document type": (
        "<!-- Two",
        ("<!DOCTYPE a>\n<!-- Two"),
        "<!DOCTYPE",
        "document type 'a' is not allowed",
    ),
    "two repeated outputs": (
        ("<Shape><Rank>1D</Rank></Shape>\n        <Repeated>true</Repeated>\n      </Output>"),
        (
            "<Shape><Rank>1D</Rank></Shape><Repeated>true</Repeated></Output>\n"
            "<Output><Name>last</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype><Shape>"
            "<Rank>1D</Rank></Shape><Repeated>1</Repeated></Output>"
        ),
        "<Output><Name>last",
        "op 'Blend': outputs 'out[1]' and 'last' are both Repeated",
    ),
}
"""What is replaced by what, where the line is that is told (None: the last), and what is told."""


@pytest.mark.parametrize("name", BAD)
def test_a_broken_rule_is_one_error_with_its_line(name, tmp_path):
    old, new, at, problem = BAD[name]
    assert old in BLEND
    text = BLEND.replace(old, new) if old == "OpDefCollection" else BLEND.replace(old, new, 1)
    line = text.count("\n", 0, text.index(at) if at else None) + 1
    path = tmp_path / "bad.xml"
    path.write_text(text, encoding="utf-8")
    (only,) = opdefs.validate_xml(path)
    assert problem in only.problem
    assert only.where == f"{path}:{line}"
    assert only.fix
    with pytest.raises(ModelError, match=f":{line}: ") as caught:
        opdefs.read_valid(path)
    assert problem in caught.value.problem


def test_the_configuration_they_are_made_from_is_valid(tmp_path):
    path = tmp_path / "good.xml"
    path.write_text(BLEND)
    assert opdefs.validate_xml(path) == []
    found = opdefs.read_valid(path)
    assert opdefs.parse_collection(opdefs.write_collection(found).encode(), "written") == found
