"""ReadWarc: which records become documents, and that damage costs no more than what is damaged."""

import gzip
import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import xxhash
from fastwarc.warc import ArchiveIterator, WarcRecordType

from curate.core.hashing import record_id
from curate.core.stage import Input, Quarantined, Records, Slice
from curate.core.storage import ObjectFile, open_storage
from stages.warc import ReadWarc

PAGE = b"<html><p>alpha beta gamma</p></html>"


def http(
    body: bytes = PAGE, status: str = "200 OK", kind: str = "text/html; charset=UTF-8", more: bytes = b""
) -> bytes:
    content_type = f"Content-Type: {kind}\r\n" if kind else ""
    return f"HTTP/1.1 {status}\r\n{content_type}".encode() + more + b"\r\n" + body


def record(
    name: str, block: bytes, kind: str = "response", wrong: int = 0, end: bytes = b"\r\n\r\n", more: str = "",
    content_type: str = "application/http; msgtype=response",
) -> bytes:  # fmt: skip
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{name}>\r\n"
        f"WARC-Target-URI: http://a.example/{name}\r\n"
        f"WARC-Date: 2024-05-01T00:00:00Z\r\nContent-Type: {content_type}\r\n{more}"
        f"Content-Length: {len(block) + wrong}\r\n\r\n"
    )
    return head.encode() + block + end


def good(name: str) -> bytes:
    return record(name, http())


