"""verify finds every kind of tampering and names it, and says nothing about a true dataset."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from curate.core.errors import PlanError
from manifests import ids
from manifests.verify import verify
from tests.manifests.builder import Json, Shard, Tiny, record_id, rewrite_manifest, split_digest


def problems(url: str | Path) -> list[str]:
    found = verify(str(url))
    assert found["ok"] == (found["problems"] == [])
    for line in found["problems"]:
        assert re.match(r"\S+: .*expected .*found ", line), line
        assert line.isprintable()
    lines: list[str] = found["problems"]
    return lines


def assert_found(url: str | Path, pattern: str) -> None:
    lines = problems(url)
    assert any(re.search(pattern, line) for line in lines), lines


def test_a_true_dataset_has_no_problems(output_url: str) -> None:
    tiny = Tiny()
    found = verify(tiny.publish(output_url))
    assert found == {
        "ok": True,
        "problems": [],
        "splits": {
            "train": {
                "rows": 23,
                "tokens": 23 * 16,
                "digest": split_digest(tiny.manifest, "train"),
                "rows_by_group": {"all": 23},
            },
            "validation": {
                "rows": 4,
                "tokens": 64,
                "digest": split_digest(tiny.manifest, "validation"),
                "rows_by_group": {"all": 4},
            },
        },
    }
    json.dumps(found)


def test_spilling_to_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "IN_MEMORY_BYTES", 1)
    assert problems(Tiny().publish(str(tmp_path))) == []


# Wrong values under right digests: only a recount can find them.


def docs(tiny: Tiny, shard: int, line: int, **values: Any) -> None:
    lines = tiny.shards["train"][shard].docs.to_pylist()
    lines[line] |= values
    tiny.shards["train"][shard].docs = pa.Table.from_pylist(lines, schema=tiny.shards["train"][shard].docs.schema)


def ledger(tiny: Tiny, name: str, fate: str, /, **values: Any) -> None:
    """Change the line of the record of this name and fate, where it stands."""
    for i, table in enumerate(tiny.ledger):
        lines = table.to_pylist()
        for line in lines:
            if line["name"] == name and line["fate"] == fate:
                line |= values
                tiny.ledger[i] = pa.Table.from_pylist(lines, schema=table.schema)
                return
    raise KeyError(name)


def token(tiny: Tiny, shard: int, row: int, at: int, value: int) -> None:
    tiny.shards["train"][shard].rows[row, at] = value


def cut_shard(tiny: Tiny, change: Callable[[Shard], None]) -> None:
    change(tiny.shards["train"][0])


def stated(path: str, value: Any) -> Callable[[Tiny], None]:
    """A number of the manifest that is stated as something else."""

    def change(tiny: Tiny) -> None:
        *keys, last = path.split("/")
        place: Any = tiny.manifest
        for key in keys:
            place = place[int(key) if isinstance(place, list) else key]
        place[last] = value(place[last]) if callable(value) else value

    return change


def more(number: int) -> int:
    return number + 1


def swap_first_lines(tiny: Tiny) -> None:
    tiny.ledger[1] = tiny.ledger[1].take([1, 0, *range(2, tiny.ledger[1].num_rows)])


def drop_last_line(tiny: Tiny) -> None:
    tiny.ledger[0] = tiny.ledger[0].slice(0, tiny.ledger[0].num_rows - 1)


def repeat_kept_line(tiny: Tiny) -> None:
    fates = tiny.ledger[0].column("fate").to_pylist()
    at = fates.index("kept")
    tiny.ledger[0] = tiny.ledger[0].take(sorted([*range(len(fates)), at]))


def null_column(tiny: Tiny, name: str) -> None:
    table = tiny.shards["train"][1].docs
    nulls = pa.nulls(table.num_rows, table.schema.field(name).type)
    tiny.shards["train"][1].docs = table.set_column(table.schema.get_field_index(name), name, nulls)


def without_column(tiny: Tiny, name: str) -> None:
    tiny.shards["train"][1].docs = tiny.shards["train"][1].docs.drop_columns([name])


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

RECOUNTED: dict[str, tuple[Callable[[Tiny], object], str]] = {
    "an id beyond the vocabulary": (lambda t: token(t, 0, 2, 3, 500), r"rows-00000\S+: ids: expected all below 500, found 500"),
    "a control id in the text": (lambda t: token(t, 0, 2, 3, 1), r"rows-00000\S+: BOS ids against documents that begin: expected 6, found 7"),
    "BOS gone": (lambda t: token(t, 0, 0, 0, 9), r"BOS of documents: row 0, token 0: expected 1, found 9"),
    "EOS gone": (lambda t: token(t, 0, 0, 4, 9), r"EOS of documents: row 0, token 4: expected 2, found 9"),
    "another largest id": (stated(f"{SHARD}/max_id", more), r"rows-00000\S+: max_id: expected \d+, found \d+"),
    "two rows swapped": (swap_rows, r"BOS of documents: row 0"),
    "an extra row": (add_row, r"docs-00002\S+: rows that have pieces: expected 8, found 7"),
    "a row lost": (drop_row, r"docs-00002\S+: rows that have pieces: expected 6, found 7"),
    "a piece lost": (drop_piece, r"docs-00000\S+: pieces: row 0: expected one at token 0, found one at 5"),
    "a piece moved": (lambda t: docs(t, 0, 1, start=6), r"docs-00000\S+: pieces: row 0: expected one at token 5, found one at 6"),
    "a piece too short": (lambda t: docs(t, 0, 2, length=15), r"docs-00000\S+: end of a row: row 1: expected pieces up to token 16, found up to 15"),
    "a piece without tokens": (lambda t: docs(t, 0, 0, length=0), r"length of a piece: row 0: expected 1 or more, found 0"),
    "a piece of another row": (lambda t: docs(t, 0, 2, row=2), r"docs-00000\S+: "),
    "a piece beyond its document": (lambda t: docs(t, 0, 2, document_tokens=26), r"end of a piece: row 1: expected within 26 tokens, found up to 27"),
    "an offset in the document": (lambda t: docs(t, 0, 2, token_offset=12), r"docs: pieces of a document: [0-9a-f]{32}: expected one at its token 11, found 12"),
    "a length of the document": (lambda t: docs(t, 0, 2, document_tokens=41), r"docs: document_tokens of a document: [0-9a-f]{32}: expected 40, found 41"),
    "two groups in a row": (lambda t: docs(t, 0, 1, group="general"), r"group of a row: row 0: expected 'all' alone, found 'general' too"),
    "the source of a piece": (lambda t: docs(t, 0, 1, source="articles"), r"tokens_by_source.articles: expected \d+, found \d+"),
    "the license of a piece": (lambda t: docs(t, 0, 1, license=None), r"tokens_by_license.unknown: expected \d+, found \d+"),
    "the id of a document": (lambda t: docs(t, 0, 0, id=bytes(16)), r"documents in rows: 00000000000000000000000000000000 in train row 0: expected kept, found no such record"),
    "a document that nobody has": (lambda t: docs(t, 0, 0, id=bytes(16)), rf"docs: kept records: {record_id('train 0').hex()}: expected in train row 0 by the ledger, found nowhere"),
    "an id that is null": (lambda t: null_column(t, "id"), r"docs-00001\S+: columns with nulls: expected \[\], found \['id'\]"),
    "a column that is missing": (lambda t: without_column(t, "license"), r"docs-00001\S+: column license: expected string, found none"),
    "piece starts of another table": (shift_cu, r"cu-00000\S+: piece starts: piece 2: expected 0 by docs, found 1"),
    "piece starts without pieces": (merge_two_starts, r"cu-00000\S+: pieces: expected \d+, found 0"),
    "a ledger line lost": (drop_last_line, r"ledger/part-00000\S+: rows: expected 7, found 6"),
    "ledger out of order": (swap_first_lines, r"ledger/part-00001\S+: order by \(id, fate\): expected [0-9a-f]{32} or later"),
    "a record kept twice": (repeat_kept_line, r"ledger: kept twice: [0-9a-f]{32}: expected once, found again"),
    "an unknown fate": (lambda t: ledger(t, "none", "dropped", fate="vanished"), r"ledger/part-\S+: fate: [0-9a-f]{32}: expected one of .*, found vanished"),
    "a drop without reason": (lambda t: ledger(t, "none", "dropped", reason=None), r"ledger/part-\S+: reason: [0-9a-f]{32} \(dropped\): expected one, found none"),
    "another reason": (lambda t: ledger(t, "none", "dropped", reason="bad_mood"), r"manifest.json: drops.drop_empty.bad_mood: expected 0, found 1"),
    "a quarantine of another stage": (lambda t: ledger(t, "broken", "quarantined", stage="read"), r"quarantined.read.bad_xml: expected 0, found 1"),
    "merged into nobody": (lambda t: ledger(t, "copy", "merged", kept_id=b"\1" * 16), r"ledger: kept_id: expected a record (01){16}, found none"),
    "merged without saying into whom": (lambda t: ledger(t, "copy", "merged", kept_id=None), r"kept_id: [0-9a-f]{32} \(merged\): expected one, found none"),
    "merged only into itself": (lambda t: ledger(t, "copy", "merged", kept_id=record_id("copy")), rf"ledger: kept_id: expected a record {record_id('copy').hex()}, found none"),
    "another row of a kept record": (lambda t: ledger(t, "train 3", "kept", row=0), r"row of a kept record: [0-9a-f]{32}: expected train row 3 by docs, found train row 0"),
    "another split of a kept record": (lambda t: ledger(t, "train 3", "kept", split="validation"), r"expected train row 3 by docs, found validation row 3"),
    "a kept record without a row": (lambda t: ledger(t, "train 3", "kept", row=None), r"row: [0-9a-f]{32} \(kept\): expected one, found none"),
    "a source that is not of the run": (lambda t: ledger(t, "none", "dropped", source="news"), r"ledger: source: expected one of articles, web, found 'news'"),
    "rows of a shard": (stated(f"{SHARD}/num_rows", more), r"rows-00000\S+: num_rows: expected 9, found 8"),
    "tokens of a shard": (stated(f"{SHARD}/tokens", more), r"rows-00000\S+: tokens: expected 129, found 128"),
    "documents of a shard": (stated(f"{SHARD}/documents", more), r"rows-00000\S+: documents: expected 7, found 6"),
    "rows of a split": (stated(f"{TRAIN}/rows", more), r"manifest.json: splits.train.rows: expected 24, found 23"),
    "rows by group": (stated(f"{TRAIN}/rows_by_group", {"all": 22, "web": 1}), r"splits.train.rows_by_group.all: expected 22, found 23"),
    "tokens by source": (stated(f"{TRAIN}/tokens_by_source/web", more), r"splits.train.tokens_by_source.web: expected \d+, found \d+"),
    "tokens by license": (stated(f"{TRAIN}/tokens_by_license/cc0", more), r"splits.train.tokens_by_license.cc0: expected \d+, found \d+"),
    "documents of a split": (stated(f"{TRAIN}/documents", more), r"sum 'every kept record is a document of one split': expected .*, found 19 and 20"),
    "kept records": (stated("records/kept", more), r"manifest.json: records.kept: expected 20, found 19"),
    "merged records of a source": (stated("records/by_source/web/merged", more), r"records.by_source.web.merged: expected 4, found 3"),
    "dropped records of a source": (stated("records/by_source/web/dropped", 1), r"records.by_source.web.dropped: expected at least the ledger's \d, found 1"),
    "records read": (stated("records/in", more), r"sum 'every record has one fate': expected .*, found 37 and 36"),
    "records counted only": (stated("counted_only", 8), r"manifest.json: counted_only: expected 8, found 9"),
    "drops that are counted only": (stated("drops/read_warc/request", 6), r"counted_only: expected 9, found 8"),
    "a reason with both kinds of drops": (stated("drops/drop_empty/no_text", 2), r"drops.drop_empty.no_text: expected 2, found 1"),
    "merges by reason": (stated("merged/exact_dedup/same_text", 1), r"merged.exact_dedup.same_text: expected 1, found 2"),
    "bytes of a source": (stated("bytes/by_source/web/skipped", more), r"bytes.by_source.web.content, the sum of its kinds: expected 2100, found 2101"),
    "bytes in all": (stated("bytes/lost", more), r"sum 'bytes lost by source': expected .*, found 101 and 100"),
    "tokens in rows": (stated("tokens/in_rows", more), r"tokens.in_rows: expected 433, found 432"),
    "tokens of the tail": (stated("tokens/tail", 3), r"tokens.tail: expected the \d+ that kept documents lack or more, found 3"),
    "tokens sent": (stated("tokens/sent", more), r"sum 'tokens sent': expected .*, found 456 and 455"),
    "lines of the ledger": (stated("ledger/rows", more), r"manifest.json: ledger.rows: expected 28, found 27"),
    "first id of a part": (stated("ledger/parts/0/first_id", "00"), r"ledger/part-00000\S+: first_id: expected 00, found [0-9a-f]{32}"),
    "rows per shard": (stated("format/rows_per_shard", 9), r"splits.train.shards\[0\].num_rows: expected 9, found 8"),
    "another token type": (stated("format/dtype", "<u4"), r"format.dtype for 500 ids: expected <u2, found <u4"),
    "a smaller vocabulary": (stated("tokenizer/vocab_size", 100), r"ids: expected all below 100, found \d+"),
    "rows without length": (stated("format/row_length", 0), r"format.row_length: expected 1 or more, found 0"),
    "another row length": (stated("format/row_length", 24), r"rows-\S+: bytes after the last whole row of 48 bytes: expected 0, found \d+"),
    "a policy that was not followed": (stated("format/bos", "none"), r"BOS ids against documents that begin: expected 0, found 4"),
    "a sum rule that is wrong": (stated("sums/0/left", ["records.kept"]), r"sum 'every record has one fate': expected records.kept = .*, found 19 and 36"),
    "a sum rule that names nothing": (stated("sums/0/left", ["records.lost.*"]), r"expected a number at records.lost.\*, found none"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOUNTED)
def test_wrong_values_under_right_digests_are_found(name: str, tmp_path: Path) -> None:
    change, pattern = RECOUNTED[name]
    tiny = Tiny()
    change(tiny)
    assert_found(tiny.publish(str(tmp_path)), pattern)


# Stored files that are not what the manifest says.


def one(output: Path, pattern: str) -> Path:
    (path,) = output.glob(f"*/{pattern}")
    return path


def flip(output: Path, pattern: str, at: int = -3) -> None:
    path = one(output, pattern)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def swap_files(output: Path) -> None:
    first, second = one(output, "train/rows-00000.*"), one(output, "train/rows-00001.*")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def swap_entries(manifest: Json) -> None:
    shards = manifest["splits"]["train"]["shards"]
    shards[0], shards[1] = shards[1], shards[0]


def append(output: Path, pattern: str, data: bytes) -> None:
    path = one(output, pattern)
    path.write_bytes(path.read_bytes() + data)


def truncate(output: Path, pattern: str) -> None:
    path = one(output, pattern)
    path.write_bytes(path.read_bytes()[:-1])


def rename_key(manifest: Json) -> None:
    manifest["splits"]["train"]["shards"][0]["rows"]["key"] = "../../elsewhere"


STORED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of rows": (lambda o: flip(o, "train/rows-00001.*"), r"^train/rows-00001\S+: sha256: expected [0-9a-f]{64}, found"),
    "a byte of docs": (lambda o: flip(o, "train/docs-00001.*", 40), r"^train/docs-00001\S+: sha256: expected [0-9a-f]{64}, found"),
    "a byte of the footer of docs": (lambda o: flip(o, "train/docs-00001.*"), r"^train/docs-00001\S+: expected a Parquet table, found"),
    "a byte of cu": (lambda o: flip(o, "train/cu-00001.*"), r"^train/cu-00001\S+: sha256: expected"),
    "a byte of the ledger": (lambda o: flip(o, "ledger/part-00001.*", 40), r"^ledger/part-00001\S+: sha256: expected"),
    "rows missing": (lambda o: one(o, "train/rows-00002.*").unlink(), r"^train/rows-00002\S+: expected \d+ bytes, found no such file"),
    "docs missing": (lambda o: one(o, "validation/docs-*").unlink(), r"^validation/docs-00000\S+: expected \d+ bytes, found no such file"),
    "cu missing": (lambda o: one(o, "train/cu-00000.*").unlink(), r"^train/cu-00000\S+: expected \d+ bytes, found no such file"),
    "a part of the ledger missing": (lambda o: one(o, "ledger/part-00002.*").unlink(), r"^ledger/part-00002\S+: expected \d+ bytes, found no such file"),
    "an extra row": (lambda o: append(o, "train/rows-00002.*", bytes(32)), r"^train/rows-00002\S+: bytes: expected 224, found 256"),
    "rows cut short": (lambda o: truncate(o, "train/rows-00000.*"), r"^train/rows-00000\S+: bytes after the last whole row of 32 bytes: expected 0, found 31"),
    "rows emptied": (lambda o: one(o, "train/rows-00000.*").write_bytes(b""), r"^train/rows-00000\S+: bytes: expected 256, found 0"),
    "docs emptied": (lambda o: one(o, "train/docs-00000.*").write_bytes(b""), r"^train/docs-00000\S+: expected a Parquet table, found"),
    "cu cut short": (lambda o: truncate(o, "train/cu-00000.*"), r"^train/cu-00000\S+: expected piece starts of 8 rows, found"),
    "files of two shards swapped": (swap_files, r"^train/rows-00000\S+: sha256: expected"),
    "entries of two shards swapped": (lambda o: rewrite_manifest(o, swap_entries), r"^manifest.json: splits.train.digest: expected [0-9a-f]{64}, found [0-9a-f]{64}"),
    "a key of another shard": (lambda o: rewrite_manifest(o, swap_entries), r"^manifest.json: splits.train.shards\[0\].rows.key: expected train/rows-00000\S+, found train/rows-00001"),
    "a key outside": (lambda o: rewrite_manifest(o, rename_key), r"^\S+manifest.json: splits.train.shards\[0\].rows.key: expected a key below the dataset, found '\.\./\.\./elsewhere'"),
    "a manifest changed after the run": (lambda o: rewrite_manifest(o, lambda m: m.update(seed=1), pointer=False), r"^\S+manifest.json: sha256: expected [0-9a-f]{64} by MANIFEST, found"),
    "a seed in the manifest, unseen by the pointer": (lambda o: rewrite_manifest(o, lambda m: m.update(seed="x")), r"seed: expected a whole number, found 'x'"),
    "another dataset id": (lambda o: rewrite_manifest(o, lambda m: m.update(dataset_id="f" * 64)), r"^manifest.json: folder: expected ffffffffffff, found"),
    "a missing key": (lambda o: rewrite_manifest(o, lambda m: m["splits"]["train"].pop("rows")), r"splits.train.rows: expected a whole number, found nothing"),
    "a list that is none": (lambda o: rewrite_manifest(o, lambda m: m.update(sums={})), r"sums: expected a list, found dict"),
    "a newer version": (lambda o: rewrite_manifest(o, lambda m: m.update(schema="curate.dataset/2")), r"^MANIFEST: .*schema: expected curate.dataset/1, found curate.dataset/2; use the curate"),
    "a manifest that is no JSON": (lambda o: one(o, "manifest.json").write_bytes(b"{"), r"manifest.json: expected JSON, found"),
    "a manifest of another kind": (lambda o: one(o, "manifest.json").write_bytes(b"[]"), r"manifest.json: expected an object, found list"),
    "no manifest": (lambda o: one(o, "manifest.json").unlink(), r"^MANIFEST: expected the manifest \S+, found no such file"),
    "a pointer without digest": (lambda o: (o / "MANIFEST").write_bytes(b"{}"), r"^MANIFEST: sha256: expected text, found nothing"),
    "no pointer": (lambda o: (o / "MANIFEST").unlink(), r"^MANIFEST: .*expected a finished dataset, found no MANIFEST"),
    "nothing at all": (shutil.rmtree, r"^MANIFEST: .*expected a finished dataset, found no MANIFEST"),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_changed_files_are_found(name: str, tmp_path: Path) -> None:
    change, pattern = STORED[name]
    output = tmp_path / "output"
    Tiny().publish(str(output))
    change(output)
    assert_found(output, pattern)


def test_each_byte_of_every_file_counts(tmp_path: Path) -> None:
    # mosaicml/streaming#399, #759: an index that disagrees with a shard is found here, not in training.
    Tiny().publish(str(tmp_path))
    for path in sorted(p for p in tmp_path.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 3)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
            assert problems(tmp_path), (path, at)
        path.write_bytes(whole)
    assert problems(tmp_path) == []


def test_many_faults_of_a_kind_are_one_line(tmp_path: Path) -> None:
    tiny = Tiny()
    tiny.shards["train"][1].rows[:] = 0
    lines = [line for line in problems(tiny.publish(str(tmp_path))) if "BOS of documents" in line]
    assert len(lines) == 1
    assert lines[0].endswith("expected 1, found 0 (and 4 more)")


def test_a_place_that_cannot_be_a_dataset_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="unknown kind of storage"):
        verify("ftp://host/dataset")
