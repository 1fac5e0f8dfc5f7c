"""Where WARC records begin and end: a window that moves over content, and the frame at its position.

A frame depends on the content from its first byte on and on nothing else, so that reading may begin
anywhere and go on as reading from byte 0 would.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from stages.compressed import Damage
from stages.http import HEAD_END, parse_headers

MAX_HEADER_BYTES = 1 << 16  # of one record, blank line included
RECORD_END = b"\r\n\r\n"
_TAIL_BYTES = len(RECORD_END) + len(b"WARC/")
_VERSION = re.compile(rb"(?i:WARC)/\d{1,3}\.\d{1,3}[ \t]{0,8}\r?\n")
# A version line at the beginning of a line, with a field behind it.
_ENTRY = re.compile(rb"\n(?i:WARC)/\d{1,3}\.\d{1,3}[ \t]{0,8}\r?\n[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}:")
_ENTRY_BYTES = 128  # more than the longest match


class Window:
    """Content from `position` on, read ahead only as far as is looked at.

    `size` is known where content is the stored bytes. Once the content has ended, `damage` says why
    it ended early, or is None.
    """

    def __init__(self, chunks: Iterator[bytes], position: int = 0, size: int | None = None) -> None:
        self._chunks = chunks
        self._buffer = bytearray()
        self.position = position
        self.size = size
        self.damage: str | None = None

    def _fill(self) -> bool:
        try:
            chunk = next(self._chunks, b"")
        except Damage as damage:
            self.damage = damage.kind
            return False
        self._buffer += chunk
        return bool(chunk)

    def reach(self, length: int) -> int:
        """Bytes at hand once `length` of them were asked for: fewer only at the end."""
        while len(self._buffer) < length and self._fill():
            pass
        return min(length, len(self._buffer))

    def peek(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop) from the position on, fewer only at the end."""
        self.reach(stop)
        return bytes(memoryview(self._buffer)[start:stop])

    def skip(self, length: int) -> int:
        """Move on by `length` bytes, held or not; returns the bytes moved, fewer only at the end."""
        moved = 0
        while moved < length and self.reach(1):
            step = min(length - moved, len(self._buffer))
            del self._buffer[:step]
            moved += step
        self.position += moved
        return moved

    def skip_newlines(self) -> int:
        """Move over a run of CR and LF; returns its length."""
        moved = 0
        while self.reach(1) and self._buffer[0] in b"\r\n":
            moved += self.skip(len(self._buffer) - len(self._buffer.lstrip(b"\r\n")))
        return moved

    def find_head_end(self) -> int | None:
        """The length of the header at the position, blank line included."""
        for length in (MAX_HEADER_BYTES >> 4, MAX_HEADER_BYTES):
            self.reach(length)
            if end := HEAD_END.search(self._buffer, 0, MAX_HEADER_BYTES):
                return end.end()
        return None

    def seek_record(self, before: int | None = None) -> bool:
        """Move to the first record that begins behind the position, and before `before`.

        Where there is none, moves to the end of the content, or about to `before`.
        """
        while True:
            if found := _ENTRY.search(self._buffer):
                self.skip(found.start() + 1)
                return before is None or self.position < before
            self.skip(max(0, len(self._buffer) - _ENTRY_BYTES))  # a match in what goes would have been found
            if before is not None and self.position + 1 >= before:
                return False
            if not self._fill():
                self.skip(len(self._buffer))
                return False


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The record at a window's position: its header fields, its extent, and what is wrong with it."""

    headers: dict[str, str] = field(default_factory=dict)
    header_bytes: int = 0
    block_bytes: int = 0
    fault: str | None = None

    @property
    def length(self) -> int:
        """Bytes of header and block."""
        return self.header_bytes + self.block_bytes


def read_frame(window: Window, max_record_bytes: int) -> Frame:
    """The frame of the record whose first bytes, `WARC/`, are at the position; moves nothing.

    `fault`: bad_version, bad_header, bad_content_length, truncated (or the window's damage),
    too_large (more than `max_record_bytes`; its end was not looked at), length_mismatch.
    """
    if not _VERSION.match(window.peek(0, _ENTRY_BYTES)):
        return Frame(fault=_ended(window, _ENTRY_BYTES) or "bad_version")
    header_bytes = window.find_head_end()
    if header_bytes is None:
        return Frame(fault=_ended(window, MAX_HEADER_BYTES) or "bad_header")
    head = window.peek(0, header_bytes)
    if _ENTRY.search(head):
        return Frame(fault="bad_header")
    headers = parse_headers(head[head.index(b"\n") + 1 :])
    stated = headers.get("content-length", "")
    if not (stated.isascii() and stated.isdigit() and len(stated) < 20):
        return Frame(headers=headers, fault="bad_content_length")
    frame = Frame(headers=headers, header_bytes=header_bytes, block_bytes=int(stated))
    return Frame(**{**vars(frame), "fault": _extent_fault(window, frame.length, max_record_bytes)})


def _ended(window: Window, length: int) -> str | None:
    """Why the content ended before `length` bytes, if it did."""
    return None if window.reach(length) == length else window.damage or "truncated"


def _extent_fault(window: Window, length: int, max_record_bytes: int) -> str | None:
    if window.size is not None and window.position + length > window.size:
        return "truncated"
    if length > max_record_bytes:
        return "too_large"
    have = window.reach(length + _TAIL_BYTES)
    if have < length or (have < length + _TAIL_BYTES and window.damage):
        return window.damage or "truncated"
    return None if ends_well(window, length) else "length_mismatch"


def ends_well(window: Window, length: int) -> bool:
    """Whether what follows `length` bytes may follow a record.

    That is: two line ends and anything; or fewer line ends and the next record, or the end.
    """
    tail = window.peek(length, length + _TAIL_BYTES)
    following = tail.lstrip(b"\r\n")[: len(b"WARC/")].upper()
    return tail.startswith(RECORD_END) or following in (b"WARC/", b"")