class MemoryFile(ObjectFile):
    """Bytes as an input."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self._data = data

    def _fetch(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class Reading:
    """All that is read of an input in one slice, with the laws of accounts checked."""

    def __init__(self, data: bytes, key: str = "a.warc", **options: Any) -> None:
        reader = ReadWarc(paths=(), **options)
        piece = Slice(Input(key, len(data), ""), 0, len(data), True)
        self.stretches: list[Records] = list(reader.open()(piece, MemoryFile(data)))
        self.rows: list[dict[str, Any]] = []
        self.bad: list[Quarantined] = []
        self.drops: Counter[str] = Counter()
        self.num_bytes: Counter[str] = Counter()
        end = 0
        for part in self.stretches:
            kinds = {kind: getattr(part, f"{kind}_bytes") for kind in ("record", "framing", "skipped", "lost")}
            assert min(kinds.values()) >= 0
            assert part.first == end
            assert part.content_bytes == part.end - part.first == sum(kinds.values())
            assert part.batch.schema.names == list(reader.adds)
            end = part.end
            self.rows += part.batch.to_pylist()
            self.bad += part.quarantined
            self.drops.update(part.drops)
            self.num_bytes.update(kinds)
        assert end == len(data)
        self.num_records = sum(part.num_records for part in self.stretches)
        assert self.num_records == len(self.rows) + self.drops.total() + len(self.bad)

    @property
    def names(self) -> list[str]:
        return [row["name"].removeprefix("urn:uuid:") for row in self.rows]

    @property
    def reasons(self) -> list[str]:
        return [bad.reason for bad in self.bad]


# By hand


@pytest.mark.parametrize("packed", [False, True])
def test_a_response_becomes_a_document(packed: bool) -> None:
    raw = record("one", http(), end=b"")
    stored = gzip.compress(raw + b"\r\n\r\n") if packed else raw + b"\r\n\r\n"
    reading = Reading(stored + (gzip.compress(b"") if packed else b""), "dir/a.warc")
    assert reading.rows == [
        {
            "id": record_id("warc", "urn:uuid:one"),
            "name": "urn:uuid:one",
            "record_hash": xxhash.xxh3_128_digest(raw),
            "source": None,
            "origin": {
                "source": None,
                "key": "dir/a.warc",
                "offset": 0,
                "length": len(stored) if packed else len(raw),
                "inner": 0,
            },
            "content": PAGE,
            "url": "http://a.example/one",
            "date": "2024-05-01T00:00:00Z",
            "kind": "text/html",
            "charset": "utf-8",
        }
    ]
    assert reading.num_bytes["lost"] == reading.num_bytes["skipped"] == 0
    assert packed or reading.num_bytes == {"record": len(raw), "framing": 4, "skipped": 0, "lost": 0}


def test_a_record_without_an_id_is_known_by_its_bytes() -> None:
    raw = good("x").replace(b"WARC-Record-ID: <urn:uuid:x>\r\n", b"")
    row = Reading(raw).rows[0]
    assert row["name"] is None
    assert row["id"] == record_id("warc", raw[:-4])


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (record("x", b"GET / HTTP/1.1\r\n\r\n", "request"), "request"),
        (record("x", b"a: b\r\n", "warcinfo", content_type="application/warc-fields"), "warcinfo"),
        (record("x", b"a: b\r\n", "metadata"), "metadata"),
        (record("x", http(b""), "revisit"), "revisit"),
        (record("x", b"rest of a page", "continuation"), "continuation"),
        (record("x", b"...", "monkeys"), "other_type"),
        (record("x", http(), more="WARC-Truncated: length\r\n"), "truncated"),
        (record("x", http(), more="WARC-Segment-Number: 1\r\n"), "segmented"),
        (record("x", http(status="199 X")), "status"),
        (record("x", http(status="200 X")), None),
        (record("x", http(status="299 X")), None),
        (record("x", http(status="300 X")), "status"),
        (record("x", http(kind="TEXT/HTML")), None),
        (record("x", http(kind="application/xhtml+xml")), None),
        (record("x", http(kind="text/plain;charset=x")), None),
        (record("x", http(kind="image/png")), "media_type"),
        (record("x", http(kind="")), None),
        (record("x", http(b"\x89PNG\r\n\0\0", kind="")), "media_type"),
        (record("x", http(b"")), "empty_payload"),
        (record("x", http(b" \r\n\t")), "empty_payload"),
        (record("x", b"dns text", content_type="text/dns"), "media_type"),
        (record("x", PAGE, "resource", content_type="text/html"), None),
        (record("x", b"\0\1", "resource", content_type="image/gif"), "media_type"),
        (record("x", http(), "RESPONSE"), None),
    ],
)
def test_records_are_kept_or_counted_by_reason(raw: bytes, outcome: str | None) -> None:
    reading = Reading(raw)
    assert (len(reading.rows), dict(reading.drops)) == ((1, {}) if outcome is None else (0, {outcome: 1}))
    other_type = outcome in ("request", "warcinfo", "metadata", "revisit", "continuation", "other_type")
    assert reading.num_bytes["skipped" if other_type else "record"] == len(raw) - 4


def test_the_text_of_a_wet_file_is_plain_text() -> None:
    row = Reading(record("x", "W\u00f6rter".encode(), "conversion", content_type="text/plain")).rows[0]
    assert (row["content"], row["kind"], row["charset"]) == ("W\u00f6rter".encode(), "text/plain", None)


def test_a_record_that_begins_without_http_but_says_so_is_quarantined() -> None:
    reading = Reading(record("x", b"<html>") + good("y") + good("z").replace(b"WARC-Type: response\r\n", b""))
    assert reading.reasons == ["bad_http", "no_type"]
    assert reading.names == ["y"]
    assert reading.num_bytes["lost"] == 0


# Framing: known faults


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"", b"\n\n", b"\r\n\r\n\r\n\r\n\r\n"])
def test_records_that_are_set_apart_wrongly_are_read(end: bytes) -> None:
    """BUG-002: one line end fewer, or none, or more."""
    reading = Reading(record("one", http(), end=end) + record("two", http(), end=end))
    assert reading.names == ["one", "two"]
    assert reading.num_bytes["framing"] == 2 * len(end)
    assert not reading.bad


@pytest.mark.parametrize("wrong", [-7, -1, 5, 7, 100])
def test_a_wrong_content_length_costs_its_own_record(wrong: int) -> None:
    """BUG-003."""
    reading = Reading(good("zero") + record("one", http(), wrong=wrong) + good("two"))
    assert reading.names == ["zero", "two"]
    assert reading.reasons == ["length_mismatch"]
    assert reading.bad[0].id == record_id("warc", "urn:uuid:one")
    assert reading.bad[0].origin["offset"] == len(good("zero"))
    assert reading.num_bytes["lost"] == len(record("one", http(), wrong=wrong))


@pytest.mark.parametrize("wrong", [1, 2, 3, 4])
def test_a_length_that_takes_in_line_ends_reads_as_too_few_of_them(wrong: int) -> None:
    reading = Reading(record("one", http(), wrong=wrong) + good("two"))
    assert (reading.names, reading.reasons) == (["one", "two"], [])
    assert reading.rows[0]["content"] == PAGE + b"\r\n\r\n"[:wrong]


@pytest.mark.parametrize("length", ["", "-5", "x", "1e3", "\u0663", "9" * 30])
def test_a_content_length_that_is_none_costs_its_own_record(length: str) -> None:
    bad = good("one").replace(f"Content-Length: {len(http())}".encode(), f"Content-Length: {length}".encode())
    reading = Reading(bad + good("two"))
    assert (reading.names, reading.reasons) == (["two"], ["bad_content_length"])


def test_a_content_length_beyond_the_file_costs_its_own_record() -> None:
    reading = Reading(record("one", http(), wrong=10**12) + good("two"))
    assert (reading.names, reading.reasons) == (["two"], ["truncated"])


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"WARC/one\r\nWARC-Type: response\r\n\r\n", "bad_version"),
        (b"WARC/1.0\r\nWARC-Type: response\r\nWARC/1.0\r\nWARC-Type: response\r\n\r\n", "bad_header"),
        (b"WARC/1.0\r\nA: " + b"b" * (64 << 10) + b"\r\n\r\n", "bad_header"),
    ],
)
def test_bad_headers_have_reasons(head: bytes, reason: str) -> None:
    reading = Reading(good("zero") + head + good("two"))
    assert reading.reasons[0] == reason
    assert reading.names == ["zero", "two"]


def test_garbage_between_records_is_lost_and_nothing_else() -> None:
    garbage = b"Donkey Kong\r\nWARC/1.0 is a format\r\n"
    reading = Reading(good("one") + garbage + good("two") + garbage)
    assert (reading.names, reading.reasons) == (["one", "two"], [])
    assert reading.num_bytes["lost"] == 2 * len(garbage)


def test_bytes_of_a_record_are_never_rewritten() -> None:
    """BUG-005: raw bytes in HTTP headers, and an upper-case name of a header field."""
    raw = record("one", http(more=b"Set-Cookie: \xb3\xd2\xda=1\r\n"))
    row = Reading(raw).rows[0]
    assert row["record_hash"] == xxhash.xxh3_128_digest(raw[:-4])
    assert (row["content"], row["kind"]) == (PAGE, "text/html")


def test_a_warc_in_a_warc_is_one_record() -> None:
    inner = good("inner") + good("inner2")
    reading = Reading(good("one") + record("outer", http(inner)) + good("two"))
    assert reading.names == ["one", "outer", "two"]


# gzip: known faults


def test_a_cut_member_is_quarantined_and_reading_ends() -> None:
    """BUG-010."""
    data = gzip.compress(good("one")) + gzip.compress(good("two"))
    reading = Reading(data[:-40])
    assert (reading.names, reading.reasons) == (["one"], ["truncated"])
    assert reading.num_bytes["lost"] == len(gzip.compress(good("two"))) - 40


def test_a_member_cut_in_its_trailer_is_quarantined() -> None:
    """BUG-014: all of its content is there, but nothing vouches for it."""
    reading = Reading(gzip.compress(good("one")) + gzip.compress(good("two"))[:-6])
    assert (reading.names, reading.reasons) == (["one"], ["truncated"])


@pytest.mark.parametrize("at", range(10, 200, 10))
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_changed_byte_costs_one_record(bad: int, at: int) -> None:
    """BUG-011."""
    members = [gzip.compress(good(str(number))) for number in range(3)]
    members[bad] = members[bad][:at] + bytes([members[bad][at] ^ 0xFF]) + members[bad][at + 1 :]
    reading = Reading(b"".join(members))
    assert reading.names == [str(number) for number in range(3) if number != bad]
    assert len(reading.bad) == 1
    assert reading.bad[0].origin["offset"] == sum(map(len, members[:bad]))
    assert reading.num_bytes["lost"] == len(members[bad])


def test_what_lies_between_members_is_counted() -> None:
    """BUG-013: all members are read, NUL padding is framing, garbage is lost."""
    one, two = gzip.compress(good("one")), gzip.compress(good("two"))
    reading = Reading(one + b"\0" * 4 + two + b"garbage" + one + gzip.compress(b"") + b"\0" * 9)
    assert (reading.names, reading.reasons) == (["one", "two", "one"], [])
    assert reading.num_bytes["lost"] == len(b"garbage")
    assert reading.num_bytes["framing"] >= 13 + len(gzip.compress(b""))


def test_a_member_without_a_record_is_quarantined() -> None:
    reading = Reading(gzip.compress(good("one")) + gzip.compress(b"no record") + gzip.compress(good("two")))
    assert (reading.names, reading.reasons) == (["one", "two"], ["not_warc"])
    assert reading.num_bytes["lost"] == len(gzip.compress(b"no record"))


def test_records_of_one_member_are_told_apart_by_their_place_in_it() -> None:
    data = gzip.compress(record("info", b"", "warcinfo") + good("one") + good("two"))
    reading = Reading(data)
    starts = [len(record("info", b"", "warcinfo")), len(record("info", b"", "warcinfo") + good("one"))]
    assert [row["origin"]["inner"] for row in reading.rows] == starts
    assert [row["origin"]["offset"] for row in reading.rows] == [0, 0]
    assert all(reading.num_bytes[kind] > 0 for kind in ("record", "framing", "skipped"))


def test_an_origin_holds_its_record() -> None:
    """Reading `length` stored bytes from `offset` and decompressing them gives the record at `inner`."""
    noise = random.Random(3)
    pages = {str(number): b"<p>" + noise.randbytes(50_000).hex().encode() for number in range(10)}
    raw = {name: record(name, http(page)) for name, page in pages.items()}
    whole = gzip.compress(b"".join(raw.values()), 1)
    each = b"".join(gzip.compress(one, 1) for one in raw.values())
    plain = b"".join(raw.values())
    for data in (whole, each, plain):
        for row in Reading(data).rows:
            stored = data[row["origin"]["offset"] :][: row["origin"]["length"]]
            content = stored if data is plain else _inflate(stored)
            own = raw[row["name"].removeprefix("urn:uuid:")][:-4]
            assert content[row["origin"]["inner"] :][: len(own)] == own


def _inflate(stored: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(stored)


def test_a_cut_in_one_member_of_many_records_keeps_those_before_it() -> None:
    noise = random.Random(5)
    records = [record(str(number), http(b"<p>" + noise.randbytes(30_000).hex().encode())) for number in range(20)]
    data = gzip.compress(b"".join(records), 1)
    reading = Reading(data[: len(data) // 2])
    assert 5 < len(reading.names) < 12
    assert reading.reasons == ["truncated"]
    assert 0 < reading.num_bytes["lost"] < 40_000


# Bounds


@pytest.mark.parametrize("packed", [False, True])
def test_a_record_may_be_as_large_as_its_limit_and_no_larger(packed: bool) -> None:
    pack = gzip.compress if packed else bytes
    for size, outcome in ((0, (["one", "two"], [])), (1, (["two"], ["too_large"]))):
        one = record("one", http(b"x" * (300_000 + size)))
        limit = len(record("one", http(b"x" * 300_000))) - 4
        reading = Reading(pack(one) + pack(good("two")), max_record_bytes=limit)
        assert (reading.names, reading.reasons) == outcome
        assert reading.num_bytes["lost"] == 0


def test_a_large_record_with_a_wrong_length_is_lost() -> None:
    reading = Reading(record("one", http(b"x" * 300_000), wrong=-7) + good("two"), max_record_bytes=1000)
    assert (reading.names, reading.reasons) == (["two"], ["too_large"])
    assert reading.num_bytes["lost"] == len(record("one", http(b"x" * 300_000)))


def test_batches_are_handed_over_in_bounded_pieces() -> None:
    page = b"<p>" + b"x" * 1_000_000
    data = b"".join(record(str(number), http(page)) for number in range(12))
    for packed in (
        data,
        gzip.compress(data, 1),
        b"".join(gzip.compress(record(str(n), http(page)), 1) for n in range(12)),
    ):
        reading = Reading(packed)
        assert reading.names == [str(number) for number in range(12)]
        assert max(part.batch.nbytes for part in reading.stretches) < 6 << 20


def test_a_bomb_is_quarantined_and_the_next_record_read() -> None:
    """BUG-017."""
    once = gzip.compress(bytes(80 << 20), 9)
    bomb = record("bomb", http(gzip.compress(once), more=b"Content-Encoding: gzip, gzip\r\n"))
    reading = Reading(bomb + good("two"))
    assert (reading.names, reading.reasons) == (["two"], ["bomb"])
    assert reading.bad[0].id == record_id("warc", "urn:uuid:bomb")


# Inputs that are no WARC files


@pytest.mark.parametrize(
    "data", [b"\x04\x22\x4d\x18 LZ4", b"\x28\xb5\x2f\xfd zstd", b"filedesc://a.arc", b"\n\n\n", b"WARC"]
)
def test_an_input_of_another_format_is_one_bad_record(data: bytes) -> None:
    reading = Reading(data)
    assert (reading.num_records, reading.reasons) == (1, ["not_warc"])
    assert reading.num_bytes["lost"] == len(data)


def test_an_empty_input_holds_nothing() -> None:
    assert Reading(b"").num_records == 0


@pytest.mark.parametrize("data", [good("one") * 3, gzip.compress(good("one")) * 3, b"no WARC at all" * 50])
def test_a_slice_in_which_nothing_begins_is_empty(data: bytes) -> None:
    piece = Slice(Input("a", len(data), ""), 1, 20, False)
    (part,) = ReadWarc(paths=()).open()(piece, MemoryFile(data))
    assert (part.first, part.end, part.num_records, part.content_bytes) == (20, 20, 0, 0)


def test_entry_points_are_told_by_name() -> None:
    names = {"a.warc": True, "a.warc.gz": True, "a.warc.zst": False, "a.warc.LZ4": False}
    assert {name: ReadWarc(paths=()).has_entry_points(name) for name in names} == names


# Real files


def test_sound_files_give_the_records_that_other_readers_see(shared_data: Path) -> None:
    folder = shared_data / "web"
    num_compared = 0
    for line in (folder / "warc_manifest.jsonl").read_text().splitlines():
        fact = json.loads(line)
        data = (folder / fact["file"]).read_bytes()
        reading = Reading(data, fact["file"])
        if not fact["file"].startswith("warc/") or not fact["fastwarc_2_0_1"]["records"]:
            continue
        if fact["file"].endswith(".lz4"):
            assert reading.reasons == ["not_warc"]
            continue
        num_compared += 1
        assert not reading.bad
        assert reading.num_bytes["lost"] == 0
        counts = fact["fastwarc_2_0_1"]["records"]
        others = {kind: num for kind, num in counts.items() if kind not in ("response", "resource", "conversion")}
        assert {kind: reading.drops[kind] for kind in others} == others
        assert reading.num_records == sum(counts.values())
    assert num_compared == 10


def test_odd_files_lose_no_byte_and_no_record_that_fastwarc_reads(shared_data: Path) -> None:
    num_files = 0
    for path in sorted((shared_data / "web" / "warc_odd").iterdir()):
        reading = Reading(path.read_bytes(), path.name)
        num_files += 1
        assert reading.num_records > 0
        assert bool(reading.num_bytes["lost"]) == any(bad.reason not in ("bad_http",) for bad in reading.bad) or (
            path.name == "jwat_invalid-warcfile-record-then-garbage.warc"
        )
    assert num_files == 53


def test_payloads_are_those_that_fastwarc_gives(shared_data: Path) -> None:
    source = shared_data / "web" / "warc"
    num_compared = 0
    kinds = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion
    for name in ("cc_resiliparse_16pages.warc.gz", "cc_whirlwind.warc.wet.gz", "aut_issue-493_revisits.warc"):
        rows = {row["name"]: row["content"] for row in Reading((source / name).read_bytes(), name).rows}
        assert rows
        with open_storage(str(source)).open(name) as file:
            for found in ArchiveIterator(file, record_types=kinds):
                body = found.reader.read()
                own = (found.record_id or "").strip("<>")
                coded = found.http_headers and {"content-encoding", "transfer-encoding"} & {
                    field.lower() for field, _ in found.http_headers.astuples()
                }
                if own in rows and not coded:
                    assert rows[own] == body
                    num_compared += 1
    assert num_compared == 17
