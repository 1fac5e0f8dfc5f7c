"""Streaming decompression: whole content or a named damage, never silence, in bounded steps."""

import gzip
import random
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.storage import open_storage
from stages.compressed import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    FIRST_BLOCK_BYTES,
    FREE_BYTES,
    Memory,
    StoredBytes,
    Stream,
    open_stream,
)

LINES = b"rec1\nrec2\n"
NOISE = random.Random(1).randbytes(300_000)


def zstd(data: bytes, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(data)


def skippable(data: bytes) -> bytes:
    return b"\x53\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


def read_all(stream: Stream, size: int = CHUNK_BYTES) -> bytes:
    parts = []
    while part := stream.read(size):
        assert len(part) <= size
        parts.append(part)
    assert stream.content_position == sum(map(len, parts))
    assert stream.read(size) == b""
    return b"".join(parts)


def outcome(data: bytes, key: str) -> tuple[bytes, str | None, int]:
    stream = open_stream(Memory(data), key)
    return read_all(stream), stream.damage, stream.undecoded_bytes


WHOLE = {
    "one member": ("a.gz", gzip.compress(LINES)),
    "two members": ("a.gz", gzip.compress(b"rec1\n") + gzip.compress(b"rec2\n")),
    "two members and padding": ("a.GZ", gzip.compress(b"rec1\n") + gzip.compress(b"rec2\n") + b"\0" * 4),
    "padding between members": ("a.tgz", gzip.compress(b"rec1\n") + b"\0" * 70_000 + gzip.compress(b"rec2\n")),
    "an empty member": ("a.gz", gzip.compress(b"") + gzip.compress(LINES)),
    "two frames": ("a.zst", zstd(b"rec1\n") + zstd(b"rec2\n", checksum=True)),
    "a skippable frame between": ("a.zst", zstd(b"rec1\n") + skippable(b"index" * 50_000) + zstd(b"rec2\n")),
    "an empty frame": ("a.zst", zstd(b"") + zstd(LINES)),
    "plain": ("a.jsonl", LINES),
}


@pytest.mark.parametrize("name", WHOLE)
def test_all_members_and_frames_are_read(name: str) -> None:
    key, data = WHOLE[name]
    assert outcome(data, key) == (LINES, None, 0)
    assert read_all(open_stream(Memory(data), key), size=1) == LINES


def test_a_frame_a_line_gives_all_lines() -> None:
    assert outcome(b"".join(zstd(b"line\n") for _ in range(100)), "a.zst") == (b"line\n" * 100, None, 0)


def test_a_frame_that_was_streamed_states_no_size() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress(NOISE) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + compressor.flush()
    assert zstandard.frame_content_size(data) == -1
    assert outcome(data, "a.zst") == (NOISE, None, 0)


DAMAGED = {
    "gzip without its trailer": ("a.gz", gzip.compress(b"a" * 1000)[:-6], b"a" * 1000, "truncated", 0),
    "gzip cut in its header": ("a.gz", gzip.compress(LINES)[:5], b"", "truncated", 0),
    "gzip with a wrong checksum": ("a.gz", gzip.compress(LINES)[:-8] + b"\0" * 8, b"", "corrupt", 30),
    "no gzip at all": ("a.gz", b"plain text", b"", "corrupt", 10),
    "garbage behind gzip": ("a.gz", gzip.compress(LINES) + b"garbage", LINES, "garbage", 7),
    "zstd without its last byte": ("a.zst", zstd(LINES)[:-1], b"", "truncated", 18),
    "zstd cut in its checksum": ("a.zst", zstd(LINES, checksum=True)[:-1], b"", "truncated", 22),
    "zstd cut in its magic number": ("a.zst", zstd(LINES)[:3], b"", "truncated", 3),
    "zstd cut in a skippable frame": ("a.zst", zstd(LINES) + skippable(b"index")[:-1], LINES, "truncated", 12),
    "zstd with a wrong checksum": ("a.zst", zstd(LINES, checksum=True)[:-4] + b"\0" * 4, b"", "corrupt", 23),
    "no zstd at all": ("a.zst", b"plain text that is longer than a header", b"", "corrupt", 39),
    "garbage behind zstd": ("a.zst", zstd(LINES) + b"garbage", LINES, "garbage", 7),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_and_its_bytes_are_counted(name: str) -> None:
    key, data, content, damage, undecoded = DAMAGED[name]
    assert outcome(data, key) == (content, damage, undecoded)


def test_an_empty_input_is_complete() -> None:
    assert [outcome(b"", key) for key in ("a", "a.gz", "a.zst")] == [(b"", None, 0)] * 3


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["a.gz", "a.zst"]), st.integers(1, 400_000), st.data())
def test_what_is_cut_gives_a_beginning_of_the_content(key: str, size: int, data: st.DataObject) -> None:
    content = (NOISE * 2)[:size]
    stored = gzip.compress(content, 1) if key == "a.gz" else zstd(content)
    got, damage, undecoded = outcome(stored[: data.draw(st.integers(1, len(stored) - 1))], key)
    assert damage == "truncated"
    assert content.startswith(got)
    assert undecoded >= 0


