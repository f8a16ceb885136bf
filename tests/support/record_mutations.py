"""Changes of records, metadata and files, one property at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tests.support.custom_ops import SCALE
from tests.support.mutations import Mutation, mutation
from tests.support.rich_model import CACHE
from xdlc.container import cache_provenance, udo
from xdlc.container.aip_record import OWN_RECORD, parse_aip, write_aip
from xdlc.ir import Model, raw_data
from xdlc.ir.dtype import FLOAT16
from xdlc.opdefs.model import Collection

MUTATIONS: list[Mutation] = []
_mutation = partial(mutation, MUTATIONS)


@_mutation("layouts", "'x'")
def layout(model):
    model.metadata["layouts"]["x"] = "NCHW"


@_mutation("preprocessing", "'x'")
def preprocessing(model):
    model.metadata["preprocessing"]["x"] = "divide by 255"


@_mutation("symbols", "x")
def symbols(model):
    model.metadata["symbols"]["x"] = ["n", None, None, None]


@_mutation("states", "'s.output'")
def state(model):
    model.metadata["states"]["s"] = {"output": "out"}


@_mutation("history", "args.bits of step 2")
def history(model):
    model.metadata["history"][1]["args"]["bits"] = 16


@_mutation("history", "step 3")
def history_longer(model):
    model.metadata["history"].append({"tool": "xdlc.prepare", "converterVersion": "1", "args": {}})


@_mutation("copyright", "args.model_copyright of step 1")
def copyright_text(model):
    model.metadata["history"][0]["args"]["model_copyright"] = "(c) B"


@_mutation("model-version", "args.model_version of step 1")
def model_version(model):
    model.metadata["history"][0]["args"]["model_version"] = "2"


@_mutation("timestamps", "timestamp of step 1")
def timestamp(model):
    model.metadata["history"][0]["timestamp"] = "2026-01-02 00:00:00 UTC"


@_mutation("properties", "converter-version", stored=False)
def properties(model):
    model.metadata["properties"]["converter-version"] = "1.49"


@_mutation("relations", "childRecordNames")
def relations(model):
    model.metadata["relations"][0]["childRecordNames"] = []


@_mutation("nodes", "node/gone.reason")
def node_reason(model):
    model.metadata["nodes"][1][2] = "it is folded"


@_mutation("nodes", "node/new")
def node_added(model):
    model.metadata["nodes"].append(["node/new", "Relu", None])


@_mutation("modules", "node/conv")
def module(model):
    model.metadata["modules"]["node/conv"] = "head"


@_mutation("sources", "main.y")
def source_names(model):
    model.metadata["tensors"]["main"]["y"] = ["conv/renamed"]


@_mutation("factors", "main.w")
def factors(model):
    model.metadata["weight_factors"]["main"]["w"] = ["3.0"]


@_mutation("layers", "'conv'")
def layer_id(model):
    model.metadata["layers"]["conv"] = 4


@_mutation("other-metadata", "'by'", stored=False)
def other_metadata(model):
    model.metadata["note"]["by"] = "another"


@_mutation("format", "format", stored=False)
def format(model):
    model.metadata["version"] = "4.0"


def _entry(model: Model) -> dict[str, Any]:
    return next(entry for entry in model.metadata["cacheList"] if entry["cacheName"] == CACHE)


@_mutation("caches", f"graphs.main.vtcm_mb of cache {CACHE!r}")
def vtcm(model):
    _entry(model)["graphs"][0]["graphBlobInfo"]["vtcmSize"] = 4


@_mutation("caches", f"build of cache {CACHE!r}")
def build(model):
    _entry(model)["buildId"] = "v2.40.0.1"


@_mutation("caches", f"soc_id of cache {CACHE!r}")
def soc(model):
    entry = _entry(model)
    entry["socModel"] = 69


@_mutation("caches", f"arch of cache {CACHE!r}")
def arch(model):
    _entry(model)["contextMetadata"]["dspArch"] = 73


@_mutation("caches", f"graphs.main.inputs.s.shape of cache {CACHE!r}")
def shape_in_cache(model):
    next(t for t in _entry(model)["graphs"][0]["graphInputs"] if t["name"] == "s")["dimensions"] = [4, 1]


@_mutation("caches", f"backendId of cache {CACHE!r}")
def unknown_field_of_cache(model):
    _entry(model)["backendId"] = 7


@_mutation("timestamps", f"made of cache {CACHE!r}")
def time_of_cache(model):
    _entry(model)["timestamp"] = "2026-01-02 00:00:00 UTC"


@_mutation("caches", f"content of record {CACHE!r}")
def bytes_of_cache(model):
    content = bytearray(model.records[CACHE].content())
    content[-1] ^= 1
    model.records[CACHE] = raw_data(bytes(content))


@_mutation("caches", f"verified.share (provenance) of cache {CACHE!r}")
def verification(model):
    facts = cache_provenance.read(model)
    verified = facts[CACHE].verified
    changed = {CACHE: replace(facts[CACHE], verified=replace(verified, share=0.5))}
    cache_provenance.write(model, {**facts, **changed})


@_mutation("caches", f"optimization_level (provenance) of cache {CACHE!r}")
def options_of_cache(model):
    facts = cache_provenance.read(model)
    cache_provenance.write(model, {**facts, CACHE: replace(facts[CACHE], optimization_level=3)})


@_mutation("aip", "sections[0].last_layer")
def aip_section(model):
    _with_section(model, last=3)


@_mutation("aip", "buffers.x.layer")
def aip_buffer(model):
    held = parse_aip(model.records[OWN_RECORD].content(), where="record").sections[0].buffers[0]
    _with_section(model, buffers=(replace(held, layer=2),))


@_mutation("aip", "content of record")
def aip_code(model):
    _with_section(model, binary=b"edoc")


def _with_section(model: Model, **fields: Any) -> None:
    record = parse_aip(model.records[OWN_RECORD].content(), where="record")
    changed = replace(record, sections=(replace(record.sections[0], **fields),))
    model.records[OWN_RECORD] = raw_data(write_aip(changed))


@_mutation("udo", "types.Scale.params.factor")
def udo_definition(model):
    param = replace(SCALE.params["factor"], dtypes=(FLOAT16,))
    changed = replace(SCALE, params={"factor": param})
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "my.domain", "1.0.0", (changed,), ())})


@_mutation("udo", "version of record")
def udo_version(model):
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "my.domain", "2.0.0", (SCALE,), ())})


@_mutation("udo", "record 'xdlc.udo.Pkg'")
def udo_removed(model):
    del model.records["xdlc.udo.Pkg"]


@_mutation("other-records", "record 'vendor.record'")
def other_record(model):
    model.records["vendor.record"] = raw_data(b"abcdefgi")


@_mutation("other-records", "record 'another'")
def record_added(model):
    model.records["another"] = raw_data(b"abc")


@_mutation("files", "a.json", stored=False)
def file(model):
    model.files["kernel_meta/a.json"] = b"[]"


@_mutation("files", "b.json", stored=False)
def file_added(model):
    model.files["kernel_meta/b.json"] = b"[]"
