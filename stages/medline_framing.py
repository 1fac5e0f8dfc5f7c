"""Where the records of a PubmedArticleSet begin and end, found in its bytes as they come.

The set is never parsed as a whole: each record is cut out and parsed alone. So memory is bounded by one
record, every byte is accounted for, and a broken record costs itself and not those behind it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stages.compressed import CHUNK_BYTES, Stream

MAX_TOKEN_BYTES = 1 << 16  # of a tag, comment or DOCTYPE between records; real ones have a few hundred

Kind = Literal["citation", "book", "deletion", "framing", "broken", "rest", "other"]

_SETS = frozenset({b"PubmedArticleSet", b"PubmedBookArticleSet"})
_RECORDS: dict[bytes, Kind] = {b"PubmedArticle": "citation", b"PubmedBookArticle": "book"}
_TOKEN = re.compile(
    rb"\s+|\xef\xbb\xbf|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>|<(/?)([A-Za-z_:][\w:.-]*)([^<>]*)>",
    re.DOTALL,
)
_BEGINNING_OF_TOKEN = re.compile(rb"<(?:[!?].*|[^<>]*)\Z|\xef\xbb?\Z", re.DOTALL)
_DECLARATION = re.compile(rb"<\?xml\s.*\?>", re.DOTALL)

_RECORD = rb"PubmedArticle|PubmedBookArticle"
_AROUND = rb"PubmedArticleSet|PubmedBookArticleSet|DeleteCitation"
# In comments, CDATA and instructions a tag is text; `\Z` keeps unclosed ones linear.
_HIDDEN = rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
_EDGES = {
    name: re.compile(rb"%b|</?(?:%b)(?=[\s/>])" % (_HIDDEN, b"|".join([name, _RECORD, _AROUND])), re.DOTALL)
    for name in (*_RECORDS, b"PMID")
}
# Where reading can go on behind damage. In deletions also at a PMID, but not at that of a citation.
_RESUME = re.compile(rb"<(?:%b|/?(?:%b))(?=[\s/>])" % (_RECORD, _AROUND))
_RESUME_IN_DELETIONS = re.compile(rb"<(?:PMID|MedlineCitation|%b|/?(?:%b))(?=[\s/>])" % (_RECORD, _AROUND))
_LONGEST_EDGE = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of the content. Pieces follow each other without gaps.

    `broken` begins a record that cannot be used, `other` an input that is no set of citations, and
    `rest` is what follows of either (`reason` is then that of the record). Each piece that is neither
    framing nor rest stands for one record.
    """

    kind: Kind
    position: int  # of its first byte in the content
    length: int
    data: bytes = b""  # of a citation or deletion
    reason: str = ""  # of a broken record
    detail: str = ""


