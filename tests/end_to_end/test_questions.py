"""Questions about the quickstart, answered as an independent reading of its inputs says."""

import io
import random
import re
import shutil
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import sentencepiece

from curate.report.trace import trace_row, trace_token
from curate.report.why import why
from tests.command import command, manifest_of
from tests.end_to_end.own_reading import Record, articles, bytes_at, citations, pages, texts, words_of

ROOT = Path(__file__).parents[2]
FOLDERS = {"articles": "pmc", "citations": "medline", "web": "web", "general": "general"}
NUM_QUESTIONS = 200
BROKEN_LINES = ['{"id": "cut", "text": "It ends ear', "not JSON at all", '{"id": 7 "text": "x"}', "[1, 2", "{'id': 1}"]


@dataclass(frozen=True)
class Quickstart:
    """A finished run over a copy of the example, to which lines were added that cannot be read."""

    folder: Path
    output: Path
    manifest: dict[str, Any]

    def root(self, source: str) -> Path:
        """The folder of a source's inputs."""
        return self.folder / FOLDERS[source]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Quickstart:
    folder = tmp_path_factory.mktemp("questions") / "quickstart"
    shutil.copytree(ROOT / "examples" / "quickstart", folder)
    with (folder / "general" / "speeches.jsonl").open("a") as file:
        file.write("\n".join(BROKEN_LINES) + "\n")
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(re.sub(r"max_quarantined: [0-9.]+", "max_quarantined: 0.5", pipeline.read_text()))
    output = folder.parent / "out"
    done = subprocess.run(
        command("run", pipeline, "--output", output, "--workers", 1), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return Quickstart(folder, output, manifest_of(output))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    model = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
    return sentencepiece.SentencePieceProcessor(model_file=str(model))


@pytest.fixture(scope="module")
def in_rows(quickstart: Quickstart) -> set[tuple[str, str]]:
    """(source, name) of the documents that the sidecars name."""
    folder = quickstart.output / quickstart.manifest["dataset_id"][:12]
    tables = [pq.read_table(io.BytesIO(path.read_bytes())) for path in folder.glob("*/docs-*")]
    return {(line["source"], line["name"]) for table in tables for line in table.to_pylist()}


@pytest.fixture(scope="module")
def records(quickstart: Quickstart, in_rows: set[tuple[str, str]]) -> list[Record]:
    """All named records, and the unreadable ones, with what must have become of them."""
    papers = list(articles(quickstart.root("articles")))
    full_texts = {ask: paper.name for paper in papers for ask in paper.ask if ask.isdigit()}
    lines = list(texts(quickstart.root("general")))
    for line in lines:
        if line.name and ("general", line.name) not in in_rows:  # one row in a hundred: most are not needed
            line.expected = Counter({("dropped", "not_needed"): 1})
    web = list(pages(quickstart.root("web")))
    expect_duplicates(web)
    return [*papers, *citations(quickstart.root("citations"), full_texts), *web, *lines]


def expect_duplicates(web: list[Record]) -> None:
    """Pages whose words are those of another page, all or nearly all: all but one of them are merged."""
    words = {record.name: set(zip(*[main_words(record)[i:] for i in range(5)], strict=False)) for record in web}
    candidates = [record for record in web if ("kept", None) in record.expected]
    for number, record in enumerate(candidates):
        for other in candidates[:number]:
            mine, theirs = words[record.name], words[other.name]
            if len(mine & theirs) > 0.8 * len(mine | theirs):
                for one, its_keeper in ((record, other), (other, record)):
                    one.keeper = f"{one.keeper}|{its_keeper.name}"


def main_words(record: Record) -> list[str]:
    main = re.search(rb"<main>(.*?)</main>", record.raws[0], re.DOTALL)
    return words_of(main[1] if main else record.raws[0])


def test_every_record_is_counted_once(quickstart: Quickstart, records: list[Record]) -> None:
    """The reading of this test finds as many records as the manifest says, but for those dropped by type."""
    by_source = quickstart.manifest["records"]["by_source"]
    found = Counter({name: sum(r.expected.total() for r in records if r.source == name) for name in by_source})
    listed = {name: counts["in"] for name, counts in by_source.items()}
    counted_only = sum(listed.values()) - found.total()
    assert counted_only == quickstart.manifest["counted_only"]
    assert (found["citations"], found["general"]) == (listed["citations"], listed["general"])


def test_why_tells_the_truth_about_200_records(
    quickstart: Quickstart, records: list[Record], in_rows: set[tuple[str, str]], tokenizer: Any
) -> None:
    chance = random.Random(20261201)
    chosen = chance.sample(records, min(NUM_QUESTIONS, len(records)))
    assert len(chosen) == NUM_QUESTIONS
    fates = Counter[str]()
    for record in chosen:
        answer = why(str(quickstart.output), chance.choice(record.ask))
        found = [
            one for one in answer["records"] if one["source"] == record.source and one.get("name", "") == record.name
        ]
        told = Counter((one["fate"], one.get("reason")) for one in found)
        if "|" in (record.keeper or "") and told != +record.expected:  # another of those that say the same was kept
            merged = sum(number for (fate, _), number in told.items() if fate == "merged")
            assert merged == told.total() == record.expected.total(), told
        else:
            assert told == +record.expected, (record.name, record.ask)
        for one in found:
            fates[one["fate"]] += 1
            check(quickstart, record, one, in_rows, tokenizer)
    assert min(fates[fate] for fate in ("kept", "dropped", "merged", "quarantined")) >= 3


def check(
    quickstart: Quickstart, record: Record, told: dict[str, Any], in_rows: set[tuple[str, str]], tokenizer: Any
) -> None:
    """One answer against the inputs and the rows."""
    raw = bytes_at(quickstart.root(record.source), told["origin"])
    if told.get("reason") != "applied":  # a deletion has no text
        assert any(words_of(raw)[-20:] == words_of(cut(raw, mine))[-20:] for mine in record.raws), told
    if told["fate"] == "kept":
        assert (record.source, record.name) in in_rows
        assert told["pieces"][0]["token_offset"] == 0 or record.source == "general"  # of which a row was taken
        words = WORDS.findall(tokenizer.decode(tokens_of(quickstart, told)))
        absent = {word for word in words[1:40] if word not in written_in(raw)}
        assert absent <= {"Abstract"}, record.name  # a heading that JATS implies
    elif told["fate"] == "merged":
        assert told["kept"]["name"] in str(record.keeper).split("|")
        assert told["kept"]["fate"] == "kept"
        assert (told["kept"]["source"], told["kept"]["name"]) in in_rows
        assert tokens_of(quickstart, told["kept"])
    elif told["fate"] == "dropped":
        assert (record.source, record.name) not in in_rows
        assert told["decision"]["stage"] == told["stage"]
    if told.get("reason") == "too_few_words":
        assert told["decision"]["limit"] == {"min_words": 50}
        assert told["decision"]["value"]["num_words"] < 50
    if told.get("reason") == "language":
        assert told["decision"]["options"]["languages"] == ["en"]
    if told["fate"] == "quarantined":
        assert raw == record.raws[0]


WORDS = re.compile(r"[^\W_]{4,}")


def written_in(raw: bytes) -> str:
    """The words of a record without what parts them, and its markup, where the labels of an abstract stand."""
    return "".join(words_of(raw)) + raw.decode("utf-8", "replace")


def cut(raw: bytes, mine: bytes) -> bytes:
    """A record as own reading cut it, up to where `bytes_at` ends."""
    for end in (b"</PubmedArticle>", b"</article>"):
        mine = mine if end in raw else mine.partition(end)[0]
    return mine


def tokens_of(quickstart: Quickstart, told: dict[str, Any]) -> list[int]:
    """The tokens of the first piece of a kept record, from the shard's bytes."""
    piece = told["pieces"][0]
    length, per_shard = (quickstart.manifest["format"][name] for name in ("row_length", "rows_per_shard"))
    rows = np.fromfile(quickstart.output / piece["shard"], dtype="<u2").reshape(-1, length)
    tokens: list[int] = rows[piece["row"] % per_shard][piece["start"] :][: piece["length"]].tolist()
    return tokens


def random_places(quickstart: Quickstart, number: int) -> Iterator[tuple[str, int, int]]:
    chance = random.Random(7)
    splits = {name: split["rows"] for name, split in quickstart.manifest["splits"].items()}
    for _ in range(number):
        split = chance.choice([name for name, rows in splits.items() for _ in range(rows)])
        yield split, chance.randrange(splits[split]), chance.randrange(quickstart.manifest["format"]["row_length"])


def test_trace_leads_from_200_tokens_to_the_bytes_that_hold_their_text(quickstart: Quickstart, tokenizer: Any) -> None:
    num_words = 0
    for split, row, position in random_places(quickstart, 200):
        found = trace_token(str(quickstart.output), split, row, position)
        document, around = found["document"], found["text"]
        assert around is not None, found["note"]
        if found["note"] is None:
            piece = tokenizer.id_to_piece(found["token"]["id"])
            assert re.sub(r"<0x..>", "", piece).replace("\u2581", " ").strip() in around["token"]
        raw = bytes_at(quickstart.root(document["source"]), document["origin"])
        held = "".join(words_of(raw))
        window = unicodedata.normalize("NFC", around["before"][-60:] + around["token"] + around["after"][:60])
        here = WORDS.findall(window)[1:-1]  # the first and last may be cut
        assert all(word in held for word in here), (document["name"], window)
        token = "".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFC", around["token"])))
        assert token in held
        num_words += len(here)
    assert num_words > 1500


def test_trace_of_a_row_lists_its_pieces(quickstart: Quickstart, tokenizer: Any) -> None:
    found = trace_row(str(quickstart.output), "train", 0)
    assert sum(piece["length"] for piece in found["pieces"]) == 4096
    for piece in found["pieces"]:
        raw = bytes_at(quickstart.root(piece["document"]["source"]), piece["document"]["origin"])
        held = "".join(words_of(raw))
        assert all(word in held for word in WORDS.findall(piece["begins"])[1:-1])
