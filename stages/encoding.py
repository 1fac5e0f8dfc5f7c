"""Bytes of web pages to text, in the order in which browsers decide on an encoding.

Source: WHATWG Encoding (labels); WHATWG HTML, 13.2.3 (the order, the meta declaration).
"""

import codecs
import re
from collections.abc import Iterator

import pyarrow as pa
from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from curate.core.errors import DataError

# More replacement characters than that, and the encoding is another one: of the text, of its bytes beyond ASCII.
MAX_REPLACED_SHARE = 0.001
MAX_REPLACED_SHARE_BEYOND_ASCII = 0.1
# As few bytes beyond ASCII tell no encoding: windows-1252 then, the default of browsers (dashes and quotes, mostly).
MAX_GUESSED_SHARE = 0.01
_META_BYTES = 16 << 10  # browsers look at 1,024 bytes, or as far as the head reaches
_META = re.compile(rb"<meta\s[^>]{0,1024}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MARKS = tuple(mark for mark, _ in _BOMS)
# Python's codecs of these names know fewer characters than the encodings that browsers mean by them.
_WIDER = {"gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs", "iso8859-11": "cp874"}
_REPLACEMENT = "\ufffd"
_BEYOND_ASCII = bytes(range(0x80, 0x100))

# In UTF-8, where bytes are replaced several times as fast as characters.
_C0 = bytes(byte for byte in range(0x20) if byte not in b"\t\n\r\v\f") + b"\x7f"
_SPACED = bytes.maketrans(b"\v\f", b"  ")  # they separate
_RARE = (  # lead bytes that are looked for first, what is replaced, by what
    (b"\xc2", re.compile(rb"\xc2[\x80-\x84\x86-\x9f]"), b""),
    (b"\xc2\x85", re.compile(rb"\xc2\x85"), b"\n"),
    (b"\xef\xbf", re.compile(rb"\xef\xbf[\xbe\xbf]"), b""),  # U+FFFE and U+FFFF: no characters
    (b"\xed", re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]"), _REPLACEMENT.encode()),
)


def clean(text: str) -> str:
    """`text` with line feeds as line ends, and without control characters and lone surrogates.

    U+0085 is a line end, vertical tab and form feed are spaces, a lone surrogate is U+FFFD.
    """
    data = text.encode("utf-8", "surrogatepass").translate(_SPACED, _C0)
    for lead, pattern, replacement in _RARE:
        if lead in data:
            data = pattern.sub(replacement, data)
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode()


def decode(content: bytes, charset: str | None, is_html: bool) -> str:
    """The text of `content`: by its byte order mark, else by the first of these that fits: the declared
    charset, the page's own declaration, UTF-8, detection over all bytes, windows-1252 where all but 1 % is ASCII.

    An encoding fits if the replacement characters that it brings in are at most 0.1 % of the text, and at
    most a tenth of the bytes beyond ASCII, of which a page of markup may have few.
    Raises: DataError('bad_encoding').
    """
    for mark, codec in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(codec, "replace")
    tried: list[str] = []
    for codec in _candidates(content, charset, is_html):
        if codec not in tried:
            text = content.decode(codec, "replace")
            if _fits(text, content, codec):
                return text
            tried.append(codec)
    raise DataError("bad_encoding", f"none of {', '.join(tried)} fits")


def to_utf8(content: bytes, charset: str | None, is_html: bool) -> bytes:
    """`decode` in UTF-8: the content itself where it is that already. A lone surrogate is three bytes.

    Raises: DataError('bad_encoding').
    """
    if next(_candidates(content, charset, is_html)) == "utf-8" and not content.startswith(_MARKS) and is_utf8(content):
        return content
    return decode(content, charset, is_html).encode("utf-8", "surrogatepass")


def is_utf8(content: bytes) -> bool:
    """Whether Python's strict decoder takes it; four times as fast."""
    ends = pa.py_buffer((len(content) << 64).to_bytes(16, "little"))  # 0 and the length
    text = pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(content))
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _candidates(content: bytes, charset: str | None, is_html: bool) -> Iterator[str]:
    if charset and (codec := codec_of(charset)):
        yield codec
    if is_html and (codec := _declared(content)):
        yield codec
    yield "utf-8"
    if detected := detect_encoding(content, max_len=0):
        yield codec_of(detected) or "utf-8"
    if _num_beyond_ascii(content) <= MAX_GUESSED_SHARE * len(content):
        yield "cp1252"


def _declared(content: bytes) -> str | None:
    """The encoding that the page states in its head; UTF-16 there means UTF-8, as it could be read."""
    head = _COMMENT.sub(b"", content[:_META_BYTES])
    found = _META.search(head) or _XML.match(head)
    codec = codec_of(found[1].decode("ascii")) if found else None
    return "utf-8" if codec in ("utf-16-le", "utf-16-be") else codec


def codec_of(label: str) -> str | None:
    """Python's codec for a WHATWG label: Latin-1 is windows-1252, GB2312 is GB18030, and so on."""
    name = map_encoding_to_html5(label.strip().lower(), fallback_utf8=False)
    return _WIDER.get(name, name) if name else None


def _fits(text: str, content: bytes, codec: str) -> bool:
    replaced = text.count(_REPLACEMENT)
    if codec == "utf-8":
        replaced -= content.count(_REPLACEMENT.encode())  # the page's own
    if replaced <= 0:
        return True
    most = MAX_REPLACED_SHARE * len(text), MAX_REPLACED_SHARE_BEYOND_ASCII * _num_beyond_ascii(content)
    return replaced <= min(most)


def _num_beyond_ascii(content: bytes) -> int:
    return len(content) - len(content.translate(None, _BEYOND_ASCII))
