"""The members of a tar archive, read once from a stream, with every byte accounted for.

The standard library's reader takes a damaged header for the end of the archive, and hides where bytes
went; so only its header parser is used here.
"""

import tarfile
from collections.abc import Callable
from dataclasses import dataclass

BLOCK = tarfile.BLOCKSIZE
MAX_EXTENSION_BYTES = 1 << 20  # a long name or pax header; real ones have a few hundred
_LONG_NAME = tarfile.GNUTYPE_LONGNAME
_EXTENSIONS = (_LONG_NAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


class TarDamage(Exception):  # noqa: N818 - it ends an archive; readers turn it into lost bytes
    """Why the archive cannot be read further. `kind`: `truncated` or `corrupt`, as of `stages.compressed.Damage`."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class Member:
    """One entry of the archive: its data are the bytes [offset, offset + size) of the stream."""

    name: str
    offset: int
    size: int
    is_folder: bool


class Tar:
    """Walks an archive: `next_member`, then `read` or `skip` its data, and so on.

    `position`: bytes taken so far. `framing_bytes`: headers, padding and blocks of zeros among them.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read_some = read  # between 1 and n bytes, or none at the end of the stream
        self.position = 0
        self.framing_bytes = 0
        self._ended = False  # whether the last block was the mark of the end, which is zeros

    def next_member(self) -> Member | None:
        """The next entry, or None behind the mark of the end. Raises: TarDamage."""
        name = None
        while block := self._up_to(BLOCK):
            if not block.strip(b"\0"):  # between the archives of `cat a.tar b.tar`, and at the end
                self.framing_bytes += len(block)
                self._ended = True
                continue
            self._ended = False
            header = _parse(block)
            size = header.size if _has_data(header) else 0
            if header.type not in _EXTENSIONS:
                self.framing_bytes += BLOCK
                return Member(name=name or header.name, offset=self.position, size=size, is_folder=header.isdir())
            if size > MAX_EXTENSION_BYTES:
                raise TarDamage("corrupt", f"a header of {size} bytes")
            data = self._exactly(size)
            self._padding(size)
            self.framing_bytes += BLOCK + size
            name = _name_of(header, data) or name
        if not self._ended:
            raise TarDamage("truncated", "the stream ends without the archive's end mark")
        return None

    def read(self, member: Member) -> bytes:
        """The data of the member just given. Raises: TarDamage where the stream ends in it."""
        data = self._exactly(member.size)
        self._padding(member.size)
        return data

    def skip(self, member: Member) -> None:
        """Pass over the data of the member just given. Raises: TarDamage."""
        left = member.size
        while left:
            piece = self._read_some(min(left, 1 << 20))
            self.position += len(piece)
            left -= len(piece)
            if not piece:
                raise TarDamage("truncated", f"the stream ends in {member.name!r}")
        self._padding(member.size)

    def drain(self) -> None:
        """Take what is left of the stream."""
        while piece := self._read_some(1 << 20):
            self.position += len(piece)

    def _padding(self, size: int) -> None:
        """Pass over what fills the last block of data; a writer that was cut may have left it out."""
        self.framing_bytes += len(self._up_to(-size % BLOCK))

    def _exactly(self, size: int) -> bytes:
        data = self._up_to(size)
        if len(data) < size:
            raise TarDamage("truncated", f"the stream ends after {len(data)} of {size} bytes")
        return data

    def _up_to(self, size: int) -> bytes:
        pieces = []
        left = size
        while left and (piece := self._read_some(left)):
            pieces.append(piece)
            left -= len(piece)
        self.position += size - left
        return b"".join(pieces)


def _parse(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise TarDamage("truncated" if len(block) < BLOCK else "corrupt", str(error)) from None
    if header.size < 0 or header.type == tarfile.GNUTYPE_SPARSE:
        raise TarDamage("corrupt", f"{header.name!r} is sparse or of negative size")
    return header


def _has_data(header: tarfile.TarInfo) -> bool:
    """Links, folders and devices have none, whatever size their header states."""
    return header.isreg() or header.type not in tarfile.SUPPORTED_TYPES or header.type in _EXTENSIONS


def _name_of(header: tarfile.TarInfo, data: bytes) -> str | None:
    """The name that an extension gives to the entry behind it."""
    if header.type == _LONG_NAME:
        return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    for record in data.split(b"\n") if header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE) else ():
        key, is_pair, value = record.partition(b" ")[2].partition(b"=")
        if is_pair and key == b"path":
            return value.decode("utf-8", "surrogateescape")
    return None
