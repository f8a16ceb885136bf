"""A configuration with all that the schema has, and its validation."""

from lxml import etree

from xdlc.opdefs.xml_reader import schema_text

BLEND = """<?xml version="1.0" encoding="UTF-8"?>
<!-- Two operations of a user. -->
<OpDefCollection xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"
    xs:noNamespaceSchemaLocation="OpDef.xsd" PackageName="BlendPackage" Domain="example" Version="1.0">
  <OpDefList>
    <OpDef>
      <Name>Blend</Name>
      <Description>
        <Content>Adds what it is given.</Content>
        <Code>y = gain * x + bias</Code>
        <Content></Content>
      </Description>
      <Reference Source="ONNX" Url="https://example.org/blend"></Reference>
      <Input>
        <Name>in[0]</Name>
        <Mandatory>true</Mandatory>
        <Constraint id="0" Type="Shape">rank(in[0]) = 4</Constraint>
        <Constraint id="" Type=""></Constraint>
        <Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape>
          <Rank>4D</Rank>
          <Layout>NHWC</Layout>
          <Text>[N, H, W, C]</Text>
        </Shape>
        <Default></Default>
        <Repeated></Repeated>
        <IsStaticTensor></IsStaticTensor>
      </Input>
      <Input>
        <Name>scale</Name>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>1D</Rank><Layout>UNDEFINED</Layout><Text>[C]</Text></Shape>
        <Default>1.0</Default>
      </Input>
      <Input>
        <Name>bias</Name>
        <Mandatory>False</Mandatory>
        <Datatype>FLOAT_32</Datatype>
        <Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>
        <Shape><Rank>1D</Rank><Text>[C]</Text></Shape>
        <IsStaticTensor>true</IsStaticTensor>
      </Input>
      <Input>
        <Name>rest</Name>
        <Mandatory>false</Mandatory>
        <Datatype>FLOAT_32</Datatype>
        <Shape><Rank>ND</Rank><Layout></Layout><Text></Text></Shape>
        <Repeated>true</Repeated>
      </Input>
      <Output>
        <Name>out[0]</Name>
        <Mandatory>true</Mandatory>
        <Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape>
          <Rank>4D</Rank>
          <Layout>BACKEND_SPECIFIC</Layout>
          <Text>[N, H, W, C]</Text>
        </Shape>
      </Output>
      <Output>
        <Name>out[1]</Name>
        <Mandatory>false</Mandatory>
        <Datatype>FLOAT_32</Datatype>
        <Shape><Rank>1D</Rank></Shape>
        <Repeated>true</Repeated>
      </Output>
      <Parameter>
        <Name>mode</Name>
        <Description><Content>How to add.</Content></Description>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Default>ADD</Default>
        <Enumeration>
          <Enum>ADD</Enum>
          <Enum>SUB</Enum>
        </Enumeration>
      </Parameter>
      <Parameter>
        <Name>pads</Name>
        <Mandatory>false</Mandatory>
        <Datatype>UINT_32</Datatype>
        <Shape><Rank>2D</Rank><Text>[2, 2]</Text></Shape>
        <Default>{(0, 1), (2, 3)}</Default>
      </Parameter>
      <Parameter>
        <Name>label</Name>
        <Mandatory>false</Mandatory>
        <Datatype>STRING</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Default>1</Default>
      </Parameter>
      <Parameter>
        <Name>flag</Name>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_BOOL_8</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Default>0</Default>
      </Parameter>
      <Parameter>
        <Name>gain</Name>
        <Mandatory>true</Mandatory>
        <Constraint id="0" Type="Value">&gt; 0</Constraint>
        <Datatype>FLOAT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Enumeration><Enum></Enum></Enumeration>
      </Parameter>
      <UseDefaultTranslation></UseDefaultTranslation>
      <SupportedBackend>CPU</SupportedBackend>
      <SupportedBackend>DSP_V68</SupportedBackend>
    </OpDef>
    <OpDef>
      <Name>Relu</Name>
      <Input>
        <Name>x</Name>
        <Mandatory>true</Mandatory>
        <Datatype>FIXED_8</Datatype>
        <Shape><Rank>ND</Rank></Shape>
      </Input>
      <Output>
        <Name>y</Name>
        <Mandatory>true</Mandatory>
        <Datatype>FIXED_8</Datatype>
        <Shape><Rank>ND</Rank></Shape>
      </Output>
      <UseDefaultTranslation>true</UseDefaultTranslation>
    </OpDef>
  </OpDefList>
  <SupplementalOpDefList Backend="CPU">
    <SupportedOps><OpName>Relu</OpName></SupportedOps>
    <SupplementalOpDef>
      <Name>Blend</Name>
      <Input>
        <Name>in[0]</Name>
        <Datatype>FLOAT_32</Datatype>
      </Input>
      <Output>
        <Name>out[0]</Name>
        <Datatype>FLOAT_32</Datatype>
        <Shape><Layout>NHWC</Layout></Shape>
      </Output>
    </SupplementalOpDef>
  </SupplementalOpDefList>
  <SupplementalOpDefList Backend="HTP">
    <SupportedOps>
      <OpName></OpName>
    </SupportedOps>
    <SupplementalOpDef>
      <Name>Blend</Name>
      <Input>
        <Name>in[0]</Name>
        <Constraint id="0" Type="Shape">rank = 4</Constraint>
        <Constraint id="7" Type="Shape">shape(in[0])[0] = 1</Constraint>
        <Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
        <Datatype>FIXED_16</Datatype>
        <Shape><Layout></Layout><Text>one batch</Text></Shape>
      </Input>
      <Input>
        <Name>bias</Name>
        <Datatype>QNN_DATATYPE_SFIXED_POINT_32</Datatype>
      </Input>
      <Output>
        <Name>out[0]</Name>
        <Datatype>FIXED_8</Datatype>
        <Shape><Layout>NHCW</Layout><Text></Text></Shape>
        <OnlyDefaultSupported></OnlyDefaultSupported>
      </Output>
      <Parameter>
        <Name>mode</Name>
        <OnlyDefaultSupported>true</OnlyDefaultSupported>
      </Parameter>
    </SupplementalOpDef>
  </SupplementalOpDefList>
</OpDefCollection>
"""
"""Valid; some elements are empty, as the vendor's templates have them."""


def schema_errors(path):
    """Return the breaches of the schema alone, without the rules of UDOs."""
    schema = etree.XMLSchema(etree.fromstring(schema_text().encode()))
    schema.validate(etree.parse(path))
    return [f"{path}:{error.line}: {error.message}" for error in schema.error_log]
