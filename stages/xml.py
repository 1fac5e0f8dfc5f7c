"""The one place where XML from strangers is parsed: no DTD, no entities, no network, bounded size and depth.

What libxml2 sees is UTF-8 without a single entity declaration; names that only a DTD defines, such as
&nbsp;, are replaced beforehand from Python's own table. libxml2's limits stay on (256 levels, 10 MB a
text node), and MAX_TAGS bounds the memory of the tree.
"""

import codecs
import html.entities
import re
from typing import Any

from lxml import etree

from curate.core.errors import DataError

# About 250 bytes a node: 4 million tags are some 500 MB. The largest article measured has 60 thousand.
MAX_TAGS = 4_000_000

_DECLARED_ENCODING = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']"
)
# Encodings that do not hide markup: in UTF-7, say, `<!ENTITY` has other bytes.
_ENCODINGS = re.compile(r"utf-8|ascii|iso8859-\d+|cp125\d|gb2312|gbk|gb18030|big5|shift_jis|euc_jp|euc_kr|koi8-[ru]")
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NAME = re.compile(rb"&([A-Za-z][A-Za-z0-9._-]{0,40});")
# Comments and CDATA come first, as an ampersand in them is text; `\Z` keeps unclosed ones linear.
_REFERENCE = re.compile(rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|" + _NAME.pattern, re.DOTALL)
_PREDEFINED = frozenset({b"amp", b"lt", b"gt", b"quot", b"apos"})
_NAMED = {name[:-1].encode(): text for name, text in html.entities.html5.items() if name.endswith(";")}


def parse(data: bytes) -> Any:
    """The root element of a document.

    Raises: DataError('bad_xml') where it is not well formed, DataError('unsafe_xml') where it
    declares entities or has more than MAX_TAGS tags.
    """
    parser = etree.XMLParser(**_options())
    try:
        return etree.fromstring(with_known_entities(as_safe_utf8(data)), parser)
    except etree.XMLSyntaxError as error:
        raise DataError("bad_xml", str(error)) from None


def pull_parser(**options: Any) -> Any:
    """A parser to be fed with pieces of `with_known_entities(as_safe_utf8(data))`."""
    return etree.XMLPullParser(**_options(), **options)


def local_name(element: Any) -> str:
    """The tag without its namespace."""
    tag: str = element.tag
    return tag.rpartition("}")[2]


def _options() -> dict[str, Any]:
    return {
        "encoding": "utf-8",  # overrides the declaration, which as_safe_utf8 has obeyed
        "resolve_entities": False,
        "no_network": True,
        "load_dtd": False,
        "dtd_validation": False,
        "attribute_defaults": False,
        "huge_tree": False,
        "remove_comments": True,  # else the text behind a comment is not part of the element's text
        "remove_pis": True,
    }


def as_safe_utf8(data: bytes) -> bytes:
    """`data` in UTF-8.

    An entity declaration is refused wherever it stands: telling a DTD from a CDATA section by hand is
    where such checks go wrong, and an article that quotes one unescaped is rarer than an attack.

    Raises: DataError('bad_xml'), DataError('unsafe_xml').
    """
    if not data.strip():
        raise DataError("bad_xml", "no bytes but white space")
    text = _transcoded(data)
    if b"<!ENTITY" in text:
        raise DataError("unsafe_xml", "declares entities")
    if text.count(b"<") > MAX_TAGS:
        raise DataError("unsafe_xml", f"more than {MAX_TAGS} tags")
    return text


def _transcoded(data: bytes) -> bytes:
    encoding = declared_encoding(data)
    if encoding == "utf-8":
        return data
    try:
        return data.decode(encoding).encode()
    except UnicodeError as error:
        raise DataError("bad_xml", f"not {encoding}: {error}") from None


def declared_encoding(data: bytes) -> str:
    """The encoding that a document states, else UTF-8. Raises: DataError('bad_xml') for one that is not read."""
    if data.startswith(_UTF16_BOMS):
        return "utf-16"
    declared = _DECLARED_ENCODING.match(data)
    if declared is None:
        return "utf-8"
    name = declared[1].decode("ascii")
    try:
        known = codecs.lookup(name).name
    except LookupError:
        known = name
    if not _ENCODINGS.fullmatch(known):
        raise DataError("bad_xml", f"encoding {name!r} is not supported")
    return known


def with_known_entities(data: bytes) -> bytes:
    """`data` with each named reference replaced by its characters; an unknown name stays visible as `&name;`."""
    return _REFERENCE.sub(_numeric, data) if _needs_names(data) else data


def _needs_names(data: bytes) -> bool:
    return any(match[1] not in _PREDEFINED for match in _NAME.finditer(data))


def _numeric(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name is None or name in _PREDEFINED:
        return match[0]
    if name not in _NAMED:
        return b"&amp;" + name + b";"
    return b"".join(b"&#%d;" % ord(character) for character in _NAMED[name])
