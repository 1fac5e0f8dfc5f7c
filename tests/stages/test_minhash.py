"""Signatures, bands and pairs: by hand, equal to plain Python, and equal to datasketch."""

import json
import lzma
from pathlib import Path

import datasketch
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.ids import id_array, id_keys, id_words, is_less
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import band_keys, sign
from stages.kernels.pairs import WINDOW, pair_up
from stages.minhash import choose
from stages.signatures import normalized, signature_array, signature_values
from tests.stages.reference_minhash import hash_shingle, hash_whole, shingles, signature, units
from tests.strategies import texts

NUM_VALUES = 12


def signed(found: list[str | None], ngram: int = 5, num_values: int = NUM_VALUES) -> tuple[list[list[int]], list[int]]:
    """Signatures and numbers of units."""
    signatures, _, num_units = sign(*text_buffers(normalized(pa.array(found, pa.large_string()))), ngram, num_values)
    return signatures.tolist(), num_units.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The quick, (BROWN) fox's well-known 2nd.", ["the", "quick", "brown", "fox", "s", "well", "known", "2nd"]),
        ("snake_case a\u00a0b\tc\r\nd", ["snake", "case", "a", "b", "c", "d"]),
        ("caf\u00e9 CAFE\u0301 \uff21\uff22 \ufb01ne so\u00adft", ["caf\u00e9", "caf\u00e9", "ab", "fine", "soft"]),
        ("\u4e2d\u6587abc\u65e5 \uff76\uff9e", ["\u4e2d", "\u6587", "abc", "\u65e5", "\u30ac"]),
        ("\u0e44\u0e17\u0e22 \u0e17\u0e35\u0e48", ["\u0e44", "\u0e17", "\u0e22", "\u0e17\u0e35\u0e48"]),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d\uc5b4",
            ["\u0939\u093f\u0928\u094d\u0926\u0940", "\ud55c\uad6d\uc5b4"],
        ),
        ("\u03a3\u039f\u03a3 \u03c3\u03bf\u03c2 \u0130s", ["\u03c3\u03bf\u03c3", "\u03c3\u03bf\u03c3", "is"]),
        ("... \U0001f600 --- \n", []),
    ],
    ids=["words", "what parts", "Unicode forms", "Chinese", "Thai", "marks in words", "case", "no units"],
)
def test_units(text: str, expected: list[str]) -> None:
    assert units(text) == expected
    assert signed([text])[1] == [len(expected)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | texts, max_size=6), st.integers(1, 6))
@example(["e\u0301 \u00e9", "\u1100\u1161\u11a8", "\u00ea\u0323 \u1ec7", "\u2122 \u2026 \u00bd\u00a0", "\u0301a"], 1)
def test_equal_to_the_reference(found: list[str | None], ngram: int) -> None:
    signatures, num_units = signed(found, ngram)
    assert num_units == [len(units(text or "")) for text in found]
    assert signatures == [signature(text or "", ngram, NUM_VALUES) for text in found]


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=1, max_size=6))
def test_the_hash_of_the_whole_is_that_of_its_units(found: list[str]) -> None:
    _, wholes, _ = sign(*text_buffers(normalized(pa.array(found, pa.large_string()))), 5, 1)
    assert [tuple(whole) for whole in wholes.tolist()] == [hash_whole(text) for text in found]


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_a_slice_gives_its_own_signatures(found: list[str], start: int, length: int) -> None:
    part = pa.array(found, pa.large_string()).slice(start, length)
    signatures, _, _ = sign(*text_buffers(normalized(part)), 3, NUM_VALUES)
    assert signatures.tolist() == signed(list(found[start : start + length]), 3)[0]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_that_are_no_utf8_stay_within_their_text(first: bytes, second: bytes) -> None:
    def of(values: list[bytes]) -> list[list[int]]:
        data = pa.array(values, pa.large_binary())
        array = pa.Array.from_buffers(pa.large_string(), len(data), data.buffers())
        return sign(*text_buffers(normalized(array)), 1, 4)[0].tolist()  # type: ignore[no-any-return]

    assert of([first, second]) == [*of([first]), *of([second])]


@pytest.mark.parametrize("num_values", [126, 128, 1])
def test_signatures_are_those_of_datasketch(shared_data: Path, num_values: int) -> None:
    """data-juicer#851 and datasketch#323: two schemes whose signatures cannot be mixed."""
    with lzma.open(shared_data / "text" / "web_text_samples.jsonl.xz", "rt", encoding="utf-8") as file:
        found = [json.loads(line)["text"] for line in list(file)[:12]]
    for text, values in zip(found, signed(found, num_values=num_values)[0], strict=True):
        theirs = datasketch.MinHash(num_perm=num_values, hashfunc=hash_shingle)
        theirs.update_batch(shingles(text, 5))
        assert theirs.scheme == "affine32"
        assert theirs.hashvalues.tolist() == values


