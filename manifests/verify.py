"""Recomputing all that a manifest says from the files themselves, shard by shard.

Nothing is believed: sizes, digests, counts of tokens, control ids, documents, fates and the sums are
counted again. Memory holds one shard's document table, a few MB of rows and one part of the ledger.
"""

from collections import Counter
from fractions import Fraction

from curate.core.storage import open_storage
from manifests.exports.hf_verify import verify_hf
from manifests.ids import PIECE, Buckets, compare_ids, piece_records
from manifests.layout import split_digest, token_dtype
from manifests.ledger import Fate, recount_ledger
from manifests.manifest import Dataset, find_dataset
from manifests.names import verify_names
from manifests.problems import Problems
from manifests.shape import Json
from manifests.shard import Counts, recount_shard
from manifests.sums import FATES, broken_sums, sum_rules

FILE = "manifest.json"


def verify(url: str) -> Json:
    """`{"ok", "problems", "splits": {name: {"rows", "tokens", "digest", "rows_by_group"}}}` of a dataset.

    Each problem is one line that names file, expected and found. The digest of a split is null where
    its files could not be read. Raises: PlanError where no dataset is finished there, or another
    version of curate wrote it; StorageError where storage does not answer.
    """
    storage = open_storage(url)
    problems = Problems()
    splits: Json = {}
    dataset, faults = find_dataset(storage)
    problems.lines.extend(faults)
    if dataset is not None:
        splits = _verify(dataset, problems)
    lines = problems.report()
    return {"ok": not lines, "problems": lines, "splits": splits}


def _verify(dataset: Dataset, problems: Problems) -> Json:
    if not _check_format(dataset, problems):
        return {}
    names = sorted(dataset.manifest["splits"])
    with Buckets(PIECE) as pieces:
        found = {name: _verify_split(dataset, name, i, pieces, problems) for i, name in enumerate(names)}
        records = recount_ledger(dataset, problems)
        if records is None or None in (split["digest"] for split in found.values()):
            problems.add("ledger", "ids: expected to be compared with the documents, found files that cannot be used")
        else:
            _check_ids(dataset, names, pieces, problems)
    if records is not None:
        verify_names(dataset, problems)
    if records is not None:
        _check_records(dataset.manifest, records, problems)
    _check_mix(dataset.manifest, found, problems)
    _check_pipeline(dataset.manifest, problems)
    verify_hf(dataset, problems)
    _check_sums(dataset.manifest, problems)
    return found


def _check_mix(manifest: Json, found: Json, problems: Problems) -> None:
    """A group's share is of all train rows, its own included, and rounded."""
    train = found.get("train", {"rows": 0, "rows_by_group": {}})
    mix = manifest["pipeline"].get("mix")
    for group in mix if isinstance(mix, list) else []:
        share = group.get("share") if isinstance(group, dict) else None
        if isinstance(share, float) and 0 < share < 1:
            rows = round(Fraction(repr(share)) * train["rows"])
            name = group.get("name")
            problems.expect(FILE, f"train rows of {name}, {share} of all", rows, train["rows_by_group"].get(name, 0))


def _check_pipeline(manifest: Json, problems: Problems) -> None:
    """What the manifest says twice: of the dataset, and of the pipeline that made it."""
    pipeline, layout, tokenizer = manifest["pipeline"], manifest["format"], manifest["tokenizer"]
    rows = pipeline.get("rows")
    twice = [(pipeline, "seed", "seed", manifest["seed"])]
    if isinstance(rows, dict):
        twice += [(rows, "rows.length", "length", layout["row_length"])]
        twice += [(rows, "rows.per_shard", "per_shard", layout["rows_per_shard"])]
        twice += [(rows, "rows.tokenizer", "tokenizer", tokenizer["sha256"])]
        twice += [(rows, f"rows.{name}", name, layout[name]) for name in ("bos", "eos")]
        twice += [(rows, f"rows.{k}", k, tokenizer[k]) for k in ("vocab_size", "bos_id", "eos_id", "probe_sha256")]
    for table, at, name, stated in twice:
        if name in table:
            problems.expect(FILE, f"pipeline.{at}", stated, table[name])


