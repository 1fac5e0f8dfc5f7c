"""A tiny true dataset, made without the engine: two splits, five shards, every fate of a record.

Counts are taken in plain Python from the lists below, so that they share no code with what checks them.
Tests change a part (rows, tables, counts) before `publish`, which makes digests of whatever is there, or
change the stored files afterwards.
"""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.hashing import canonical_json, digest, sha256
from curate.core.storage import open_storage
from manifests import layout
from manifests.sums import sum_rules
from manifests.verify import verify
from stages.pack import Concat

Json = dict[str, Any]
Place = tuple[str, int]  # split and row

ROW_LENGTH = 16
ROWS_PER_SHARD = 8
VOCAB_SIZE = 500
BOS, EOS = 1, 2
LENGTHS = {"train": [5, 40, 3, 17, 2, 90, 16, 31, 8, 8, 64, 3, 27, 12, 50, 6], "validation": [20, 30, 7, 11]}
_SHORT = hashlib.sha256(b"short 1").digest()[:16]
LICENSES = ("cc-by", "cc0", None)


@dataclass
class Document:
    """A document that stands in rows, at least in part."""

    name: str
    split: str
    tokens: list[int]
    source: str
    license: str | None
    row: int = -1  # of its first piece
    id: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.id = record_id(self.name)


def record_id(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:16]


def origin(name: str, source: str) -> Json:
    return {"source": source, "key": f"{source}.jsonl", "offset": len(name), "length": 100, "inner": None}


@dataclass
class Shard:
    """One shard before its files are made; `cu` None: from the pieces."""

    rows: NDArray[np.uint16]
    docs: pa.Table
    cu: bytes | None = None


