"""Compressed inputs as one bounded stream of content: gzip of many members, zstd of many frames, plain.

Memory: one block of stored bytes, one chunk of content and the decoder's window. Damage is said and
never hidden: a stream that ends early gives what it holds, and then `damage` names the fault.
"""

import zlib
from collections.abc import Iterator
from typing import Protocol

import zstandard

FIRST_BLOCK_BYTES = 1 << 16  # stored bytes of the first request: a small slice reads little beyond itself
BLOCK_BYTES = 4 << 20  # and of later ones, each twice the last
PIECE_BYTES = 1 << 14  # stored bytes fed to zlib at once: what it leaves after a member is copied
CHUNK_BYTES = 1 << 20  # content that one step may give

MAX_RATIO = 1000  # deflate cannot exceed 1032; text seldom exceeds 20
FREE_BYTES = 64 << 20  # content that is not held against the ratio
MAX_CONTENT_BYTES = 1 << 42
# The limit of the zstd command itself (--long=27): the window is allocated as the frame declares it.
MAX_WINDOW_BYTES = 1 << 27

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = frozenset(bytes([low, 0x2A, 0x4D, 0x18]) for low in range(0x50, 0x60))
_LONGEST_FRAME_HEADER = 18
_RLE_BLOCK = 1


class Damage(Exception):  # noqa: N818 - it ends a stream; readers turn it into lost bytes
    """Why decompression ended early: `truncated`, `corrupt`, `garbage` (behind whole members) or `bomb`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Ranged(Protocol):
    """The part of `InputFile` that is needed here."""

    @property
    def size(self) -> int:
        """Bytes."""

    def read_range(self, offset: int, length: int) -> bytes:
        """The bytes [offset, offset + length), fewer only at the end."""


class Memory:
    """Bytes as an input."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        """The bytes [offset, offset + length)."""
        return self._data[offset : offset + length]


class StoredBytes:
    """The stored bytes of an input from `position` on, read ahead by one block.

    `sound`: everything before it has been decompressed, or lies before what is being decompressed.
    """

    def __init__(self, file: Ranged, position: int = 0) -> None:
        self._file = file
        self._block_bytes = FIRST_BLOCK_BYTES
        self._block = b""
        self._at = 0
        self.position = position
        self.sound = position

    @property
    def size(self) -> int:
        """Bytes of the whole input."""
        return self._file.size

    def peek(self, length: int) -> bytes:
        """The next bytes, at most `length`; fewer only at the end of the input."""
        have = len(self._block) - self._at
        if have < length and self.position + have < self.size:
            more = self._file.read_range(self.position + have, max(self._block_bytes, length - have))
            self._block_bytes = min(2 * self._block_bytes, BLOCK_BYTES)
            self._block, self._at = self._block[self._at :] + more, 0
        return self._block[self._at : self._at + length]

    def take(self, length: int) -> bytes:
        """As `peek`, and moves on."""
        data = self.peek(length)
        self._at += len(data)
        self.position += len(data)
        return data

    def pieces(self) -> Iterator[bytes]:
        """All bytes from the position on, a piece at a time; `sound` follows."""
        while piece := self.take(PIECE_BYTES):
            self.sound = self.position
            yield piece

    def take_all(self, length: int) -> bytes:
        """Exactly `length` bytes. Raises: Damage('truncated')."""
        data = self.take(length)
        if len(data) < length:
            raise Damage("truncated")
        return data

    def give_back(self, length: int) -> None:
        """Move back by `length` bytes of the last `take`."""
        self._at -= length
        self.position -= length

    def skip_run(self, values: bytes) -> int:
        """Move over a run of bytes that are all in `values`; returns its length."""
        start = self.position
        while self.peek(1) and self.peek(1) in values:
            piece = self.peek(PIECE_BYTES)
            self.take(len(piece) - len(piece.lstrip(values)))
        return self.position - start

    def move(self, position: int) -> None:
        """Go on from `position`, forward or back."""
        self._block, self._at = b"", 0
        self.position = position

    def skip(self, length: int) -> None:
        """Move on by `length` bytes without reading them. Raises: Damage('truncated')."""
        self.position += length
        self._at += length
        if self._at > len(self._block):
            self._block, self._at = b"", 0
        if self.position > self.size:
            self.position = self.size
            raise Damage("truncated")


def inflate_member(stored: StoredBytes) -> Iterator[bytes]:
    """The content of the gzip member at the position, in chunks; moves to the byte behind it.

    Raises: Damage('truncated') or Damage('corrupt').
    """
    member = zlib.decompressobj(wbits=31)
    stored.sound = stored.position
    while not member.eof:
        data = member.unconsumed_tail or stored.take(PIECE_BYTES)
        try:
            chunk = member.decompress(data, CHUNK_BYTES)
        except zlib.error:
            raise Damage("corrupt") from None
        stored.sound = stored.position - len(member.unconsumed_tail)
        if chunk:
            yield chunk
        elif not data and not member.eof:
            raise Damage("truncated")
    stored.give_back(len(member.unused_data))
    stored.sound = stored.position


def _gunzip(stored: StoredBytes) -> Iterator[bytes]:
    while head := stored.peek(1):
        if head == b"\0" and stored.position:
            stored.skip_run(head)  # padding to whole blocks
            stored.sound = stored.position
        elif stored.position and not GZIP_MAGIC.startswith(stored.peek(2)):
            raise Damage("garbage")
        else:
            yield from inflate_member(stored)


def _unzstd(stored: StoredBytes) -> Iterator[bytes]:
    decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    while magic := stored.peek(4):
        if magic in _SKIPPABLE:
            stored.skip(int.from_bytes(stored.take_all(8)[4:], "little"))
            stored.sound = stored.position
        elif stored.position and not ZSTD_MAGIC.startswith(magic):
            raise Damage("garbage")
        else:
            yield from _zstd_frame(stored, decoder)


def _zstd_frame(stored: StoredBytes, decoder: zstandard.ZstdDecompressor) -> Iterator[bytes]:
    """The content of one frame, block by block: 128 KiB a step at most, and a cut is noticed.

    (zstandard's own reader ends without an error where its input ends early, and its decompressor
    objects give all that a piece of input expands to, however much that is.)
    """
    header, frame = _frame_header(stored)
    if frame.window_size > MAX_WINDOW_BYTES:
        raise Damage("bomb")
    decode = decoder.decompressobj().decompress
    piece, last = stored.take(header), False
    try:
        decode(piece)
        while not last:
            block_header = stored.take_all(3)
            head = int.from_bytes(block_header, "little")
            last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
            checksum = 4 if last and frame.has_checksum else 0
            chunk = decode(block_header + stored.take_all((1 if kind == _RLE_BLOCK else size) + checksum))
            stored.sound = stored.position
            if chunk:
                yield chunk
    except zstandard.ZstdError:
        raise Damage("corrupt") from None


def _frame_header(stored: StoredBytes) -> tuple[int, zstandard.FrameParameters]:
    """Length and meaning of the frame header at the position."""
    header = stored.peek(_LONGEST_FRAME_HEADER)
    try:
        return zstandard.frame_header_size(header), zstandard.get_frame_parameters(header)
    except zstandard.ZstdError:
        cut = len(header) < _LONGEST_FRAME_HEADER and ZSTD_MAGIC.startswith(header[:4])
        raise Damage("truncated" if cut else "corrupt") from None


class Stream:
    """The content of an input, in order.

    `content_position`: content bytes given so far. Once `read` has returned no bytes: `damage` is
    None where the input was complete, else the kind of a `Damage`, and `undecoded_bytes` counts the
    stored bytes behind the damage, of which no content was given.
    """

    def __init__(self, stored: StoredBytes, chunks: Iterator[bytes], max_ratio: int, max_bytes: int) -> None:
        self._stored = stored
        self._chunks = chunks
        self._max_ratio = max_ratio
        self._max_bytes = max_bytes
        self._chunk = memoryview(b"")
        self._content_bytes = 0  # decompressed so far
        self.content_position = 0
        self.damage: str | None = None

    @property
    def undecoded_bytes(self) -> int:
        """Stored bytes behind the damage."""
        return self._stored.size - self._stored.sound if self.damage else 0

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Between 1 and `size` bytes of content, or none at the end."""
        if not self._chunk:
            self._chunk = memoryview(self._next_chunk())
        data, self._chunk = bytes(self._chunk[:size]), self._chunk[size:]
        self.content_position += len(data)
        return data

    def _next_chunk(self) -> bytes:
        if self.damage:
            return b""
        try:
            chunk = next(self._chunks, b"")
            self._content_bytes += len(chunk)
            self._check_size()
        except Damage as damage:
            self.damage = damage.kind
            return b""
        return chunk

    def _check_size(self) -> None:
        ratio_bytes = max(FREE_BYTES, self._max_ratio * self._stored.position)
        if self._content_bytes > min(ratio_bytes, self._max_bytes):
            raise Damage("bomb")


def open_stream(file: Ranged, key: str, *, max_ratio: int = MAX_RATIO, max_bytes: int = MAX_CONTENT_BYTES) -> Stream:
    """The content of `file`: decompressed where `key` ends in .gz, .tgz or .zst, else as stored.

    The name decides, not the first bytes, as `Reader.has_entry_points` knows the name alone: a .gz
    that holds no gzip is `corrupt`. An empty file is complete and empty.
    """
    stored = StoredBytes(file)
    name = key.lower()
    chunks = _gunzip(stored) if name.endswith((".gz", ".tgz")) else _unzstd(stored) if name.endswith(".zst") else None
    if chunks is None:
        return Stream(stored, stored.pieces(), 1, max(1, file.size))
    return Stream(stored, chunks, max_ratio, max_bytes)
