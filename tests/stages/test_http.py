"""HTTP messages in archives: codings undone, or left where they are no longer there; never beyond bounds."""

import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from curate.core.errors import DataError
from stages.http import (
    FREE_PAYLOAD_BYTES,
    Message,
    charset_of,
    dechunk,
    decode_body,
    media_type,
    parse_headers,
    parse_response,
    sniff,
)

PAGE = b"<p>First letters matter</p>"
LIMIT = 64 << 20


def message(body: bytes, coding: str = "", transfer: str = "") -> Message:
    return Message(200, {"content-encoding": coding, "transfer-encoding": transfer}, body)


def deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


def chunked(data: bytes, size: int = 7) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def reason_of(body: Message, limit: int = LIMIT) -> str:
    with pytest.raises(DataError) as caught:
        decode_body(body, limit)
    return caught.value.reason


def test_the_first_of_equal_fields_counts_and_folded_lines_are_joined() -> None:
    lines = b"Content-Type: text/html;\r\n\tcharset=x\r\njunk\r\nX: \xb3\xd2\r\nurl: \xc3\xa4\r\nCONTENT-TYPE: b\n"
    assert parse_headers(lines) == {"content-type": "text/html; charset=x", "x": "\xb3\xd2", "url": "\xe4"}


@pytest.mark.parametrize(
    ("block", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", 200, b"body"),
        (b"HTTP/1.1 404\nA: b\n\nbody", 404, b"body"),
        (b"HTTP/2 204\r\n\r\n", 204, b""),
        (b"HTTP/1.0 200 OK", 200, b""),
    ],
)
def test_responses_are_parsed(block: bytes, status: int, body: bytes) -> None:
    response = parse_response(block)
    assert (response.status, response.body) == (status, body)


@pytest.mark.parametrize("block", [b"", b"<html>", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n"])
def test_what_begins_with_no_status_line_is_no_response(block: bytes) -> None:
    with pytest.raises(DataError, match="bad_http"):
        parse_response(block)


def test_media_types_and_charsets() -> None:
    assert [media_type(value) for value in ("Text/HTML; charset=x", "text/plain", "", " a/b,c")] == [
        "text/html",
        "text/plain",
        "",
        "a/b",
    ]
    assert [charset_of(value) for value in ('text/html; Charset="UTF-8"', "a; charset = x ; b", "text/html")] == [
        "utf-8",
        "x",
        None,
    ]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\n <!DOCTYPE html><p>", "text/html"),
        (b"\xef\xbb\xbf<HTML >", "text/html"),
        (b"<?xml version='1.0'?><html xmlns='x'>", "text/html"),
        ("<html>".encode("utf-16"), "text/html"),
        (b"just words", "text/plain"),
        ("words".encode("utf-16"), "text/plain"),
        (b"<?xml version='1.0'?><rss>", None),
        (b"%PDF-1.4 and so on", None),
        (b"\x89PNG\r\n\x1a\n\0", None),
    ],
)
def test_payloads_without_a_type_are_sniffed(body: bytes, kind: str | None) -> None:
    assert sniff(body) == kind


# BUG-006, BUG-007: chunked, or said to be.


@pytest.mark.parametrize(
    ("stored", "body"),
    [
        (b"6\r\n<p>abc\r\n5\r\n</p>\n\r\n0\r\n\r\n", b"<p>abc</p>\n"),
        (b"6;name=value\r\n<p>abc\r\n0\r\nTrailer: x\r\n\r\n", b"<p>abc"),
        (b"6\r\n<p>abc\r\n5\r\n</p>\n\r\n", b"<p>abc</p>\n"),
        (b"6\r\n<p>abc\r\n50\r\n</p>", b"<p>abc</p>"),
        (b"<p>abc</p>", b"<p>abc</p>"),
        (b"60\r\n<p>abc</p>", b"60\r\n<p>abc</p>"),
        (b"6\r\n<p>abc\r\nxyz\r\n</p>", b"6\r\n<p>abc\r\nxyz\r\n</p>"),
        (b"", b""),
    ],
    ids=[
        "whole",
        "extension and trailer",
        "no last chunk",
        "cut",
        "not chunked",
        "cut at once",
        "bad framing",
        "empty",
    ],
)
def test_chunks_are_joined_or_the_body_is_left(stored: bytes, body: bytes) -> None:
    assert dechunk(stored) == body


