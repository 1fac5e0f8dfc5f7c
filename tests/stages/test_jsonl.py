"""ReadJsonl: lines to documents; what is not a record says why."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
import xxhash
import zstandard

from curate.core.hashing import record_id
from curate.core.stage import Input, Records, Slice
from curate.core.storage import ObjectFile
from stages.jsonl import MAX_DEPTH, ReadJsonl


class MemoryFile(ObjectFile):
    """Bytes as an input."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self._data = data

    def _fetch(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def read(data: bytes, key: str = "a.jsonl", **options: Any) -> list[Records]:
    piece = Slice(Input(key, len(data), ""), 0, len(data), True)
    return list(ReadJsonl(paths=(), **options).open()(piece, MemoryFile(data)))


def rows_of(parts: list[Records]) -> list[dict[str, Any]]:
    return [row for part in parts for row in part.batch.to_pylist()]


def reasons_of(parts: list[Records]) -> list[str]:
    return [bad.reason for part in parts for bad in part.quarantined]


def bytes_of(parts: list[Records]) -> dict[str, int]:
    names = ("content", "record", "framing", "skipped", "lost")
    return {name: sum(getattr(part, f"{name}_bytes") for part in parts) for name in names}


def test_lines_become_documents() -> None:
    one = b'{"key": "a", "body": "\xc3\xa4", "link": "http://a.example/", "year": 2020, "more": [1, {"x": null}]}'
    two = b'{"body": "two", "key": 7, "link": null}'
    parts = read(one + b"\r\n\n" + two, id="key", text="body", url="link", date="year")
    assert rows_of(parts) == [
        {
            "id": record_id("jsonl", "a"),
            "name": "a",
            "record_hash": xxhash.xxh3_128_digest(one),
            "source": None,
            "origin": {"source": None, "key": "a.jsonl", "offset": 0, "length": len(one), "inner": 0},
            "text": "\xe4",
            "url": "http://a.example/",
            "date": "2020",
        },
        {
            "id": record_id("jsonl", "7"),
            "name": "7",
            "record_hash": xxhash.xxh3_128_digest(two),
            "source": None,
            "origin": {"source": None, "key": "a.jsonl", "offset": len(one) + 3, "length": len(two), "inner": 0},
            "text": "two",
            "url": None,
            "date": None,
        },
    ]
    assert bytes_of(parts) == {
        "content": len(one + two) + 3,
        "record": len(one + two),
        "framing": 3,
        "skipped": 0,
        "lost": 0,
    }


def test_without_an_id_field_the_line_identifies_the_record() -> None:
    line = b'{"text": "a"}'
    (row,) = rows_of(read(b"\xef\xbb\xbf" + line + b"\n"))
    assert (row["id"], row["name"], row["origin"]["offset"]) == (record_id("jsonl", line), None, 3)


BAD = {
    "{": "bad_json",
    "{'text': 'a'}": "bad_json",
    '{"text": "a"} {"text": "b"}': "bad_json",
    '{"text": "a\tb"}': "bad_json",
    '{"text": "a", "x": NaN}': "bad_json",
    '{"text": "a", "x": -Infinity}': "bad_json",
    '{"text": "a", "x": ' + "1" * 5000 + "}": "bad_json",
    "[]": "not_an_object",
    '"text"': "not_an_object",
    "null": "not_an_object",
    "{}": "missing_field",
    '{"text": null}': "missing_field",
    '{"text": 1}': "bad_field",
    '{"text": ["a"]}': "bad_field",
    '{"text": "a", "text": "b"}': "duplicate_key",
    '{"text": "a", "x": {"y": 1, "y": 1}}': "duplicate_key",
    '{"text": "a\\u0000b"}': "nul",
    '{"text": "a\\ud800b"}': "lone_surrogate",
    '{"text": "a\\udc00\\ud800b"}': "lone_surrogate",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_lines_are_quarantined_with_their_reason(line: str) -> None:
    parts = read(f'{{"text": "good"}}\n{line}\n{{"text": "too"}}\n'.encode())
    assert [row["text"] for row in rows_of(parts)] == ["good", "too"]
    assert reasons_of(parts) == [BAD[line]]
    (bad,) = (bad for part in parts for bad in part.quarantined)
    assert bad.id == record_id("jsonl", line.encode())
    assert bad.origin == {"key": "a.jsonl", "offset": 17, "length": len(line), "inner": 0}
    assert bytes_of(parts)["lost"] == 0


def test_bytes_that_are_no_utf8_are_quarantined() -> None:
    assert reasons_of(read(b'{"text": "\xff"}\n{"text": "\xed\xa0\x80"}\n\xfe\xff\n')) == ["bad_utf8"] * 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": true, "text": "a"}', "bad_field"),
        ('{"id": 1.5, "text": "a"}', "bad_field"),
        ('{"id": "a\\u0000", "text": "a"}', "nul"),
        ('{"text": "a"}', "missing_field"),
        ('{"id": 1, "text": "a", "license": ["x"]}', "bad_field"),
        ('{"id": 1, "text": "a", "license": "\\ud800"}', "lone_surrogate"),
    ],
)
def test_fields_that_are_used_are_checked(line: str, reason: str) -> None:
    assert reasons_of(read(line.encode(), id="id", license="license")) == [reason]


