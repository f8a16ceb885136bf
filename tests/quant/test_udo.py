"""Activations of UDOs have the types that definitions take."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.quant.udo_models import (
    SAMPLES,
    defined,
    gain,
    op,
    quality,
    results,
    sandwich,
    sqnr,
    top,
    types,
    values_of,
)
from tests.support.custom_ops import place
from xdlc.container import udo
from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset, static
from xdlc.ir.dtype import BY_NAME, FLOAT32, INT32, UFIXED8, UFIXED16
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTable, SupplementTensor
from xdlc.quant.encoding_groups import EncodingGroups
from xdlc.quant.mixed.groups import find_groups
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import place as place_ops
from xdlc.quant.precision import Precision
from xdlc.quant.udo import UdoConstraints, check_udos


def test_two_types_from_end_to_end(net, kernels, quantized):
    n = net(1, 6, 6, 4)
    g = gain(n, n.neuron(n.conv(n.x, 8, "a"), 4, "r"), "g", factor=2.0)
    value, index = top(n, g, "t")
    model = defined(n.done(value, index), x="uint8|uint16", w="ufixed8", y="uint8|uint16")
    defined(model, "Top", x="uint8|uint16", y="uint8|uint16", i="=int32")
    quantized_model, _ = quantized(model, SAMPLES)
    assert types(quantized_model, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert types(quantized_model, "t_op") == ([UFIXED8], [UFIXED8, INT32])
    assert [o.type for o in quantized_model.main.ops] == ["Conv2d", "ElementWiseNeuron", "Gain", "Top"]
    before, after = results(kernels, model, SAMPLES), results(kernels, quantized_model, SAMPLES)
    assert sqnr(before, after, "t") > 25
    highest = max(float(one["t"].max()) for one in before)
    encoding = quantized_model.main.outputs[0].encoding
    assert abs((255 + encoding.offset) * encoding.scale - highest) < 2 * encoding.scale
    same = np.mean([one["t_index"] == other["t_index"] for one, other in zip(before, after, strict=True)])
    assert same > 0.9


def test_a_result_has_sixteen_bits_where_these_are_asked_for(net, quantized):
    made, notes = quantized(sandwich(net), SAMPLES, act_bitwidth=16)
    assert types(made, "g_op") == ([UFIXED16, UFIXED8], [UFIXED16])
    assert not any("Pkg::Gain" in note for note in notes)


def test_bytes_stay_bytes_where_a_definition_has_nothing_else(net, kernels, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    quantized_model, notes = quantized(model, SAMPLES, act_bitwidth=16)
    assert types(quantized_model, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert [o.type for o in quantized_model.main.ops] == [
        "Conv2d", "ElementWiseNeuron", "Convert", "Gain", "Convert", "Conv2d",
    ]  # fmt: skip
    assert "Pkg::Gain reads 'x' with 8 bits, not 16: its definition supports 'x' as uint8 (g_op)" in notes
    assert "Pkg::Gain writes 'y' with 8 bits, not 16: its definition supports 'y' as uint8 (g_op)" in notes
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > 25


def test_only_sixteen_bits(net, quantized):
    made, notes = quantized(sandwich(net, x="uint8|uint16", w="ufixed8", y="ufixed16"), SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED16])
    assert op(made, "out_op").inputs[0].dtype is UFIXED8
    assert "Pkg::Gain writes 'y' with 16 bits, not 8: its definition supports 'y' as ufixed16 (g_op)" in notes


def test_floats_alone_stay_between_dequantize_and_quantize(net, kernels, quantized):
    model = sandwich(net, x="float32", w="float32", y="float32")
    quantized_model, notes = quantized(model, SAMPLES)
    assert types(quantized_model, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert [o.type for o in quantized_model.main.ops] == [
        "Conv2d", "ElementWiseNeuron", "Dequantize", "Gain", "Quantize", "Conv2d",
    ]  # fmt: skip
    assert any(
        note.startswith("Pkg::Gain stays float: its definition supports 'x' as float32") for note in notes
    )
    assert (
        "'g_op' stays float: its definition supports 'x' as float32"
        in quantized_model.main.tensors["g_quantized"].producer.origin.reason
    )
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > 25


@pytest.mark.parametrize(
    ("x", "y", "between"),
    [("uint8", "float32", ["Gain", "Quantize"]), ("float32", "uint8", ["Dequantize", "Gain"])],
)
def test_each_side_is_as_the_definition_has_it(net, kernels, quantized, x, y, between):
    model = sandwich(net, x=x, w="float32", y=y)
    quantized_model, notes = quantized(model, SAMPLES)
    assert [o.type for o in quantized_model.main.ops][2:-1] == between
    side = "writes 'y'" if y == "float32" else "reads 'x'"
    assert any(note.startswith(f"Pkg::Gain {side} as floats: its definition supports") for note in notes)
    assert types(quantized_model, "g_op") == (
        [UFIXED8 if x == "uint8" else FLOAT32, FLOAT32],
        [UFIXED8 if y == "uint8" else FLOAT32],
    )
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > 25


def test_floats_at_the_borders_of_the_graph(net, kernels, quantized):
    n = net(1, 6, 6, 4)
    g = gain(n, n.x, "g")
    a = n.neuron(n.x, 4, "a")
    h = gain(n, a, "h")
    model = defined(n.done(g, h), x="float32", w="float32", y="float32")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert [t.dtype for t in made.main.outputs] == [FLOAT32, FLOAT32]
    assert quality(kernels, model, made, SAMPLES, "h") > 25


def _activation(name, bits, scale=0.05, offset=-100):
    return {
        "version": "0.6.1",
        "activation_encodings": {
            name: [
                {"bitwidth": bits, "dtype": "int", "is_symmetric": "False", "scale": scale, "offset": offset}
            ]
        },
        "param_encodings": {},
    }


def test_results_keep_encodings_that_are_given(net, quantized):
    made, _ = quantized(sandwich(net), SAMPLES, quantization_overrides=_activation("g", 8))
    assert (made.main.tensors["g"].dtype, made.main.tensors["g"].encoding) == (
        UFIXED8,
        ScaleOffset(np.float32(0.05).item(), -100),
    )
    wide, _ = quantized(sandwich(net), SAMPLES, quantization_overrides=_activation("g", 16, 1e-4))
    assert wide.main.tensors["g"].dtype is UFIXED16


def test_an_encoding_that_a_definition_does_not_take_is_refused(net, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    with pytest.raises(ConstraintError) as caught:
        quantized(model, SAMPLES, quantization_overrides=_activation("g", 16, 1e-4))
    assert "'g' has an encoding of 16 bits; the definition supports 'y' as uint8" in caught.value.problem
    assert caught.value.fix == "set 8 bits, or allow 16 bits in the definition of the UDO"


def test_without_a_definition_an_op_stays_float(net, quantized):
    model = sandwich(net)
    model.records.clear()
    made, notes = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert "Pkg::Gain stays float: the model holds no definition of Pkg::Gain (g_op)" in notes


def test_named_floats_and_widths(net, quantized):
    quantized_model, notes = quantized(sandwich(net), SAMPLES, float_ops=["g_op"])
    assert types(quantized_model, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert "Pkg::Gain stays float: the options keep it float (g_op)" in notes
    quantized_model, _ = quantized(sandwich(net), SAMPLES, act_bitwidth_of={"g_op": 16})
    assert types(quantized_model, "g_op") == ([UFIXED16, UFIXED8], [UFIXED16])
    quantized_model, notes = quantized(
        sandwich(net, x="uint8", w="ufixed8", y="uint8"), SAMPLES, act_bitwidth_of={"g_op": 16}
    )
    assert types(quantized_model, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert "Pkg::Gain writes 'y' with 8 bits, not 16: its definition supports 'y' as uint8 (g_op)" in notes


@pytest.mark.parametrize("type", ["Softmax", "Conv2d"])
def test_a_type_that_qnn_has_too_is_not_taken_for_it(net, kernels, quantized, type):
    model = sandwich(net, type, x="uint8|uint16", w="ufixed8", y="uint8|uint16")
    quantized_model, _ = quantized(model, SAMPLES)
    assert types(quantized_model, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    g = quantized_model.main.tensors["g"].encoding
    values = np.concatenate([one["g"].ravel() for one in values_of(kernels, model, "g")])
    assert g.offset != 0
    assert g.offset * g.scale <= values.min() + g.scale
    assert (255 + g.offset) * g.scale >= values.max() - g.scale
    assert quantized_model.main.tensors["r"].encoding != g


def test_encodings_are_exported_and_come_back(net, quantized):
    from xdlc.quant.overrides import export_encodings

    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    quantized_model, _ = quantized(model, SAMPLES)
    for version in ("0.6.1", "2.0.0"):
        again, _ = quantized(
            model, SAMPLES, quantization_overrides=export_encodings(quantized_model, version)
        )
        for name in ("r", "g", "out", "g_w"):
            assert again.main.tensors[name].encoding == quantized_model.main.tensors[name].encoding, (
                version,
                name,
            )
            assert again.main.tensors[name].dtype is quantized_model.main.tensors[name].dtype


def test_the_definition_comes_along(net, quantized, tmp_path):
    from xdlc.container import load

    made, _ = quantized(sandwich(net), SAMPLES)
    made.save(tmp_path / "q.dlc")
    loaded = load(tmp_path / "q.dlc")
    assert udo.definition(loaded, op(loaded, "g_op")) is not None
    assert types(loaded, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])


def test_cores_of_fixed_point_count(net):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8|uint16")
    udos = UdoConstraints.of(udo.definitions(model))
    held = op(model, "g_op")
    assert [place.activation(16) for place in udos.inputs(held)] == [UFIXED8, UFIXED8]
    assert [place.activation(16) for place in udos.outputs(held)] == [UFIXED16]
    assert [place.activation(8) for place in UdoConstraints().inputs(held)] == [None, None]


def test_inputs_left_out_and_repeated_ones(net, tmp_path, quantized):
    path = tmp_path / "mix.py"
    path.write_text(
        "from xdlc.udo import kernel\n"
        "@kernel('Pkg', 'Mix')\n"
        "def mix(inputs, params, outputs):\n"
        "    assert inputs[1] is None\n"
        "    return inputs[0] + sum(inputs[2:])\n"
    )
    n = net(1, 6, 6, 4)
    a, b = n.neuron(n.x, 4, "a"), n.neuron(n.x, 6, "b")
    model = n.done(n.op("Mix", [n.x, None, a, b], n.x.shape, "y", package="Pkg"))
    places = (
        place("first", (UFIXED8,)),
        place("left", (FLOAT32,), mandatory=False),
        place("rest", (UFIXED16,), mandatory=False, repeated=True),
    )
    opdef = OpDef("Mix", "Pkg", places, (place("y", (UFIXED8,)),), {}, backends=("DSP_V68", "HTP"))
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1", (opdef,), ())})
    made, _ = quantized(model, SAMPLES, udo_package_path=path)
    found = op(made, "y_op")
    assert [t and t.dtype for t in found.inputs] == [UFIXED8, None, UFIXED16, UFIXED16]
    assert found.outputs[0].dtype is UFIXED8


def _table(core, **types):
    rows = {
        name: SupplementTensor(name, tuple(BY_NAME[word] for word in text.split("|")))
        for name, text in types.items()
    }
    row = SupplementOp("Mix", {"x": rows["x"]}, {"y": rows["y"]}, {})
    return SupplementTable(core, frozenset(), {"Mix": (row,)})


V66, V68 = _table("DSP_V66", x="uint8", y="uint8"), _table("DSP_V68", x="uint8|uint16", y="uint16")
CPU, HTP = _table("CPU", x="float32", y="float32"), _table("HTP", x="ufixed8", y="ufixed8")


@pytest.mark.parametrize(
    ("backends", "tables", "arch", "wanted", "bits"),
    [
        (("DSP",), (V66, V68), None, 16, (8, 16)),
        (("DSP",), (V66, V68), 68, 16, (16, 16)),
        (("DSP",), (V66, V68), 66, 16, (8, 8)),
        (("DSP",), (V66, V68), 73, 16, (None, None)),
        (("DSP_V66", "DSP_V68"), (V66, V68), None, 8, (8, 8)),
        (("CPU", "HTP"), (CPU, _table("HTP", x="ufixed16", y="float16")), None, 8, (16, None)),
        (("HTP", "HTP_FP16"), (HTP, _table("HTP_FP16", x="float16", y="float16")), None, 8, (8, 8)),
        (("CPU",), (_table("CPU", x="float32|ufixed8", y="float32"),), None, 8, (None, None)),
        (("CPU",), (_table("CPU", x="ufixed8|ufixed16", y="ufixed8"),), None, 8, (16, 8)),
        ((), (), None, 8, (None, None)),
    ],
)  # fmt: skip
def test_which_core_tells_the_bits(net, backends, tables, arch, wanted, bits):
    opdef = OpDef("Mix", "Pkg", (place("x", ()),), (place("y", ()),), {}, backends=backends)
    udos = UdoConstraints.of({"Pkg": Collection("Pkg", "d", "1", (opdef,), tables)}, arch)
    n = net(1, 2)
    n.done(n.op("Mix", [n.x], n.x.shape, "y", package="Pkg"))
    ports = udos.ports(n.graph.ops[0], wanted)
    assert tuple(held and held.bits for held in (*ports.inputs, *ports.outputs)) == bits


def test_what_stays_float_may_have_sixteen_bits(net, kernels, quantized):
    model = sandwich(net, x="float32", w="float32", y="float32")
    made, _ = quantized(model, SAMPLES, float_bitwidth=16)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert quality(kernels, model, made, SAMPLES, "out") > 25


def test_no_type_that_all_dsps_take_is_told(net, quantized):
    model = sandwich(net)
    (opdef,) = udo.definitions(model)["Pkg"].opdefs
    tables = tuple(
        SupplementTable(core, frozenset({"Gain"}), {"Gain": (SupplementOp("Gain", *_rows(*types), {}),)})
        for core, types in {
            "CPU": (FLOAT32, FLOAT32),
            "DSP_V66": (UFIXED8, UFIXED8),
            "HTP": (UFIXED16, UFIXED8),
        }.items()
    )
    opdef = replace(opdef, backends=("CPU", "DSP_V66", "HTP"))
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1", (opdef,), tables)})
    note = "Pkg::Gain has no type for 'x', 'y' that all its DSPs support: pass a SoC"
    made, notes = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert f"{note} (g_op)" in notes
    made, notes = quantized(model, SAMPLES, target="sm8550")
    assert types(made, "g_op") == ([UFIXED16, UFIXED8], [UFIXED16])
    assert f"{note} (g_op)" not in notes


def test_an_op_that_is_not_for_the_target_is_told(net):
    model = sandwich(net)
    collection = udo.definitions(model)["Pkg"]
    opdefs = tuple(replace(each, backends=("CPU", "DSP_V66")) for each in collection.opdefs)
    tables = tuple(replace(table, supported=frozenset()) for table in collection.supplements)
    narrow = {"Pkg": replace(collection, opdefs=opdefs, supplements=tables)}
    precision = Precision(8, 8, udos=UdoConstraints.of(narrow, 73))
    placed = place_ops(model.main, precision)
    (note, *_) = check_udos([SimpleNamespace(graph=model.main, placement=placed, precision=precision)])
    text = "Pkg::Gain does not support the DSP of the target: its definition names CPU, DSP_V66 (g_op)"
    assert note == text
    assert UdoConstraints.of(narrow).elsewhere == {}


def _rows(activation, weight):
    held = {name: SupplementTensor(name, (dtype,)) for name, dtype in (("x", activation), ("w", weight))}
    return held, {"y": SupplementTensor("y", (activation,))}


@pytest.mark.parametrize(("types", "levels"), [("uint8|uint16", ["A8W8", "A16W8"]), ("uint8", [])])
def test_mixed_precision_raises_what_definitions_have_wider(net, types, levels):
    model = sandwich(net, x=types, w="ufixed8", y=types)
    precision = Precision(8, 8, udos=UdoConstraints.of(udo.definitions(model)))
    placement = place_ops(model.main, precision)
    shared = EncodingGroups(model.main, placement)
    groups = find_groups(model.main, placement, shared, precision, QuantOptions())
    found = [group for group in groups if group.ops[0].name == "g_op"]
    assert [str(level) for group in found for level in group.levels] == levels
    for group in found:
        group.set(precision, group.levels[-1])
        assert place_ops(model.main, precision).fixed[group.ops[0]] == 16


def test_what_only_the_cpu_computes_stays_float_and_its_outputs_are_measured(net, quantized):
    """A definition of the CPU alone with types of 8 bits, as earlier drafts had."""
    model = sandwich(net)
    (opdef,) = udo.definitions(model)["Pkg"].opdefs
    types_of = {"x": (FLOAT32, UFIXED8, UFIXED16), "w": (FLOAT32, UFIXED8), "y": (UFIXED8, UFIXED16, FLOAT32)}
    inputs, outputs = (
        tuple(replace(tensor, dtypes=types_of[tensor.name]) for tensor in side)
        for side in (opdef.inputs, opdef.outputs)
    )
    opdef = replace(opdef, inputs=inputs, outputs=outputs, backends=("CPU",))
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1", (opdef,), ())})
    made, notes = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert any(note.startswith("Pkg::Gain stays float") for note in notes)
    assert any(note.startswith("outputs of 1 held-out sample: 'out'") for note in notes)


def test_a_lost_output_of_a_narrow_udo_names_its_definition(net, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    weight, reader = (model.main.tensors[name] for name in ("g_w", "out_w"))
    weight.data = static("w", np.float32([1, 1, 1, 1, 1, 1, 1, 3000])).data
    without_the_largest = reader.numpy() * np.float32([1, 1, 1, 1, 1, 1, 1, 0])[:, None]
    reader.data = static("w", without_the_largest).data
    _, notes = quantized(model, SAMPLES, act_bitwidth=16)
    lost = [note for note in notes if note.startswith("warning: output 'out'")]
    assert all("Pkg::Gain computes with 8 bits" in note for note in lost)
    assert lost
