"""HTTP messages as archives hold them: headers, transfer and content codings, media types.

Header bytes are never rewritten: only the few values that are used are decoded.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import brotli

from curate.core.errors import DataError
from stages.compressed import GZIP_MAGIC, MAX_RATIO, ZSTD_MAGIC, Damage, Memory, open_stream

HEAD_END = re.compile(rb"\r?\n\r?\n")
MAX_CODINGS = 2
FREE_PAYLOAD_BYTES = 1 << 20  # what a payload may expand to, whatever its ratio

_STATUS = re.compile(rb"HTTP/\d+(?:\.\d+)?[ \t]+(\d{3})(?!\d)")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_CHUNK_HEAD = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]{0,1024})?\r?\n")
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # WHATWG MIME sniffing: binary data bytes
_MARKUP = re.compile(
    rb"<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)[\s>-]", re.I
)
_SNIFFED_BYTES = 1445  # WHATWG MIME sniffing: the resource header


@dataclass(frozen=True)
class Message:
    """An HTTP response: status, headers (names in lower case) and the body as stored."""

    status: int
    headers: dict[str, str]
    body: bytes


def parse_headers(lines: bytes) -> dict[str, str]:
    """Fields by lower-case name: the first of equal names, folded lines joined, junk lines left out."""
    if b"\n " in lines or b"\n\t" in lines:
        lines = re.sub(rb"\r?\n[ \t]+", b" ", lines)
    fields: dict[str, str] = {}
    for line in _decode(lines).split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _decode(lines: bytes) -> str:
    """UTF-8, but a line that is not UTF-8 is Latin-1."""
    try:
        return lines.decode()
    except UnicodeDecodeError:
        return "\n".join(_decode_line(line) for line in lines.split(b"\n"))


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def parse_response(block: bytes) -> Message:
    """Raises: DataError('bad_http') where the block does not begin with a status line."""
    status = _STATUS.match(block)
    if status is None:
        raise DataError("bad_http", f"the block begins with {block[:20]!r}, not with a status line")
    end = HEAD_END.search(block)
    head = block[: end.start()] if end else block
    body = block[end.end() :] if end else b""
    first_line = head.find(b"\n")
    fields = parse_headers(head[first_line + 1 :]) if first_line >= 0 else {}
    return Message(int(status[1]), fields, body)


def media_type(content_type: str) -> str:
    """`text/html` of `text/HTML; charset=x`."""
    return re.split(r"[;,\s]", content_type.strip(), maxsplit=1)[0].lower()


def charset_of(content_type: str) -> str | None:
    """The declared charset of a Content-Type, in lower case."""
    found = _CHARSET.search(content_type)
    return found[1].lower() if found else None


def sniff(body: bytes) -> str | None:
    """`text/html` or `text/plain` by the first bytes, None for what is neither.

    Source: WHATWG MIME Sniffing, 7 (the patterns of HTML, the binary data bytes).
    """
    head = body[:_SNIFFED_BYTES]
    if head.startswith((b"\xfe\xff", b"\xff\xfe")):
        return "text/html" if b"<\0" in head or b"\0<" in head else "text/plain"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\t\n\f\r ")
    if _MARKUP.match(start) or (start.startswith(b"<?xml") and b"<html" in start):
        return "text/html"
    return None if looks_binary(head) or start.startswith((b"%PDF-", b"<?xml", b"%!PS-Adobe-")) else "text/plain"


def looks_binary(body: bytes) -> bool:
    """Whether the first bytes hold control characters that no text has."""
    return _BINARY.search(body, 0, _SNIFFED_BYTES) is not None


def decode_body(message: Message, max_bytes: int) -> bytes:
    """The body without its transfer and content codings.

    A body that was stored decoded under headers that still name the codings is given as it is.
    Raises: DataError `bomb` (more than two codings, or too large), `unknown_coding`, `bad_coding`.
    """
    codings = [*_codings(message, "content-encoding"), *_codings(message, "transfer-encoding")]
    if sum(coding != "chunked" for coding in codings) > MAX_CODINGS:
        raise DataError("bomb", f"{len(codings)} codings, at most {MAX_CODINGS} are undone")
    body = message.body
    for coding in reversed(codings):
        body = dechunk(body) if coding == "chunked" else _decompress(body, coding, max_bytes)
    return body


def _codings(message: Message, header: str) -> list[str]:
    names = [name.strip().lower() for name in message.headers.get(header, "").split(",")]
    return [name for name in names if name not in ("", "identity", "none")]


def dechunk(body: bytes) -> bytes:
    """The content of a chunked body; the body itself where its framing does not parse.

    A body that ends within a chunk, after at least one whole chunk, gives what it holds.
    """
    parts, at = [], 0
    while head := _CHUNK_HEAD.match(body, at):
        size, start = int(head[1], 16), head.end()
        part = body[start : start + size]
        parts.append(part)
        at = start + size
        if size == 0:
            return b"".join(parts)
        if len(part) < size:
            break
        at += 2 if body.startswith(b"\r\n", at) else 1 if body.startswith(b"\n", at) else 0
    ended_early = at >= len(body) and len(parts) > 1
    return b"".join(parts) if ended_early else body


def _decompress(body: bytes, coding: str, max_bytes: int) -> bytes:
    """One content coding undone, within bounds; the body itself where it does not carry the coding."""
    decode, magic = _DECODERS.get(coding, (_unknown, b""))
    if not body.startswith(magic) or not body:
        return body
    limit = min(max_bytes, max(FREE_PAYLOAD_BYTES, MAX_RATIO * len(body)))
    try:
        return decode(body, limit)
    except (zlib.error, brotli.error, Damage) as error:
        if magic or looks_binary(body):
            raise DataError(_reason(error), f"{coding}: {len(body)} bytes: {error}") from error
        return body


def _reason(error: Exception) -> str:
    kind = error.kind if isinstance(error, Damage) else "corrupt"
    return kind if kind in ("bomb", "unknown_coding") else "bad_coding"


def _unknown(body: bytes, limit: int) -> bytes:
    raise Damage("unknown_coding")


def _decode_stream(suffix: str) -> Callable[[bytes, int], bytes]:
    def decode(body: bytes, limit: int) -> bytes:
        stream = open_stream(Memory(body), suffix, max_bytes=limit)
        content = b"".join(iter(stream.read, b""))
        if stream.damage and stream.damage != "garbage":  # which browsers ignore
            raise Damage(stream.damage)
        return content

    return decode


def _inflate(body: bytes, limit: int) -> bytes:
    """`deflate`: with the zlib header that RFC 9110 demands, or without it, as some servers send it."""
    has_header = body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    decoder = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
    content = decoder.decompress(body, limit + 1)
    return _checked(content, limit, decoder.eof)


def _unbrotli(body: bytes, limit: int) -> bytes:
    decoder = brotli.Decompressor()
    content = decoder.process(body, output_buffer_limit=limit + 1)
    return _checked(content, limit, decoder.is_finished())


def _checked(content: bytes, limit: int, complete: bool) -> bytes:
    if len(content) > limit:
        raise Damage("bomb")
    if not complete:
        raise Damage("truncated")
    return content


_DECODERS: dict[str, tuple[Callable[[bytes, int], bytes], bytes]] = {
    "gzip": (_decode_stream(".gz"), GZIP_MAGIC),
    "x-gzip": (_decode_stream(".gz"), GZIP_MAGIC),
    "zstd": (_decode_stream(".zst"), ZSTD_MAGIC),
    "deflate": (_inflate, b""),
    "br": (_unbrotli, b""),
}