class Cutter:
    """Cuts the content of one input into pieces; holds one record and one chunk."""

    def __init__(self, stream: Stream, max_record_bytes: int) -> None:
        self._stream = stream
        self._max_record_bytes = max_record_bytes
        self._held = b""
        self._at = 0  # in what is held
        self._base = 0  # position in the content of what is held
        self._ended = False
        self._declaration = b""  # where it states another encoding than UTF-8
        self._root = self._root_name = b""
        self._is_open = False  # between the tags of a set
        self._in_deletions = False
        self._resume: re.Pattern[bytes] | None = None  # what is sought, behind damage
        self._is_set = True
        self._reason = ""  # of the last broken record

    def in_context(self, record: bytes) -> bytes:
        """A record as a document: in its file's root, for the namespaces, behind its file's declared encoding."""
        return b"%b%b%b</%b>" % (self._declaration, self._root, record, self._root_name)

    def pieces(self) -> Iterator[Piece]:
        """All content, in order. An input that is cut or damaged ends with a broken record."""
        while not self._ended:
            self._hold_more()
            while piece := self._next():
                yield piece
        left = len(self._held) - self._at
        is_cut = self._is_set and (left > 0 or self._is_open or not self._root)
        if self._stream.damage or is_cut:
            yield self._broken(left, self._stream.damage or "truncated")

    def _hold_more(self) -> None:
        """Hold at least twice as much, so that looking again at what is held stays linear."""
        parts = [self._held[self._at :]]
        self._base += self._at
        self._at = num_read = 0
        wanted = max(CHUNK_BYTES, len(parts[0]))
        while num_read < wanted and (chunk := self._stream.read()):
            parts.append(chunk)
            num_read += len(chunk)
        self._held = b"".join(parts)
        self._ended = num_read < wanted

    def _piece(self, kind: Kind, length: int, reason: str = "", detail: str = "") -> Piece:
        start, self._at = self._at, self._at + length
        data = self._held[start : self._at] if kind in ("citation", "deletion") else b""
        return Piece(kind, self._base + start, length, data, reason, detail)

    def _broken(self, length: int, reason: str, detail: str = "") -> Piece:
        self._reason = reason
        return self._piece("broken", length, reason, detail)

    # --- between records ------------------------------------------------------------------------

    def _next(self) -> Piece | None:
        """The piece at the position; None where more must be held to tell."""
        left = len(self._held) - self._at
        if left == 0:
            return None
        if not self._is_set:
            return self._piece("rest", left, self._reason)
        if self._resume:
            return self._seek(self._resume)
        token = _TOKEN.match(self._held, self._at, self._at + MAX_TOKEN_BYTES)
        if token is None:
            may_begin = left < MAX_TOKEN_BYTES and _BEGINNING_OF_TOKEN.match(self._held, self._at)
            return None if may_begin else self._stray()
        if token[2] is not None:
            return self._tag(token[2], token[3], token[1] == b"/", len(token[0]))
        if not self._root and b"<!ENTITY" in token[0]:
            return self._refuse("unsafe_xml", "declares entities")
        if not self._root and _DECLARATION.fullmatch(token[0]) and b"utf-8" not in token[0].lower():
            self._declaration = token[0]
        return self._piece("framing", len(token[0]))

    def _tag(self, name: bytes, attributes: bytes, is_end: bool, length: int) -> Piece | None:
        """What a tag between records begins or ends."""
        is_empty = attributes.endswith(b"/")
        is_start = not (is_end or is_empty)
        if name in _SETS:
            self._open_set(name, attributes, is_start)
            return self._piece("framing", length)
        if not self._root:
            return self._stray() if is_end else self._refuse()
        if name == b"DeleteCitation" and self._is_open:
            self._in_deletions = is_start
            return self._piece("framing", length)
        kind = "deletion" if name == b"PMID" and self._in_deletions else _RECORDS.get(name)
        if kind and self._is_open and not is_end:
            self._in_deletions = kind == "deletion"
            return self._record(name, kind, length) if is_start else self._piece(kind, length)
        self._in_deletions = False
        return self._stray()

    def _open_set(self, name: bytes, attributes: bytes, is_start: bool) -> None:
        if not self._root:
            self._root, self._root_name = b"<%b%b>" % (name, attributes.removesuffix(b"/")), name
        self._is_open, self._in_deletions = is_start, False

    # --- damage ---------------------------------------------------------------------------------

    def _refuse(self, reason: str = "", detail: str = "") -> Piece:
        """The whole input is one record: broken, or of another kind where there is no reason."""
        self._is_set = False
        return self._broken(1, reason, detail) if reason else self._piece("other", 1)

    def _stray(self) -> Piece:
        """Bytes that belong to no record."""
        if not self._root:
            return self._refuse("bad_xml", "does not begin with an element")
        return self._broken_off(1, "bad_xml", "bytes outside of any record")

    def _broken_off(self, length: int, reason: str, detail: str) -> Piece:
        """A broken record of unknown end: it lasts to where another one can begin, behind its first bytes."""
        self._resume = _RESUME_IN_DELETIONS if self._in_deletions else _RESUME
        return self._broken(length, reason, detail)

    def _seek(self, resume: re.Pattern[bytes]) -> Piece | None:
        """What is left of a broken record."""
        found = resume.search(self._held, self._at)
        if found is not None:
            self._resume = None
            return self._piece("rest", found.start() - self._at, self._reason)
        unseen = 0 if self._ended else _LONGEST_EDGE  # an edge may have begun there
        length = len(self._held) - self._at - unseen
        return self._piece("rest", length, self._reason) if length > 0 else None

    # --- records --------------------------------------------------------------------------------

    def _record(self, name: bytes, kind: Kind, length_of_tag: int) -> Piece | None:
        """The record that begins at the position; broken where its end tag is not the next edge."""
        stop, is_whole = self._end_of_record(name, self._at + length_of_tag)
        length = (len(self._held) if stop is None else stop) - self._at
        # However the content comes in chunks, an edge this far is seen before the record is given up.
        slack = 0 if is_whole else _LONGEST_EDGE if stop is not None else 2 * _LONGEST_EDGE
        if length > self._max_record_bytes + slack:
            detail = f"more than {self._max_record_bytes} bytes"
            return self._broken_off(max(1, self._max_record_bytes), "too_large", detail)
        if stop is None:
            return None
        if not is_whole:
            return self._broken(length, "bad_xml", f"no </{name.decode()}> before the next record")
        return self._piece(kind, length)

    def _end_of_record(self, name: bytes, start: int) -> tuple[int | None, bool]:
        """The end of the record whose start tag ends at `start`, and whether it is its own end tag."""
        end_tag = b"</%b>" % name
        following = self._held.find(b"<" + name, start)  # bounds the search for the end, so that all of it is linear
        stop = self._held.find(end_tag, start, None if following < 0 else following)
        # No real record was seen that holds one of these; then the search with care is not needed.
        if stop >= 0 and not any(self._held.find(sign, start, stop) >= 0 for sign in (b"<!", b"<?")):
            return stop + len(end_tag), True
        for edge in _EDGES[name].finditer(self._held, start):
            if edge[0].startswith((b"<!", b"<?")):
                continue
            if edge[0] != end_tag[:-1]:
                return edge.start(), False
            close = self._held.find(b">", edge.end())
            return (close + 1, True) if close >= 0 else (None, False)
        return None, False
