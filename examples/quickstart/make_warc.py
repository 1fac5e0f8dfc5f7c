"""WARC records of rendered pages, with what a crawl holds besides pages."""

import base64
import gzip
import hashlib
import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import replace

from examples.quickstart.make_pages import Page, page_html

WARC_DATE = "2026-01-01T00:00:00Z"


def warc_record(kind: str, url: str, block: bytes, content_type: str, **extra: str) -> bytes:
    """One WARC/1.1 record; its id is a hash of what it is, so that the file can be made again."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {hashlib.sha256(block).hexdigest()}")
    fields = {"WARC-Type": kind, "WARC-Record-ID": f"<urn:uuid:{identity}>", "WARC-Date": WARC_DATE}
    fields |= {"WARC-Target-URI": url} if kind != "warcinfo" else {}
    fields |= {name.replace("_", "-"): value for name, value in extra.items()}
    fields |= {"Content-Type": content_type, "Content-Length": str(len(block))}
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return head.encode("ascii") + b"\r\n" + block + b"\r\n\r\n"


def payload_digest(payload: bytes) -> str:
    """The digest as WARC files spell it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(payload, usedforsecurity=False).digest()).decode("ascii")


def response(
    url: str, payload: bytes, media_type: str, status: str = "200 OK", body: bytes | None = None, **headers: str
) -> bytes:
    """A response record; `body` is what went over the wire where that is not the payload itself."""
    sent = payload if body is None else body
    fields = {"Content-Type": media_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    fields |= {} if "Transfer-Encoding" in fields else {"Content-Length": str(len(sent))}
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    block, digest = head.encode("ascii") + sent, payload_digest(payload)
    return warc_record("response", url, block, "application/http; msgtype=response", WARC_Payload_Digest=digest)


def request(url: str) -> bytes:
    """The request record that goes with a response."""
    host, _, path = url.removeprefix("https://").partition("/")
    block = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n".encode()
    return warc_record("request", url, block, "application/http; msgtype=request")


def warcinfo(name: str) -> bytes:
    """The first record of a WARC file."""
    lines = ("software: examples/quickstart/make_data.py", "format: WARC File Format 1.1", "description: not a crawl")
    block = "".join(f"{line}\r\n" for line in lines).encode("ascii")
    return warc_record("warcinfo", name, block, "application/warc-fields", WARC_Filename=name)


def one_pixel_png() -> bytes:
    """A picture, because crawls have them."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\x00\xff")) + chunk(b"IEND", b"")


def page_response(position: int, page: Page) -> bytes:
    """A page as a server would send it: most in UTF-8, some in windows-1252, gzipped or in chunks."""
    if position % 17 == 5:
        return response(
            page.url, page_html(page).encode("cp1252", "xmlcharrefreplace"), "text/html; charset=windows-1252"
        )
    payload = page_html(page).encode("utf-8")
    if position % 17 == 9:
        packed = gzip.compress(payload, 9, mtime=0)
        return response(page.url, payload, "text/html; charset=utf-8", body=packed, Content_Encoding="gzip")
    if position % 17 == 13:
        pieces = [payload[i : i + 4096] for i in range(0, len(payload), 4096)]
        chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
        return response(page.url, payload, "text/html; charset=utf-8", body=chunked, Transfer_Encoding="chunked")
    return response(page.url, payload, "text/html; charset=utf-8")


def oddities(first: Page, second: Page) -> Iterator[bytes]:
    """What a crawl holds besides pages: a copy, a reprint, a thin page, an error, a picture and a revisit."""
    payload = page_html(first).encode("utf-8")
    yield response(f"{first.url}?ref=newsletter", payload, "text/html; charset=utf-8")
    reprint = replace(second, url=f"{second.url}/print", site="Print Edition", title=f"{second.title} (print)")
    yield response(reprint.url, page_html(reprint).encode("utf-8"), "text/html; charset=utf-8")
    yield response(
        "https://shop.example.org/", b"<html><title>Soon</title><p>Our shop opens soon.</p></html>", "text/html"
    )
    missing = b"<html><title>Not found</title><p>The page you asked for does not exist.</p></html>"
    yield response("https://journals.example.org/articles/gone", missing, "text/html", status="404 Not Found")
    yield response("https://encyclopedia.example.org/logo.png", one_pixel_png(), "image/png")
    yield warc_record(
        "revisit",
        first.url,
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        "application/http; msgtype=response",
        WARC_Profile="http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        WARC_Payload_Digest=payload_digest(payload),
    )
