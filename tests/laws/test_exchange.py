"""The law of exchanges: the same verdicts for any homes, batches, ranges of keys, cuts of rows and orders."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.exchange import Exchange
from curate.core.schema import ORIGIN
from curate.engine.identity import Identity
from stages.dedup import ExactDedup, MinHashDedup
from stages.pubmed import OneDocumentPerPmid
from tests.oracle import Cuts, documents_of, run_exchange
from tests.stages.reference_pubmed import batch_of, pubmed_documents

WORDS = [f"w{number}" for number in range(12)]
LOOSE = MinHashDedup(ngram=2, bands=8, rows=2, threshold=0.4)  # of small texts much is similar to much

cuts = st.builds(Cuts, num_homes=st.integers(1, 5), num_parts=st.integers(1, 7), seed=st.integers(0, 1 << 32))


def hashed(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()[:16]


@st.composite
def corpora(draw: st.DrawFn) -> pa.RecordBatch:
    """Texts that are few, cut from a few others, changed a little, and repeated."""
    bases = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), min_size=1, max_size=4))
    texts: list[str | None] = [None, "", " ", "?!"]
    for _ in range(draw(st.integers(0, 24))):
        words = list(draw(st.sampled_from(bases)))
        for _ in range(draw(st.integers(0, 3))):
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(WORDS))
        texts.append(" ".join(words[draw(st.integers(0, 2)) :]))
    ranks = draw(st.lists(st.integers(0, 2), min_size=len(texts), max_size=len(texts)))
    start = draw(st.integers(0, 1000))
    return documents_of(texts, rank=lambda number: ranks[number], make_id=lambda number: hashed(start + number))


@st.composite
def records(draw: st.DrawFn) -> pa.RecordBatch:
    """Records with few ids and few contents, each at a place of its own."""
    number = draw(st.integers(0, 20))
    ids = draw(st.lists(st.integers(0, 3).map(hashed), min_size=number, max_size=number))
    hashes = draw(st.lists(st.integers(0, 1).map(hashed), min_size=number, max_size=number))
    places = draw(st.permutations(range(number)))
    origins = [
        {"source": "s", "key": f"file{place % 2}", "offset": place // 2 % 3, "length": 1, "inner": place}
        for place in places
    ]
    columns = {
        "id": pa.array(ids, pa.binary(16)),
        "record_hash": pa.array(hashes, pa.binary(16)),
        "origin": pa.array(origins, ORIGIN),
        "rank": pa.array([place % 3 for place in places], pa.uint16()),
    }
    return pa.RecordBatch.from_pydict(columns)


def placed(documents: pa.RecordBatch) -> pa.RecordBatch:
    """Documents of three inputs in two folders, by their text."""
    keys = [f"{len(text or '') % 2}/{len(text or '') % 3}" for text in documents.column("text").to_pylist()]
    origins = [{"source": "s", "key": key, "offset": 0, "length": 1, "inner": 0} for key in keys]
    return documents.append_column("origin", pa.array(origins, ORIGIN))


class Case(NamedTuple):
    exchange: Exchange
    documents: Callable[[], st.SearchStrategy[pa.RecordBatch]]


CASES = {
    "identity": Case(Identity(), records),
    "exact": Case(ExactDedup(), corpora),
    "exact, any source": Case(ExactDedup(keep=()), corpora),
    "near-duplicates": Case(MinHashDedup(), corpora),
    "near-duplicates, loose": Case(LOOSE, corpora),
    "near-duplicates, by dump": Case(replace(LOOSE, scope="dump"), lambda: corpora().map(placed)),
    "near-duplicates, longest": Case(replace(LOOSE, keep=("longest",)), corpora),
    "PubMed": Case(OneDocumentPerPmid(), lambda: pubmed_documents().map(batch_of)),
    "PubMed, newest": Case(OneDocumentPerPmid(prefer="newest"), lambda: pubmed_documents().map(batch_of)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=40, deadline=None)
@given(st.data(), cuts)
def test_verdicts_depend_on_the_documents_alone(case: Case, data: st.DataObject, cuts: Cuts) -> None:
    documents = data.draw(case.documents())
    whole, cut = run_exchange(case.exchange, documents), run_exchange(case.exchange, documents, cuts)
    assert cut.verdicts == whole.verdicts
    assert cut.num_rows == whole.num_rows
    check_books(documents, whole.verdicts)


@settings(max_examples=40, deadline=None)
@given(corpora(), cuts)
def test_keys_that_collide_change_nothing(documents: pa.RecordBatch, cuts: Cuts) -> None:
    alone = [run_exchange(exchange, documents).verdicts for exchange in (LOOSE, ExactDedup())]
    with pytest.MonkeyPatch.context() as patch:
        for module in ("stages.minhash", "stages.verification", "stages.clusters"):
            patch.setattr(f"{module}.id_keys", lambda words: np.zeros(len(words), np.uint64))
        patch.setattr("xxhash.xxh3_128_digest", lambda data: bytes(8) + hashlib.sha256(data).digest()[:8])
        assert [run_exchange(exchange, documents, cuts).verdicts for exchange in (LOOSE, ExactDedup())] == alone


def check_books(documents: pa.RecordBatch, verdicts: dict[int, dict[str, Any]]) -> None:
    """Each merged document names one that stays."""
    ids = documents.column("id").to_pylist()
    stays = {one for position, one in enumerate(ids) if verdicts.get(position, {"fate": None})["fate"] is None}
    for verdict in verdicts.values():
        assert verdict["fate"] in ("merged", "dropped", "quarantined", None)
        assert (verdict["reason"] is None) == (verdict["fate"] is None)
        assert (verdict["kept_id"] is not None) == (verdict["fate"] == "merged")
        assert verdict["fate"] != "merged" or verdict["kept_id"] in stays


@settings(max_examples=30, deadline=None)
@given(corpora())
def test_a_stage_remembers_nothing_between_runs(documents: pa.RecordBatch) -> None:
    """datajuicer/data-juicer#1043: a preview changed the result of the real run."""
    used = replace(LOOSE)
    run_exchange(used, documents.slice(0, 7))
    assert run_exchange(used, documents).verdicts == run_exchange(replace(LOOSE), documents).verdicts


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_documents_give_no_verdicts(case: Case) -> None:
    documents = documents_of([])
    absent = {"record_hash": pa.array([], pa.binary(16)), "origin": pa.array([], ORIGIN)}
    absent |= {name: pa.array([], pa.string()) for name in ("pmid", "pmcid", "doi")}
    for name, column in absent.items():
        documents = documents.append_column(name, column)
    assert run_exchange(case.exchange, documents, Cuts(2, 3, 0)).verdicts == {}