@pytest.mark.parametrize("key", ["a.gz", "a.zst"])
def test_a_bomb_is_stopped_at_its_bound(key: str) -> None:
    zeros = bytes(FREE_BYTES + (8 << 20))
    bomb = gzip.compress(zeros, 1) if key == "a.gz" else zstd(zeros)
    stream = open_stream(Memory(bomb), key, max_ratio=100)
    longest = total = 0
    while part := stream.read(1 << 30):
        longest, total = max(longest, len(part)), total + len(part)
    assert stream.damage == "bomb"
    assert total <= FREE_BYTES
    assert longest <= CHUNK_BYTES


def test_the_total_is_bounded_from_both_sides() -> None:
    data = gzip.compress(LINES)
    for max_bytes, damage in ((len(LINES), None), (len(LINES) - 1, "bomb")):
        stream = open_stream(Memory(data), "a.gz", max_bytes=max_bytes)
        read_all(stream)
        assert stream.damage == damage


def test_a_frame_that_wants_a_window_of_two_gib_is_refused() -> None:
    # Magic number, a header with no single segment, window descriptor 21 << 3: 2 GiB; one empty last block.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 21 << 3]) + b"\x01\x00\x00"
    assert zstandard.get_frame_parameters(frame).window_size == 2 << 30
    assert outcome(frame, "a.zst") == (b"", "bomb", len(frame))


class CountedMemory(Memory):
    """Notes the length of each request."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.lengths: list[int] = []

    def read_range(self, offset: int, length: int) -> bytes:
        self.lengths.append(length)
        return super().read_range(offset, length)


def test_reading_asks_storage_for_little_at_first_and_then_for_blocks() -> None:
    file = CountedMemory(NOISE * 50)
    assert b"".join(StoredBytes(file, 5).pieces()) == (NOISE * 50)[5:]
    assert file.lengths[0] == FIRST_BLOCK_BYTES
    assert file.lengths == sorted(file.lengths)
    assert file.lengths[-1] == BLOCK_BYTES
    assert len(file.lengths) < 12


def test_a_stored_file_is_read_through_storage(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(NOISE))
    with open_storage(str(tmp_path)).open("a.gz") as file:
        assert read_all(open_stream(file, "a.gz")) == NOISE


@given(st.lists(st.tuples(st.sampled_from(["take", "peek", "run", "move", "back"]), st.integers(0, 50)), max_size=20))
def test_stored_bytes_move_as_a_position_does(steps: list[tuple[str, int]]) -> None:
    data = bytes(range(1, 100)) + bytes(30) + bytes(range(1, 50))
    stored, position = StoredBytes(Memory(data)), 0
    for step, length in steps:
        if step == "take":
            assert stored.take(length) == data[position : position + length]
            position = min(position + length, len(data))
        elif step == "peek":
            assert stored.peek(length) == data[position : position + length]
        elif step == "run":
            rest = data[position:]
            assert stored.skip_run(b"\0") == len(rest) - len(rest.lstrip(b"\0"))
            position = stored.position
        elif step == "move":
            position = length
            stored.move(position)
        else:
            stored.give_back(len(stored.take(length)))
        assert stored.position == position
