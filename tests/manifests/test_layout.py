"""Byte layouts: by hand, there and back, and digests that see every value and nothing else."""

import hashlib
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.core.hashing import canonical_json
from manifests import layout
from stages.pack import Concat


def test_names_hold_number_and_digest() -> None:
    assert layout.shard_name("rows", 7, "ab" * 32) == "rows-00007." + "ab" * 32
    assert layout.ledger_name(123456, "cd") == "part-123456.cd.parquet"


def test_tokens_are_as_wide_as_the_vocabulary_asks() -> None:
    assert [layout.token_dtype(size) for size in (1, 65_535, 65_536, 65_537)] == ["<u2", "<u2", "<u2", "<u4"]


def test_rows_are_headerless_little_endian_tokens() -> None:
    rows = np.array([[1, 258], [65_535, 0]], dtype=">i8")
    assert layout.encode_rows(rows, "<u2") == bytes([1, 0, 2, 1, 255, 255, 0, 0])
    assert layout.encode_rows(rows[:1], "<u4") == bytes([1, 0, 0, 0, 2, 1, 0, 0])
    assert layout.decode_rows(layout.encode_rows(rows, "<u2"), "<u2", 2).tolist() == rows.tolist()
    assert layout.decode_rows(b"", "<u2", 4).shape == (0, 4)


def test_rows_never_wrap_and_are_never_cut() -> None:
    for wrong in (65_536, -1):
        with pytest.raises(ValueError, match="do not fit <u2"):
            layout.encode_rows(np.array([[0, wrong]]), "<u2")
    with pytest.raises(ValueError, match="9 bytes are not whole rows of 8 bytes"):
        layout.decode_rows(bytes(9), "<u2", 4)


def test_decoded_rows_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        layout.decode_rows(bytes(8), "<u2", 4)[0, 0] = 1


def test_piece_starts_by_hand() -> None:
    data = layout.encode_cu(np.array([0, 0, 1, 2]), np.array([0, 5, 0, 0]), 3, 4096)
    assert data == b"".join(n.to_bytes(4, "little") for n in (0, 2, 3, 4)) + bytes([0, 0, 5, 0, 0, 0, 0, 0])
    row_ptr, starts = layout.decode_cu(data, 3, 4096)
    assert (row_ptr.tolist(), starts.tolist()) == ([0, 2, 3, 4], [0, 5, 0, 0])


@pytest.mark.parametrize(("row_length", "width"), [(65_536, 2), (65_537, 4)])
def test_starts_are_as_wide_as_the_row_asks(row_length: int, width: int) -> None:
    last = row_length - 1
    data = layout.encode_cu(np.array([0, 0]), np.array([0, last]), 1, row_length)
    assert len(data) == 8 + 2 * width
    assert layout.decode_cu(data, 1, row_length)[1].tolist() == [0, last]


@pytest.mark.parametrize(
    ("data", "num_rows"),
    [
        *((bytes(size), num_rows) for size, num_rows in ((0, 0), (4, 1), (4, -1), (9, 1), (6, 0))),
        (b"\1\0\0\0" + bytes(6), 0),
        (b"\0\0\0\0\2\0\0\0\1\0\0\0" + bytes(2), 2),
    ],
)
def test_piece_starts_of_a_wrong_size_are_refused(data: bytes, num_rows: int) -> None:
    with pytest.raises(ValueError, match=r"bytes|row_ptr"):
        layout.decode_cu(data, num_rows, 16)


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 16))
def test_piece_starts_come_back_for_every_packing(lengths: list[int], row_length: int) -> None:
    packed = Concat().pack(np.array(lengths, dtype=np.int64), row_length)
    data = layout.encode_cu(packed.row, packed.start, packed.num_rows, row_length)
    row_ptr, starts = layout.decode_cu(data, packed.num_rows, row_length)
    for row in range(packed.num_rows):
        assert starts[row_ptr[row] : row_ptr[row + 1]].tolist() == packed.start[packed.row == row].tolist()


def test_parquet_comes_back_and_damage_is_one_line() -> None:
    table = pa.table({"id": pa.array([b"a" * 16, None], pa.binary(16)), "n": [1, 2]})
    data = layout.encode_parquet(table)
    assert layout.encode_parquet(table) == data
    assert layout.decode_parquet(data).equals(table)
    assert layout.decode_parquet(data, ["n"]).schema.names == ["n"]
    for wrong in (b"", b"PAR1", data[:-1], data[:20] + bytes(20) + data[40:]):
        with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
            layout.decode_parquet(wrong)


def test_strings_that_are_not_utf8_are_refused() -> None:
    # apache/arrow#29635: read without complaint unless somebody looks
    wrong = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(bytes(4) + b"\5\0\0\0"), pa.py_buffer(b"he\xfflo")]
    )
    data = layout.encode_parquet(pa.table({"name": wrong}))
    with pytest.raises(ValueError, match="UTF8"):
        layout.decode_parquet(data)