def _check_ids(dataset: Dataset, names: list[str], pieces: Buckets, problems: Problems) -> None:
    """Documents against kept records; tokens are distinct, repeated, or left out by mix or tail."""
    found = compare_ids(dataset, names, pieces, problems)
    stated = dataset.manifest["tokens"]
    problems.expect(FILE, "tokens.in_rows", stated["in_rows"], found.distinct)
    problems.expect(FILE, "tokens.repeated", stated["repeated"], found.repeated)
    left_out = stated["tail"] + stated["not_needed"]
    if found.absent > left_out:
        what = f"expected the {found.absent} that kept documents lack or more"
        problems.add(FILE, f"tokens.tail and tokens.not_needed: {what}, found {left_out}")
    for name in names:
        documents = dataset.manifest["splits"][name]["documents"]
        problems.expect(FILE, f"splits.{name}.documents", documents, found.documents[name])


def _check_format(dataset: Dataset, problems: Problems) -> bool:
    """Whether the files can be read as the manifest describes them."""
    manifest = dataset.manifest
    layout = manifest["format"]
    vocab_size = manifest["tokenizer"]["vocab_size"]
    problems.expect(FILE, "folder", manifest["dataset_id"][:12], dataset.folder)
    problems.expect(FILE, "format.kind", "rows", layout["kind"])
    problems.expect(FILE, "format.padding", "none", layout["padding"])
    same = problems.expect(FILE, f"format.dtype for {vocab_size} ids", token_dtype(vocab_size), layout["dtype"])
    for name in ("row_length", "rows_per_shard"):
        if layout[name] < 1:
            problems.add(FILE, f"format.{name}: expected 1 or more, found {layout[name]}")
    return same and layout["row_length"] > 0


def _verify_split(dataset: Dataset, split: str, number: int, pieces: Buckets, problems: Problems) -> Json:
    """Recount the shards of a split; its digest is None where a file of it could not be read."""
    stated = dataset.manifest["splits"][split]
    counts = Counts()
    rows, docs = [], []
    for i, _ in enumerate(stated["shards"]):
        shard = recount_shard(dataset, split, i, problems)
        if shard.pieces is not None:
            pieces.add(piece_records(shard.pieces, number, counts.num_rows))
        counts.add(shard.counts)
        rows.append(shard.rows_sha256)
        docs.append(shard.docs_logical)
    digest = None
    if all(rows) and all(docs):
        layout, tokenizer = dataset.manifest["format"], dataset.manifest["tokenizer"]["sha256"]
        digest = split_digest(layout, tokenizer, filter(None, rows), filter(None, docs))
        _check_split(f"splits.{split}", stated, counts, digest, problems)
    _check_shard_sizes(dataset, split, problems)
    groups = dict(sorted(counts.rows_by_group.items()))
    return {"rows": counts.num_rows, "tokens": counts.tokens, "digest": digest, "rows_by_group": groups}


def _check_split(at: str, stated: Json, counts: Counts, digest: str, problems: Problems) -> None:
    found = {"rows": counts.num_rows, "digest": digest}
    for name in ("tokens", "rows_by_group", "tokens_by_source", "tokens_by_license"):
        found[name] = getattr(counts, name)
    for name, value in found.items():
        problems.expect(FILE, f"{at}.{name}", stated[name], value)


def _check_shard_sizes(dataset: Dataset, split: str, problems: Problems) -> None:
    """A shard is rows_per_shard positions; only the last may be shorter."""
    rows_per_shard = dataset.manifest["format"]["rows_per_shard"]
    num_rows = [shard["num_rows"] for shard in dataset.manifest["splits"][split]["shards"]]
    for i, number in enumerate(num_rows[:-1]):
        problems.expect(FILE, f"splits.{split}.shards[{i}].num_rows", rows_per_shard, number)
    if num_rows and not 1 <= num_rows[-1] <= rows_per_shard:
        where = f"splits.{split}.shards[{len(num_rows) - 1}].num_rows"
        problems.add(FILE, f"{where}: expected 1 to {rows_per_shard}, found {num_rows[-1]}")


