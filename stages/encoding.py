"""Bytes of web pages to text, in the order in which browsers decide on an encoding.

Source: WHATWG Encoding (labels); WHATWG HTML, 13.2.3 (the order, the meta declaration).
"""

import codecs
import re
from collections.abc import Iterator

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from curate.core.errors import DataError

# More replacement characters than that, and the encoding is another one.
MAX_REPLACED_SHARE = 0.001
_META_BYTES = 16 << 10  # browsers look at 1,024 bytes, or as far as the head reaches
_META = re.compile(rb"<meta\s[^>]{0,1024}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Python's codecs of these names know fewer characters than the encodings that browsers mean by them.
_WIDER = {"gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs", "iso8859-11": "cp874"}
_REPLACEMENT = "\ufffd"

# Control characters: gone, apart from tab, line feed and (soon a line feed) carriage return; those that
# separate become a space. U+FFFE and U+FFFF are no characters, and XML parsers refuse them.
_CONTROL = dict.fromkeys([*range(9), *range(0x0E, 0x20), *range(0x7F, 0xA0), 0xFFFE, 0xFFFF]) | {
    0x0B: " ",
    0x0C: " ",
    0x85: "\n",
}
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` with line feeds as line ends, and without control characters and lone surrogates."""
    if _CONTROLS.search(text):
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROL)
    return text if text.isascii() else _SURROGATES.sub(_REPLACEMENT, text)


def decode(content: bytes, charset: str | None, is_html: bool) -> str:
    """The text of `content`: by its byte order mark, else by the first of these that fits: the declared
    charset, the page's own declaration, UTF-8, detection over all bytes.

    An encoding fits if at most 0.1 % of the text are replacement characters that it brings in.
    Raises: DataError('bad_encoding').
    """
    for mark, codec in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(codec, "replace")
    tried: list[str] = []
    for codec in _candidates(content, charset, is_html):
        if codec not in tried:
            text = content.decode(codec, "replace")
            if _replaced(text, content, codec) <= MAX_REPLACED_SHARE * len(text):
                return text
            tried.append(codec)
    raise DataError("bad_encoding", f"none of {', '.join(tried)} fits")


def _candidates(content: bytes, charset: str | None, is_html: bool) -> Iterator[str]:
    if charset and (codec := codec_of(charset)):
        yield codec
    if is_html and (codec := _declared(content)):
        yield codec
    yield "utf-8"
    if detected := detect_encoding(content, max_len=0):
        yield codec_of(detected) or "utf-8"


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


def _replaced(text: str, content: bytes, codec: str) -> int:
    """Replacement characters that decoding brought in."""
    own = content.count(_REPLACEMENT.encode()) if codec == "utf-8" else 0
    return text.count(_REPLACEMENT) - own
