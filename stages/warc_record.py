"""What a sound WARC record is worth: a document, a counted drop, or a bad record."""

from typing import Any

from curate.core.errors import DataError
from stages import http

MEDIA_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/plain"})


class Dropped(Exception):  # noqa: N818 - an answer, not an error
    """The record is counted and not used."""


def type_of(headers: dict[str, str]) -> str:
    """The record's type in lower case, empty where it states none."""
    return headers.get("warc-type", "").lower()


def name_of(headers: dict[str, str]) -> str:
    """WARC-Record-ID without its angle brackets, empty where there is none."""
    return headers.get("warc-record-id", "").strip("<> \t")


def document_of(headers: dict[str, str], block: bytes, max_bytes: int) -> dict[str, Any]:
    """The columns of a document. Raises: Dropped(reason), DataError(reason)."""
    if not type_of(headers):
        raise DataError("no_type", "the record has no WARC-Type")
    for header, reason in (("warc-truncated", "truncated"), ("warc-segment-number", "segmented")):
        if header in headers:
            raise Dropped(reason)
    content_type = headers.get("content-type", "")
    if http.media_type(content_type) == "application/http" or block.startswith(b"HTTP/"):
        content_type, content = _http_payload(block, max_bytes)
    else:
        _check_media_type(content_type)
        content = block
    if not content or content.isspace():
        raise Dropped("empty_payload")
    kind = http.media_type(content_type) or http.sniff(content)
    if kind is None:
        raise Dropped("media_type")
    return {
        "content": content,
        "url": headers.get("warc-target-uri", "").strip("<> \t") or None,
        "date": headers.get("warc-date") or None,
        "kind": kind,
        "charset": http.charset_of(content_type),
    }


def _http_payload(block: bytes, max_bytes: int) -> tuple[str, bytes]:
    message = http.parse_response(block)
    if not 200 <= message.status < 300:
        raise Dropped("status")
    content_type = message.headers.get("content-type", "")
    _check_media_type(content_type)
    return content_type, http.decode_body(message, max_bytes)


def _check_media_type(content_type: str) -> None:
    """Drop what is declared to be something else, before it is decompressed."""
    kind = http.media_type(content_type)
    if kind and kind not in MEDIA_TYPES:
        raise Dropped("media_type")