def _check_records(manifest: Json, records: Counter[Fate], problems: Problems) -> None:
    """The fates in the ledger against those stated; what is counted only has no line in the ledger."""
    problems.expect(FILE, "ledger.rows", manifest["ledger"]["rows"], records.total())
    by_fate: Counter[str] = Counter()
    by_source: Counter[tuple[str, str]] = Counter()
    for line, number in records.items():
        by_fate[line.fate] += number
        by_source[line.source, line.fate] += number
    for fate in ("kept", "merged", "quarantined"):
        problems.expect(FILE, f"records.{fate}", manifest["records"][fate], by_fate[fate])
    for fate, name in (("merged", "merged"), ("quarantined", "quarantined")):
        problems.expect(FILE, name, _flat(manifest[name]), _reasons(records, fate))
    counted_only = _check_drops(manifest, _reasons(records, "dropped"), problems)
    problems.expect(FILE, "counted_only", manifest["counted_only"], counted_only)
    problems.expect(FILE, "records.dropped", manifest["records"]["dropped"], by_fate["dropped"] + counted_only)
    _check_sources(manifest, by_source, problems)


def _reasons(records: Counter[Fate], fate: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line, number in records.items():
        if line.fate == fate:
            counts[f"{line.stage}.{line.reason}"] += number
    return counts


def _flat(table: Json) -> Json:
    return {f"{stage}.{reason}": number for stage, reasons in table.items() for reason, number in reasons.items()}


def _check_drops(manifest: Json, found: Counter[str], problems: Problems) -> int:
    """Drops of one stage and reason are all in the ledger or, by type, all counted only; the number of the latter."""
    stated = _flat(manifest["drops"])
    counted_only = {name: number for name, number in stated.items() if name not in found}
    problems.expect(FILE, "drops", stated, {**found, **counted_only})
    return sum(counted_only.values())


def _check_sources(manifest: Json, found: Counter[tuple[str, str]], problems: Problems) -> None:
    """Every fate of every source; drops may exceed the ledger's by those counted only."""
    stated = manifest["records"]["by_source"]
    for source in sorted({source for source, _ in found} - stated.keys()):
        problems.add("ledger", f"source: expected one of {', '.join(sorted(stated))}, found {source!r}")
    beyond = 0
    for source, records in sorted(stated.items()):
        at = f"records.by_source.{source}"
        for fate in ("kept", "merged", "quarantined"):
            problems.expect(FILE, f"{at}.{fate}", records[fate], found[source, fate])
        if records["dropped"] < found[source, "dropped"]:
            least = found[source, "dropped"]
            problems.add(FILE, f"{at}.dropped: expected at least the ledger's {least}, found {records['dropped']}")
        beyond += records["dropped"] - found[source, "dropped"]
        fates = sum(records[fate] for fate in FATES)
        problems.expect(FILE, f"{at}.in, the sum of its fates", records["in"], fates)
    problems.expect(FILE, "records.by_source.*.dropped beyond the ledger's", manifest["counted_only"], beyond)


def _check_sums(manifest: Json, problems: Problems) -> None:
    """The manifest's own rules, then those that every dataset must obey."""
    for source, stored in sorted(manifest["bytes"]["by_source"].items()):
        kinds = sum(stored[kind] for kind in ("records", "framing", "skipped", "lost"))
        problems.expect(FILE, f"bytes.by_source.{source}.content, the sum of its kinds", stored["content"], kinds)
    standard = [rule for rule in sum_rules() if rule not in manifest["sums"]]
    for line in broken_sums(manifest, [*manifest["sums"], *standard]):
        problems.add(FILE, line)