def test_ids_compare_as_bytes_and_keep_their_zeros() -> None:
    ids = [bytes(15) + b"\1", b"\1" + bytes(15), b"\xff" * 16]
    column = pa.chunked_array([pa.array([b"x" * 16, *ids], pa.binary(16)).slice(1)])
    array = layout.id_array(column)
    assert [bytes(value).ljust(16, b"\0") for value in array] == ids
    assert (np.sort(array) == array).all()
    assert layout.id_array(pa.chunked_array([], pa.binary(16))).size == 0
    assert layout.id_array(pa.chunked_array([pa.array([None], pa.binary(16))])).tolist() == [b""]


def test_split_digest_by_the_letter() -> None:
    tables = [b"\1" * 32, b"\2" * 32]
    expected = [{"kind": "rows"}, "t", ["a", "b"], hashlib.sha256(b"".join(tables)).hexdigest()]
    found = layout.split_digest({"kind": "rows"}, "t", ["a", "b"], tables)
    assert found == hashlib.sha256(canonical_json(expected)).hexdigest()
    assert found != layout.split_digest({"kind": "rows"}, "t", ["b", "a"], tables)
    assert found != layout.split_digest({"kind": "rows"}, "t", ["a", "b"], tables[::-1])


LINE = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(0, 2**32 - 1),
        "share": st.none() | st.floats(allow_nan=False),
        "name": st.none() | st.text(max_size=5),
        "id": st.none() | st.binary(min_size=4, max_size=4),
        "origin": st.none() | st.fixed_dictionaries({"key": st.none() | st.text(max_size=3), "at": st.integers(0, 9)}),
    }
)
ORIGIN = pa.struct([("key", pa.string()), ("at", pa.int64())])
SCHEMA = pa.schema(
    [("number", pa.uint32()), ("share", pa.float64()), ("name", pa.string()), ("id", pa.binary(4)), ("origin", ORIGIN)]
)


@given(st.lists(LINE, min_size=1, max_size=12), st.lists(st.integers(0, 12), max_size=3))
def test_logical_digest_sees_no_chunks_slices_or_dictionaries(lines: list[dict[str, object]], cuts: list[int]) -> None:
    table = pa.Table.from_pylist(lines, SCHEMA)
    expected = layout.logical_digest(table)
    bounds = [0, *sorted(min(cut, len(lines)) for cut in cuts), len(lines)]
    chunks = [table.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    assert layout.logical_digest(pa.concat_tables(chunks)) == expected
    assert layout.logical_digest(pa.concat_tables([table, table]).combine_chunks().slice(len(lines))) == expected
    coded = table.set_column(2, "name", table.column("name").dictionary_encode())
    assert layout.logical_digest(coded) == expected
    assert layout.logical_digest(table.set_column(2, "name", table.column("name").cast(pa.large_string()))) == expected
    assert layout.logical_digest(layout.decode_parquet(layout.encode_parquet(table))) == expected


@given(st.lists(LINE, min_size=1, max_size=6), st.lists(LINE, min_size=1, max_size=6))
def test_logical_digest_tells_tables_apart(one: list[dict[str, object]], other: list[dict[str, object]]) -> None:
    tables = [pa.Table.from_pylist(lines, SCHEMA) for lines in (one, other)]
    same = repr(tables[0].to_pylist()) == repr(tables[1].to_pylist())  # repr: 0.0 is not -0.0
    assert (layout.logical_digest(tables[0]) == layout.logical_digest(tables[1])) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["a", None]), pa.array(["a", ""])),
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
        (pa.array([0, None], pa.int64()), pa.array([0, 0], pa.int64())),
        (pa.array([1], pa.int32()), pa.array([1], pa.uint32())),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
        (pa.array(["a"]), pa.array([b"a"])),
        (pa.array([None], ORIGIN), pa.array([{"key": None, "at": None}], ORIGIN)),
        (pa.array([True, False]), pa.array([False, True])),
    ],
)
def test_logical_digest_sees_nulls_types_and_borders(one: pa.Array, other: pa.Array) -> None:
    assert layout.logical_digest(pa.table({"c": one})) != layout.logical_digest(pa.table({"c": other}))
    assert layout.logical_digest(pa.table({"c": one})) != layout.logical_digest(pa.table({"d": one}))


def test_logical_digest_ignores_what_lies_behind_a_null() -> None:
    validity = pa.py_buffer(b"\1")
    hidden = pa.Array.from_buffers(pa.int64(), 2, [validity, pa.py_buffer(np.array([1, 99]).tobytes())])
    assert layout.logical_digest(pa.table({"c": hidden})) == layout.logical_digest(pa.table({"c": pa.array([1, None])}))


def test_logical_digest_of_a_fixed_table_is_pinned() -> None:
    table = pa.Table.from_pylist([{"number": 1, "name": "x", "origin": {"key": "k", "at": 2}}, {"id": b"abcd"}], SCHEMA)
    assert layout.logical_digest(table).hex() == "2fdf54b3ff91645742c2c6cb8e999ca967f3cbc9e62ea7b4c429e4b3b3f7cd29"


def test_logical_digest_refuses_types_it_does_not_define() -> None:
    with pytest.raises(TypeError, match="decimal"):
        layout.logical_digest(pa.table({"c": pa.array([1], pa.decimal128(5))}))