@given(st.binary(max_size=200).map(lambda tail: b"<p>" + tail), st.integers(1, 50))
def test_a_body_is_the_same_chunked_or_already_joined(body: bytes, size: int) -> None:
    assert dechunk(chunked(body, size)) == dechunk(body) == body


CODED = {
    "gzip": gzip.compress(PAGE),
    "x-gzip": gzip.compress(PAGE[:5]) + gzip.compress(PAGE[5:]),
    "zstd": zstandard.compress(PAGE),
    "br": brotli.compress(PAGE),
    "deflate": zlib.compress(PAGE),
    "Deflate": deflate(PAGE),
    "identity": PAGE,
}


@pytest.mark.parametrize("coding", CODED)
def test_codings_are_undone(coding: str) -> None:
    assert decode_body(message(CODED[coding], coding), LIMIT) == PAGE
    assert decode_body(message(chunked(CODED[coding]), coding, "chunked"), LIMIT) == PAGE


def test_two_codings_are_undone_last_first() -> None:
    assert decode_body(message(brotli.compress(gzip.compress(PAGE)), "gzip, br"), LIMIT) == PAGE


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "deflate", "br, gzip", "unheard-of"])
def test_a_body_that_is_not_coded_loses_no_letter(coding: str) -> None:
    """BUG-009: looked at, nothing taken."""
    for page in (PAGE, "<p>\xe4\xf6\xfc \u4e2d\u6587</p>".encode()):
        assert decode_body(message(page, coding), LIMIT) == page


def test_garbage_behind_a_gzip_member_is_ignored_as_browsers_do() -> None:
    assert decode_body(message(gzip.compress(PAGE) + b"garbage", "gzip"), LIMIT) == PAGE


@pytest.mark.parametrize(
    ("body", "coding", "reason"),
    [
        (gzip.compress(PAGE)[:-4], "gzip", "bad_coding"),
        (gzip.compress(PAGE)[:-8] + b"\0" * 8, "gzip", "bad_coding"),
        (zstandard.compress(PAGE)[:-1], "zstd", "bad_coding"),
        (brotli.compress(bytes(range(256)))[:-9], "br", "bad_coding"),
        (zlib.compress(bytes(range(256)))[:-3], "deflate", "bad_coding"),
        (bytes(range(256)), "unheard-of", "unknown_coding"),
        (PAGE, "gzip, gzip, gzip", "bomb"),
    ],
)
def test_bad_codings_have_reasons(body: bytes, coding: str, reason: str) -> None:
    assert reason_of(message(body, coding)) == reason


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "deflate"])
def test_a_payload_may_expand_to_its_limit_and_no_further(coding: str) -> None:
    encode = {"gzip": gzip.compress, "zstd": zstandard.compress, "br": brotli.compress, "deflate": deflate}[coding]
    body = encode(bytes(FREE_PAYLOAD_BYTES))
    assert len(decode_body(message(body, coding), FREE_PAYLOAD_BYTES)) == FREE_PAYLOAD_BYTES
    assert reason_of(message(body, coding), FREE_PAYLOAD_BYTES - 1) == "bomb"


def test_the_ratio_is_bounded_where_the_size_is_not() -> None:
    body = brotli.compress(bytes(8 << 20))
    assert len(body) * 1000 < 8 << 20
    assert reason_of(message(body, "br")) == "bomb"


def test_a_bomb_in_a_bomb_is_refused() -> None:
    """BUG-017: zero bytes through gzip twice are a few KB."""
    inner = zlib.compressobj(9, wbits=31)
    once = b"".join(inner.compress(bytes(1 << 20)) for _ in range(256)) + inner.flush()
    assert reason_of(message(gzip.compress(once), "gzip, gzip")) == "bomb"
