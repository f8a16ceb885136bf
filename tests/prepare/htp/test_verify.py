from __future__ import annotations

from tests.support.htp_models import cnn, needs_htp, prepared_cnn
from xdlc.container import cache_provenance
from xdlc.ir import raw_data
from xdlc.prepare.htp import prepare, prepare_all
from xdlc.runtime.htp.cache_verdict import verdicts

NAME = "htp.cache.sm8650.0"


@needs_htp
def test_cache_of_another_network_is_neither_kept_nor_usable() -> None:
    model, other = prepared_cnn("sm8650"), prepare(cnn(quantized=False), ["sm8650"])
    model.records[NAME] = other.records[NAME]
    (verdict,) = verdicts(model, "sm8650")
    assert [finding.rule for finding in verdict.failed] == ["record"]
    again = prepare_all(model, ["sm8650"])
    assert again.kept == ()
    assert again.done == ("sm8650",)
    assert all(row.usable for row in verdicts(again.model, "sm8650"))


@needs_htp
def test_changed_byte_is_noticed() -> None:
    model = prepared_cnn("sm8650")
    content = bytearray(model.records[NAME].content())
    content[len(content) // 2] ^= 1
    model.records[NAME] = raw_data(bytes(content))
    assert not verdicts(model, "sm8650")[0].usable
    assert prepare_all(model, ["sm8650"]).kept == ()


@needs_htp
def test_record_without_hash_stays_readable() -> None:
    model = prepared_cnn("sm8650")
    facts = cache_provenance.read(model)[NAME]
    assert facts.content is not None
    text = bytes(model.records[cache_provenance.RECORD].content())
    model.records[cache_provenance.RECORD] = raw_data(text.replace(f'"{facts.content}"'.encode(), b"null"))
    assert verdicts(model, "sm8650")[0].usable