class Tiny:
    """The dataset as values that a test may change.

    `left_out`: rows, as first packed, that a mix did not need; `repeated`: those that stand once more.
    """

    def __init__(self, *, left_out: tuple[Place, ...] = (), repeated: tuple[Place, ...] = ()) -> None:
        self.left_out, self.repeated = left_out, repeated
        self.documents = [doc for split, lengths in LENGTHS.items() for doc in _documents(split, lengths)]
        self.shards: dict[str, list[Shard]] = {}
        self.tail_tokens = 0
        for split in LENGTHS:
            self._pack(split, [doc for doc in self.documents if doc.split == split])
        self.ledger: list[pa.Table] = self._ledger()
        self.names: pa.Table = _names(self.ledger)
        self.manifest: Json = self._manifest()

    def publish(self, url: str) -> str:
        """Write all files with digests of what is there now; counts stay as they were taken. Returns `url`."""
        storage = open_storage(url)
        folder = self.manifest["dataset_id"][:12]
        for split, shards in self.shards.items():
            entries = self.manifest["splits"][split]["shards"]
            for i, (shard, entry) in enumerate(zip(shards, entries, strict=True)):
                cu = shard.cu
                if cu is None:
                    row, start = (shard.docs.column(name).to_numpy() for name in ("row", "start"))
                    cu = layout.encode_cu(row, start, len(shard.rows), ROW_LENGTH)
                files = {
                    "rows": shard.rows.astype("<u2").tobytes(),
                    "docs": layout.encode_parquet(shard.docs),
                    "cu": cu,
                }
                for kind, data in files.items():
                    key = f"{split}/{layout.shard_name(kind, i, sha256(data))}"
                    entry[kind] = {"key": key, "bytes": len(data), "sha256": sha256(data)}
                    storage.put(f"{folder}/{key}", data)
                entry["docs"]["logical"] = layout.logical_digest(shard.docs).hex()
            self.manifest["splits"][split]["digest"] = split_digest(self.manifest, split)
        for i, (table, part) in enumerate(zip(self.ledger, self.manifest["ledger"]["parts"], strict=True)):
            data = layout.encode_parquet(table)
            key = f"ledger/{layout.ledger_name(i, sha256(data))}"
            part |= {"key": key, "bytes": len(data), "sha256": sha256(data)}
            storage.put(f"{folder}/{key}", data)
        data = layout.encode_parquet(self.names)
        key = f"ledger/{layout.names_name(0, sha256(data))}"
        self.manifest["names"]["parts"][0] |= {"key": key, "bytes": len(data), "sha256": sha256(data)}
        storage.put(f"{folder}/{key}", data)
        data = canonical_json(self.manifest)
        storage.put(f"{folder}/manifest.json", data)
        pointer = {"dataset_id": self.manifest["dataset_id"], "manifest": f"{folder}/manifest.json"}
        storage.put("MANIFEST", canonical_json(pointer | {"sha256": sha256(data)}))
        return url

    def _pack(self, split: str, documents: list[Document]) -> None:
        packed = Concat().pack(np.array([len(doc.tokens) for doc in documents], dtype=np.int64), ROW_LENGTH)
        pieces: list[list[tuple[Document, int, int, int]]] = [[] for _ in range(packed.num_rows)]
        columns = (packed.doc, packed.offset, packed.length, packed.row, packed.start)
        for number, offset, length, row, start in np.stack(columns, axis=1).tolist():
            pieces[row].append((documents[number], offset, length, start))
        order = [row for row in range(packed.num_rows) if (split, row) not in self.left_out]
        order += [row for name, row in self.repeated if name == split]
        rows = np.zeros((len(order), ROW_LENGTH), dtype=np.uint16)
        lines: list[list[Json]] = [[] for _ in range(-(-len(order) // ROWS_PER_SHARD))]
        first: dict[str, tuple[int, int]] = {}  # (token offset, row) of the first piece
        for row, packed_row in enumerate(order):
            for doc, offset, length, start in pieces[packed_row]:
                rows[row, start : start + length] = doc.tokens[offset : offset + length]
                first[doc.name] = min(first.get(doc.name, (offset, row)), (offset, row))
                place = {"row": row % ROWS_PER_SHARD, "start": start, "length": length, "token_offset": offset}
                lines[row // ROWS_PER_SHARD].append(place | _described(doc))
        for doc in documents:
            doc.row = first.get(doc.name, (0, -1))[1]
        tables = [pa.Table.from_pylist(shard_lines, schema=layout.docs_schema()) for shard_lines in lines]
        blocks = [rows[i : i + ROWS_PER_SHARD] for i in range(0, len(rows), ROWS_PER_SHARD)]
        self.shards[split] = [Shard(block, table) for block, table in zip(blocks, tables, strict=True)]
        self.tail_tokens += int(packed.tail_length.sum())

    def _ledger(self) -> list[pa.Table]:
        lines = [
            _line(doc.name, doc.source, "kept", split=doc.split, row=doc.row) for doc in self.documents if doc.row >= 0
        ]
        lines += [
            _line(doc.name, doc.source, "dropped", stage="pack", reason="tail") for doc in self.documents if doc.row < 0
        ]
        first, second = self.documents[0], self.documents[1]
        lines += [
            _line("short 1", "web", "dropped", stage="gopher_quality", reason="too_short", numbers=[("words", 3.0)]),
            _line("short 2", "web", "dropped", stage="gopher_quality", reason="too_short"),
            _line("none", "articles", "dropped", stage="drop_empty", reason="no_text"),
            _line("copy", "web", "merged", stage="exact_dedup", reason="same_text", kept_id=first.id),
            _line("copy of short", "web", "merged", stage="exact_dedup", reason="same_text", kept_id=_SHORT),
            _line(second.name, second.source, "merged", stage="pack", reason="same_record", kept_id=second.id),
            _line("broken", "articles", "quarantined", stage="read_jats", reason="bad_xml", detail="line 3"),
        ]  # fmt: skip
        lines.sort(key=lambda line: (line["id"], line["fate"]))
        cuts = [0, 7, 14, len(lines)]
        parts = [lines[a:b] for a, b in itertools.pairwise(cuts)]
        return [pa.Table.from_pylist(part, schema=layout.ledger_schema()) for part in parts]

    def _manifest(self) -> Json:
        lines = [line for table in self.ledger for line in table.to_pylist()]
        tables: dict[str, dict[str, Counter[str]]] = {fate: {} for fate in ("dropped", "merged", "quarantined")}
        by_source = {name: Counter[str]() for name in ("articles", "web")}
        for line in lines:
            by_source[line["source"]][line["fate"]] += 1
            if line["fate"] != "kept":
                tables[line["fate"]].setdefault(line["stage"], Counter())[line["reason"]] += 1
        tables["dropped"]["read_warc"] = Counter({"request": 7, "metadata": 2})
        by_source["web"]["dropped"] += 9
        for counts in by_source.values():
            counts["in"] = counts.total()
        stored = {"stored": 900, "content": 2100, "records": 1500, "framing": 300, "skipped": 250, "lost": 50}
        left_out, repeated = len(self.left_out) * ROW_LENGTH, len(self.repeated) * ROW_LENGTH
        in_rows = sum(shard.rows.size for shards in self.shards.values() for shard in shards) - repeated
        return {
            "schema": "curate.dataset/1",
            "dataset_id": digest(["tiny"]),
            "seed": 1234,
            "format": {
                "kind": "rows", "dtype": "<u2", "row_length": ROW_LENGTH, "rows_per_shard": ROWS_PER_SHARD,
                "packing": "concat", "padding": "none", "bos": "document", "eos": "document",
            },
            "tokenizer": {
                "name": "tiny.model", "sha256": digest("model"), "vocab_size": VOCAB_SIZE,
                "bos_id": BOS, "eos_id": EOS, "probe_sha256": digest("probe"),
            },
            "splits": {split: _split(shards) for split, shards in self.shards.items()},
            "records": {k: sum(c[k] for c in by_source.values()) for k in ("in", "kept", *tables)}
            | {"by_source": {name: {k: c[k] for k in ("in", "kept", *tables)} for name, c in by_source.items()}},
            "drops": tables["dropped"],
            "merged": tables["merged"],
            "quarantined": tables["quarantined"],
            "counted_only": 9,
            "bytes": {k: 2 * n for k, n in stored.items()} | {"by_source": {name: stored for name in by_source}},
            "tokens": {
                "sent": in_rows + left_out + self.tail_tokens + 5, "in_rows": in_rows, "not_needed": left_out,
                "tail": self.tail_tokens, "merged": 5, "quarantined": 0, "repeated": repeated,
            },
            "ledger": {
                "rows": len(lines),
                "parts": [
                    {
                        "rows": part.num_rows,
                        "first_id": part.column("id")[0].as_py().hex(),
                        "last_id": part.column("id")[-1].as_py().hex(),
                    }
                    for part in self.ledger
                ],
            },
            "names": {"rows": self.names.num_rows, "parts": [_bounds(self.names)]},
            "exports": {},
            "pipeline": {"name": "tiny"},
            "sums": sum_rules(),
        }  # fmt: skip


def _documents(split: str, lengths: list[int]) -> list[Document]:
    found = []
    for i, length in enumerate(lengths):
        text = [3 + (37 * i + 11 * at) % (VOCAB_SIZE - 3) for at in range(length - 2)]
        source = ("articles", "web")[i % 2]
        found.append(Document(f"{split} {i}", split, [BOS, *text, EOS], source, LICENSES[i % 3]))
    return found


def _described(doc: Document) -> Json:
    words = {
        "name": doc.name,
        "source": doc.source,
        "license": doc.license,
        "language": "en",
        "title": f"On {doc.name}",
    }
    place = {"id": doc.id, "document_tokens": len(doc.tokens), "group": "all"}
    return words | place | {"origin": origin(doc.name, doc.source)}


def _line(name: str, source: str, fate: str, **more: Any) -> Json:
    return {"id": record_id(name), "name": name, "source": source, "origin": origin(name, source), "fate": fate} | more


def _names(ledger: list[pa.Table]) -> pa.Table:
    """The index: each name, and the pages of the web by their addresses."""
    lines = [line for table in ledger for line in table.to_pylist()]
    pairs = {(_name_key(line["name"]), line["id"]) for line in lines}
    pairs |= {(_name_key(f"http://web/{line['name']}"), line["id"]) for line in lines if line["source"] == "web"}
    keys, ids = zip(*sorted(pairs), strict=True)
    return pa.table([pa.array(keys, pa.uint64()), pa.array(ids, pa.binary(16))], schema=layout.names_schema())


def _name_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _bounds(names: pa.Table) -> Json:
    keys = names.column("key").to_pylist()
    return {"rows": len(keys), "first_key": f"{keys[0]:016x}", "last_key": f"{keys[-1]:016x}"}


def _split(shards: list[Shard]) -> Json:
    entries = [_entry(shard) for shard in shards]
    total: Json = {
        "rows": sum(entry["num_rows"] for entry in entries),
        "tokens": sum(entry["tokens"] for entry in entries),
        "documents": len({line["id"] for shard in shards for line in shard.docs.to_pylist()}),
        "shards": entries,
    }
    for name in ("rows_by_group", "tokens_by_source", "tokens_by_license"):
        total[name] = dict(sum((Counter(entry[name]) for entry in entries), Counter()))
    return total


def _entry(shard: Shard) -> Json:
    lines = shard.docs.to_pylist()
    tokens = shard.rows.ravel().tolist()
    sources, licenses = Counter[str](), Counter[str]()
    for line in lines:
        sources[line["source"]] += line["length"]
        licenses[line["license"] or "unknown"] += line["length"]
    return {
        "num_rows": len(shard.rows), "tokens": len(tokens), "pieces": len(lines),
        "documents": sum(line["token_offset"] == 0 for line in lines),
        "bos": tokens.count(BOS), "eos": tokens.count(EOS), "max_id": max(tokens),
        "rows_by_group": {"all": len(shard.rows)}, "tokens_by_source": sources, "tokens_by_license": licenses,
    }  # fmt: skip


def split_digest(manifest: Json, split: str) -> str:
    """By the letter of the contract: format, tokenizer, row files in order, document tables."""
    shards = manifest["splits"][split]["shards"]
    docs = hashlib.sha256(b"".join(bytes.fromhex(shard["docs"]["logical"]) for shard in shards)).hexdigest()
    rows = [shard["rows"]["sha256"] for shard in shards]
    return digest([manifest["format"], manifest["tokenizer"]["sha256"], rows, docs])


def rewrite_manifest(output: Path, change: Callable[[Json], object], *, pointer: bool = True) -> None:
    """Change a published manifest; the pointer is made to agree unless told otherwise."""
    (path,) = output.glob("*/manifest.json")
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_bytes(canonical_json(manifest))
    if pointer:
        old = json.loads((output / "MANIFEST").read_bytes())
        new = {"sha256": sha256(path.read_bytes()), "dataset_id": manifest.get("dataset_id", old["dataset_id"])}
        (output / "MANIFEST").write_bytes(canonical_json(old | new))


def problems(url: str | Path) -> list[str]:
    """What verify finds, each a line that names file, expected and found."""
    answer = verify(str(url))
    lines: list[str] = answer["problems"]
    assert answer["ok"] == (lines == [])
    for line in lines:
        assert re.match(r"\S+: .*expected .*found ", line), line
        assert line.isprintable()
    return lines


def assert_found(url: str | Path, pattern: str) -> None:
    """verify finds something that matches `pattern`."""
    lines = problems(url)
    assert any(re.search(pattern, line) for line in lines), "\n".join(lines)