def test_band_keys_tell_bands_and_their_values_apart() -> None:
    signatures = np.array([[1, 2, 1, 2, 3, 4], [1, 2, 9, 9, 3, 4], [2, 1, 1, 2, 4, 3]], np.uint32)
    keys = band_keys(signatures, 3)
    assert (keys[0] == keys[1]).tolist() == [True, False, True]
    assert (keys[0] == keys[2]).tolist() == [False, True, False]
    assert len(np.unique(keys)) == 6  # equal values in two bands are two buckets


def test_signatures_travel_unchanged() -> None:
    signatures = np.arange(12, dtype=np.uint32).reshape(4, 3) * np.uint32(0x11111111)
    valid = np.array([True, False, True, True])
    array = signature_array(signatures, valid)
    array.validate(full=True)
    assert array.is_valid().to_pylist() == valid.tolist()
    assert signature_values(array, 3).tolist() == signatures[valid].tolist()
    assert signature_values(array.slice(1), 3).tolist() == signatures[2:].tolist()
    assert signature_values(array.slice(1, 1), 3).shape == signature_values(array.slice(4), 3).shape == (0, 3)


def plain_pairs(keys: list[int], wholes: list[int]) -> list[tuple[int, int]]:
    pairs = []
    buckets: dict[int, list[int]] = {}
    for row, (key, whole) in enumerate(zip(keys, wholes, strict=True)):
        bucket = buckets.setdefault(key, [])
        near = bucket if len(bucket) <= 2 * WINDOW else bucket[:WINDOW] + bucket[-WINDOW:]
        equal = [one for one in near if wholes[one] == whole]
        if equal:
            pairs += [(row, equal[0])] if key == whole else []
        else:
            pairs += [(row, one) for one in near]
            bucket.append(row)
    return sorted(pairs)


@st.composite
def buckets(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Keys in order, and wholes; a key that is the whole's own marks the bucket of the whole."""
    sizes = draw(st.lists(st.integers(1, 5 * WINDOW), max_size=4))
    keys = [key for key, size in enumerate(sizes) for _ in range(size)]
    most = draw(st.sampled_from([2, 10, 1000]))
    seed = draw(st.integers(0, 1 << 32))
    return keys, np.random.default_rng(seed).integers(0, most, len(keys)).tolist()


@settings(max_examples=200, deadline=None)
@given(buckets(), st.integers(1, 50))
def test_pairs_equal_the_plain_ones_however_rows_are_cut(drawn: tuple[list[int], list[int]], size: int) -> None:
    keys, wholes = (np.array(column, np.uint64) for column in drawn)
    found: list[tuple[int, int]] = []
    window = np.empty(0, np.int64)
    for start in range(0, len(keys), size):
        rows = np.concatenate([window, np.arange(start, min(start + size, len(keys)))])
        later, earlier, carried = pair_up(keys[rows], wholes[rows], len(window))
        found += zip(rows[later].tolist(), rows[earlier].tolist(), strict=True)
        window = rows[carried]
        assert len(window) <= 2 * WINDOW
    assert sorted(found) == plain_pairs(*drawn)


def test_a_hot_bucket_costs_a_bounded_number_of_pairs_a_document() -> None:
    keys, wholes = np.zeros(1000, np.uint64), np.arange(1, 1001, dtype=np.uint64)
    later, earlier, _ = pair_up(keys, wholes, 0)
    mine = sorted(earlier[later == 900].tolist())
    assert mine == [*range(WINDOW), *range(900 - WINDOW, 900)]


def test_of_many_candidates_those_in_most_bands_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.minhash.MAX_CANDIDATES", 4)
    lines = [(5, 1, 4), (5, 2, 3), (5, 3, 9), (5, 3, 9), (5, 4, 8), (5, 4, 8), (5, 5, 7), (5, 5, 7), (5, 6, 1)]
    lines += [(6, 9, 0), (7, 8, 1), (7, 7, 2)]
    row, other, preference = (np.array(column) for column in zip(*lines, strict=True))
    others = np.stack([np.zeros_like(other), other], axis=1).astype(np.uint64)
    is_whole = np.array([False] * 11 + [True])
    chosen = choose(row.astype(np.uint32), others, preference.astype(np.uint64), is_whole)
    assert others[chosen, 1].tolist() == [3, 4, 5, 6, 9, 7]  # three twice, and the preferred one; alone; equal text


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=16, max_size=16), max_size=20), st.integers(0, 5))
def test_ids_as_numbers_sort_as_ids(ids: list[bytes], start: int) -> None:
    words = id_words(pa.chunked_array([pa.array(ids, pa.binary(16)).slice(start), pa.array(ids, pa.binary(16))]))
    assert id_array(words).to_pylist() == ids[start:] + ids
    pairs = zip(ids[start:] + ids, reversed(ids[start:] + ids), strict=True)
    assert is_less(words, words[::-1]).tolist() == [one < other for one, other in pairs]


def test_keys_of_small_ids_are_spread() -> None:
    words = np.stack([np.zeros(1000, np.uint64), np.arange(1000, dtype=np.uint64)], axis=1)
    for one in (words, words[:, ::-1]):
        quarters = np.bincount((id_keys(one) >> np.uint64(62)).astype(np.int64), minlength=4)
        assert quarters.min() > 200