def test_fields_that_are_not_used_are_not_looked_at() -> None:
    line = b'{"text": "\\ud83d\\ude00", "other": "\\ud800\\u0000", "id": []}'
    assert [row["text"] for row in rows_of(read(line))] == ["\U0001f600"]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_is_bounded_from_both_sides(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    for depth, reasons in ((MAX_DEPTH - 1, []), (MAX_DEPTH, ["too_deep"]), (100_000, ["too_deep"])):
        nested = opening * depth + ("1" if opening != "[" else "") + closing * depth
        assert reasons_of(read(f'{{"text": "a", "x": {nested}}}'.encode())) == reasons


def test_brackets_in_strings_are_no_nesting() -> None:
    line = json.dumps({"text": '[{\\"' * 1000}).encode()
    assert len(rows_of(read(line))) == 1


def test_a_line_may_be_as_long_as_its_limit_and_no_longer() -> None:
    line = b'{"text": "%b"}' % (b"x" * 100_000)
    data = line + b"\n" + b'{"text": "end"}'
    for limit, reasons in ((len(line), []), (len(line) - 1, ["too_large"])):
        parts = read(data, max_record_bytes=limit)
        assert reasons_of(parts) == reasons
        assert rows_of(parts)[-1]["text"] == "end"
        assert bytes_of(parts)["lost"] == 0
        assert bytes_of(parts)["content"] == len(data)


def test_batches_are_handed_over_in_bounded_pieces() -> None:
    data = b"".join(b'{"text": "%b"}\n' % (b"x" * 1_000_000) for _ in range(12))
    for stored, key in ((data, "a.jsonl"), (gzip.compress(data, 1), "a.jsonl.gz")):
        parts = read(stored, key)
        assert len(rows_of(parts)) == 12
        assert len(parts) > 1
        assert max(part.batch.nbytes for part in parts) < 6 << 20
        assert [part.end for part in parts][-1] == len(stored)


# Compressed: known faults

LINES = b'{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n'


def members(pack: Callable[[bytes], bytes]) -> bytes:
    return b"".join(pack(line) for line in LINES.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        ("a.gz", gzip.compress(LINES)),
        ("a.gz", members(gzip.compress) + b"\0" * 4),
        ("a.zst", zstandard.compress(LINES)),
        ("a.zst", members(zstandard.compress)),
        ("a.zst", b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(LINES[:20]) + zstandard.compress(LINES[20:])),
    ],
)
def test_all_members_and_frames_are_read(key: str, stored: bytes) -> None:
    """BUG-013, BUG-015; a record is found again by its place in the content."""
    parts = read(stored, key)
    assert [row["text"] for row in rows_of(parts)] == ["one", "two", "three"]
    assert [row["origin"]["inner"] for row in rows_of(parts)] == [0, 16, 32]
    assert {(row["origin"]["offset"], row["origin"]["length"]) for row in rows_of(parts)} == {(0, len(stored))}
    assert bytes_of(parts)["content"] == len(LINES)
    assert [(part.first, part.end) for part in parts] == [(0, len(stored))]


@pytest.mark.parametrize("key", ["a.gz", "a.zst"])
def test_of_a_cut_input_whole_lines_are_kept(key: str) -> None:
    """BUG-014: cut behind all of the content, within the trailer; and in the middle of it."""
    many = b"".join(b'{"text": "%d"}\n' % number for number in range(50_000))
    stored = gzip.compress(many) if key == "a.gz" else zstandard.ZstdCompressor(write_checksum=True).compress(many)
    for size in (len(stored) - 3, len(stored) // 2):
        parts = read(stored[:size], key)
        texts = [row["text"] for row in rows_of(parts)]
        assert texts == [str(number) for number in range(len(texts))]
        assert 10_000 < len(texts) <= 50_000
        assert reasons_of(parts) == ["truncated"]
        assert sum(part.num_records for part in parts) == len(texts) + 1
        assert bytes_of(parts)["content"] == sum(bytes_of(parts)[kind] for kind in ("record", "framing", "lost"))


def test_damage_is_one_bad_record_and_lost_bytes() -> None:
    for stored, reason in (
        (b"this is no gzip file", "corrupt"),
        (gzip.compress(LINES) + b"garbage", "garbage"),
        (gzip.compress(LINES[:40])[:-9], "truncated"),
    ):
        parts = read(stored, "a.gz")
        assert reasons_of(parts) == [reason]
        assert bytes_of(parts)["lost"] > 0


def test_a_cut_line_is_no_record() -> None:
    stored = gzip.compress(LINES[:40])
    assert reasons_of(read(stored, "a.gz")) == ["bad_json"]  # complete, so that its last line is one
    cut = read(stored[:-1], "a.gz")
    assert (len(rows_of(cut)), reasons_of(cut), bytes_of(cut)["lost"]) == (2, ["truncated"], 8)


def test_an_empty_input_holds_nothing() -> None:
    for key in ("a.jsonl", "a.gz", "a.zst"):
        (part,) = read(b"", key)
        assert (part.num_records, part.content_bytes, part.end) == (0, 0, 0)


def test_entry_points_are_told_by_name() -> None:
    names = {"a.jsonl": True, "a.json": True, "a.jsonl.gz": False, "a.ZST": False, "a.tgz": False}
    assert {name: ReadJsonl(paths=()).has_entry_points(name) for name in names} == names
