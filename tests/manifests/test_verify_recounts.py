"""Wrong values under right digests: what only a recount can find, each named by verify."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.manifests.builder import Json, Tiny, assert_found, record_id

Change = Callable[[Tiny], object]


def docs(shard: int, line: int, **values: Any) -> Change:
    """Change a line of a document table."""

    def change(tiny: Tiny) -> None:
        table = tiny.shards["train"][shard].docs
        lines = table.to_pylist()
        lines[line] |= values
        tiny.shards["train"][shard].docs = pa.Table.from_pylist(lines, schema=table.schema)

    return change


def ledger(name: str, with_fate: str, **values: Any) -> Change:
    """Change the line of the record of this name and fate, where it stands."""

    def change(tiny: Tiny) -> None:
        for i, table in enumerate(tiny.ledger):
            lines = table.to_pylist()
            for line in lines:
                if (line["name"], line["fate"]) == (name, with_fate):
                    line |= values
            tiny.ledger[i] = pa.Table.from_pylist(lines, schema=table.schema)

    return change


def names(change_lines: Callable[[list[Json]], list[Json]]) -> Change:
    def change(tiny: Tiny) -> None:
        tiny.names = pa.Table.from_pylist(change_lines(tiny.names.to_pylist()), schema=tiny.names.schema)

    return change


def token(shard: int, row: int, at: int, value: int) -> Change:
    def change(tiny: Tiny) -> None:
        tiny.shards["train"][shard].rows[row, at] = value

    return change


def stated(path: str, value: Any) -> Change:
    """State a number of the manifest as something else."""

    def change(tiny: Tiny) -> None:
        *keys, last = path.split("/")
        place: Any = tiny.manifest
        for key in keys:
            place = place[int(key) if isinstance(place, list) else key]
        place[last] = value(place[last]) if callable(value) else value

    return change


def more(number: int) -> int:
    return number + 1


def null_column(name: str) -> Change:
    def change(tiny: Tiny) -> None:
        table = tiny.shards["train"][1].docs
        nulls = pa.nulls(table.num_rows, table.schema.field(name).type)
        tiny.shards["train"][1].docs = table.set_column(table.schema.get_field_index(name), name, nulls)

    return change


def without_column(name: str) -> Change:
    def change(tiny: Tiny) -> None:
        tiny.shards["train"][1].docs = tiny.shards["train"][1].docs.drop_columns([name])

    return change


def swap_first_lines(tiny: Tiny) -> None:
    tiny.ledger[1] = tiny.ledger[1].take([1, 0, *range(2, tiny.ledger[1].num_rows)])


def drop_last_line(tiny: Tiny) -> None:
    tiny.ledger[0] = tiny.ledger[0].slice(0, tiny.ledger[0].num_rows - 1)


def repeat_kept_line(tiny: Tiny) -> None:
    fates = tiny.ledger[0].column("fate").to_pylist()
    at = fates.index("kept")
    tiny.ledger[0] = tiny.ledger[0].take(sorted([*range(len(fates)), at]))


def merge_two_starts(tiny: Tiny) -> None:
    tiny.shards["train"][0].cu = b"\0" * 4 * 9


def shift_cu(tiny: Tiny) -> None:
    shard = tiny.shards["train"][0]
    starts = shard.docs.column("start").to_numpy().astype("<u2")
    row_ptr = np.searchsorted(shard.docs.column("row").to_numpy(), np.arange(9)).astype("<u4")
    starts[2] += 1
    shard.cu = row_ptr.tobytes() + starts.tobytes()


def drop_piece(tiny: Tiny) -> None:
    shard = tiny.shards["train"][0]
    shard.docs = shard.docs.slice(1)


def add_row(tiny: Tiny) -> None:
    shard = tiny.shards["train"][2]
    shard.rows = np.concatenate([shard.rows, shard.rows[:1]])


def drop_row(tiny: Tiny) -> None:
    shard = tiny.shards["train"][2]
    shard.rows = shard.rows[:-1]


def swap_rows(tiny: Tiny) -> None:
    shard = tiny.shards["train"][0]
    shard.rows = shard.rows[[1, 0, *range(2, len(shard.rows))]]


TRAIN = "splits/train"
SHARD = f"{TRAIN}/shards/0"

RECOUNTED: dict[str, tuple[Change, str]] = {
    "an id beyond the vocabulary": (token(0, 2, 3, 500), r"rows-00000\S+: ids: expected all below 500, found 500"),
    "a control id in the text": (
        token(0, 2, 3, 1),
        r"rows-00000\S+: BOS ids against documents that begin: expected 6, found 7",
    ),
    "BOS gone": (token(0, 0, 0, 9), r"BOS of documents: row 0, token 0: expected 1, found 9"),
    "EOS gone": (token(0, 0, 4, 9), r"EOS of documents: row 0, token 4: expected 2, found 9"),
    "another largest id": (stated(f"{SHARD}/max_id", more), r"rows-00000\S+: max_id: expected \d+, found \d+"),
    "two rows swapped": (swap_rows, r"BOS of documents: row 0"),
    "an extra row": (add_row, r"docs-00002\S+: rows that have pieces: expected 8, found 7"),
    "a row lost": (drop_row, r"docs-00002\S+: rows that have pieces: expected 6, found 7"),
    "a piece lost": (drop_piece, r"docs-00000\S+: pieces: row 0: expected one at token 0, found one at 5"),
    "a piece moved": (docs(0, 1, start=6), r"docs-00000\S+: pieces: row 0: expected one at token 5, found one at 6"),
    "a piece too short": (
        docs(0, 2, length=15),
        r"docs-00000\S+: end of a row: row 1: expected pieces up to token 16, found up to 15",
    ),
    "a piece without tokens": (docs(0, 0, length=0), r"length of a piece: row 0: expected 1 or more, found 0"),
    "a piece of another row": (docs(0, 2, row=2), r"docs-00000\S+: "),
    "a piece beyond its document": (
        docs(0, 2, document_tokens=26),
        r"end of a piece: row 1: expected within 26 tokens, found up to 27",
    ),
    "an offset in the document": (
        docs(0, 2, token_offset=12),
        r"docs: pieces of a document: [0-9a-f]{32}: expected one at its token 11, found 12",
    ),
    "a length of the document": (
        docs(0, 2, document_tokens=41),
        r"docs: document_tokens of a document: [0-9a-f]{32}: expected 40, found 41",
    ),
    "two groups in a row": (
        docs(0, 1, group="general"),
        r"group of a row: row 0: expected 'all' alone, found 'general' too",
    ),
    "the source of a piece": (docs(0, 1, source="articles"), r"tokens_by_source.articles: expected \d+, found \d+"),
    "the license of a piece": (docs(0, 1, license=None), r"tokens_by_license.unknown: expected \d+, found \d+"),
    "the id of a document": (
        docs(0, 0, id=bytes(16)),
        r"documents in rows: 00000000000000000000000000000000 in train row 0: expected kept, found no such record",
    ),
    "a document that nobody has": (
        docs(0, 0, id=bytes(16)),
        rf"docs: kept records: {record_id('train 0').hex()}: expected in train row 0 by the ledger, found nowhere",
    ),
    "an id that is null": (null_column("id"), r"docs-00001\S+: columns with nulls: expected \[\], found \['id'\]"),
    "a column that is missing": (
        without_column("license"),
        r"docs-00001\S+: column license: expected string, found none",
    ),
    "piece starts of another table": (shift_cu, r"cu-00000\S+: piece starts: piece 2: expected 0 by docs, found 1"),
    "piece starts without pieces": (merge_two_starts, r"cu-00000\S+: pieces: expected \d+, found 0"),
    "a name lost from the index": (
        names(lambda lines: [line for line in lines if line["id"] != record_id("broken")]),
        rf"names: names of records: expected the name of {record_id('broken').hex()}, found none",
    ),
    "a name of nobody": (
        names(lambda lines: [*lines, {"key": (1 << 64) - 1, "id": record_id("nobody")}]),
        rf"names: ids: expected a record {record_id('nobody').hex()}, found none",
    ),
    "names out of order": (
        names(lambda lines: [*lines[1:], lines[0]]),
        r"ledger/names-00000\S+: order by \(key, id\): expected [0-9a-f]{16} or later",
    ),
    "a name twice": (names(lambda lines: [lines[0], *lines]), r"ledger/names-00000\S+: order by \(key, id\)"),
    "a ledger line lost": (drop_last_line, r"ledger/part-00000\S+: rows: expected 7, found 6"),
    "ledger out of order": (
        swap_first_lines,
        r"ledger/part-00001\S+: order by \(id, fate\): expected [0-9a-f]{32} or later",
    ),
    "a record kept twice": (repeat_kept_line, r"ledger: kept twice: [0-9a-f]{32}: expected once, found again"),
    "an unknown fate": (
        ledger("none", "dropped", fate="vanished"),
        r"ledger/part-\S+: fate: [0-9a-f]{32}: expected one of .*, found vanished",
    ),
    "a drop without reason": (
        ledger("none", "dropped", reason=None),
        r"ledger/part-\S+: reason: [0-9a-f]{32} \(dropped\): expected one, found none",
    ),
    "another reason": (
        ledger("none", "dropped", reason="bad_mood"),
        r"manifest.json: drops.drop_empty.bad_mood: expected 0, found 1",
    ),
    "a quarantine of another stage": (
        ledger("broken", "quarantined", stage="read"),
        r"quarantined.read.bad_xml: expected 0, found 1",
    ),
    "merged into nobody": (
        ledger("copy", "merged", kept_id=b"\1" * 16),
        r"ledger: kept_id: expected a record (01){16}, found none",
    ),
    "merged without saying into whom": (
        ledger("copy", "merged", kept_id=None),
        r"kept_id: [0-9a-f]{32} \(merged\): expected one, found none",
    ),
    "merged only into itself": (
        ledger("copy", "merged", kept_id=record_id("copy")),
        rf"ledger: kept_id: expected a record {record_id('copy').hex()}, found none",
    ),
    "another row of a kept record": (
        ledger("train 3", "kept", row=0),
        r"row of a kept record: [0-9a-f]{32}: expected train row 3 by docs, found train row 0",
    ),
    "another split of a kept record": (
        ledger("train 3", "kept", split="validation"),
        r"expected train row 3 by docs, found validation row 3",
    ),
    "a kept record without a row": (
        ledger("train 3", "kept", row=None),
        r"row: [0-9a-f]{32} \(kept\): expected one, found none",
    ),
    "a source that is not of the run": (
        ledger("none", "dropped", source="news"),
        r"ledger: source: expected one of articles, web, found 'news'",
    ),
    "rows of a shard": (stated(f"{SHARD}/num_rows", more), r"rows-00000\S+: num_rows: expected 9, found 8"),
    "tokens of a shard": (stated(f"{SHARD}/tokens", more), r"rows-00000\S+: tokens: expected 129, found 128"),
    "documents of a shard": (stated(f"{SHARD}/documents", more), r"rows-00000\S+: documents: expected 7, found 6"),
    "rows of a split": (stated(f"{TRAIN}/rows", more), r"manifest.json: splits.train.rows: expected 24, found 23"),
    "rows by group": (
        stated(f"{TRAIN}/rows_by_group", {"all": 22, "web": 1}),
        r"splits.train.rows_by_group.all: expected 22, found 23",
    ),
    "tokens by source": (
        stated(f"{TRAIN}/tokens_by_source/web", more),
        r"splits.train.tokens_by_source.web: expected \d+, found \d+",
    ),
    "tokens by license": (
        stated(f"{TRAIN}/tokens_by_license/cc0", more),
        r"splits.train.tokens_by_license.cc0: expected \d+, found \d+",
    ),
    "documents of a split": (
        stated(f"{TRAIN}/documents", more),
        r"splits.train.documents: expected 16, found 15",
    ),
    "kept records": (stated("records/kept", more), r"manifest.json: records.kept: expected 20, found 19"),
    "merged records of a source": (
        stated("records/by_source/web/merged", more),
        r"records.by_source.web.merged: expected 4, found 3",
    ),
    "dropped records of a source": (
        stated("records/by_source/web/dropped", 1),
        r"records.by_source.web.dropped: expected at least the ledger's \d, found 1",
    ),
    "records read": (stated("records/in", more), r"sum 'every record has one fate': expected .*, found 37 and 36"),
    "records counted only": (stated("counted_only", 8), r"manifest.json: counted_only: expected 8, found 9"),
    "drops that are counted only": (stated("drops/read_warc/request", 6), r"counted_only: expected 9, found 8"),
    "a reason with both kinds of drops": (
        stated("drops/drop_empty/no_text", 2),
        r"drops.drop_empty.no_text: expected 2, found 1",
    ),
    "merges by reason": (
        stated("merged/exact_dedup/same_text", 1),
        r"merged.exact_dedup.same_text: expected 1, found 2",
    ),
    "bytes of a source": (
        stated("bytes/by_source/web/skipped", more),
        r"bytes.by_source.web.content, the sum of its kinds: expected 2100, found 2101",
    ),
    "bytes in all": (stated("bytes/lost", more), r"sum 'bytes lost by source': expected .*, found 101 and 100"),
    "tokens in rows": (stated("tokens/in_rows", more), r"tokens.in_rows: expected 433, found 432"),
    "tokens of the tail": (
        stated("tokens/tail", 3),
        r"tokens.tail and tokens.not_needed: expected the \d+ that kept documents lack or more, found 3",
    ),
    "tokens sent": (stated("tokens/sent", more), r"sum 'tokens sent': expected .*, found 456 and 455"),
    "lines of the ledger": (stated("ledger/rows", more), r"manifest.json: ledger.rows: expected 28, found 27"),
    "first id of a part": (
        stated("ledger/parts/0/first_id", "00"),
        r"ledger/part-00000\S+: first_id: expected 00, found [0-9a-f]{32}",
    ),
    "rows per shard": (stated("format/rows_per_shard", 9), r"splits.train.shards\[0\].num_rows: expected 9, found 8"),
    "another token type": (stated("format/dtype", "<u4"), r"format.dtype for 500 ids: expected <u2, found <u4"),
    "a smaller vocabulary": (stated("tokenizer/vocab_size", 100), r"ids: expected all below 100, found \d+"),
    "rows without length": (stated("format/row_length", 0), r"format.row_length: expected 1 or more, found 0"),
    "another row length": (
        stated("format/row_length", 24),
        r"rows-\S+: bytes after the last whole row of 48 bytes: expected 0, found \d+",
    ),
    "a policy that was not followed": (
        stated("format/bos", "none"),
        r"BOS ids against documents that begin: expected 0, found 4",
    ),
    "a sum rule that is wrong": (
        stated("sums/0/left", ["records.kept"]),
        r"sum 'every record has one fate': expected records.kept = .*, found 19 and 36",
    ),
    "a sum rule that names nothing": (
        stated("sums/0/left", ["records.lost.*"]),
        r"expected a number at records.lost.\*, found none",
    ),
}


@pytest.mark.parametrize("name", RECOUNTED)
def test_wrong_values_under_right_digests_are_found(name: str, tmp_path: Path) -> None:
    change, pattern = RECOUNTED[name]
    tiny = Tiny()
    change(tiny)
    assert_found(tiny.publish(str(tmp_path)), pattern)
