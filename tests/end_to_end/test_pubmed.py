"""PubMed through the real command: baseline, updates, deletions and full texts become one document an article."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stages.reference_pubmed import Document, verdicts_of

ROOT = Path(__file__).parents[2]
WORDS = (ROOT / "LICENSE").read_text().split()

PIPELINE = """
curate: 1
name: pubmed
seed: 7
documents:
  articles:
    read: {{use: stages.jats.ReadJats, paths: "pmc/*.xml"}}
    steps: [stages.jats.ExtractJats]
  citations:
    read: {{use: stages.medline.ReadMedline, paths: "{folders}/*.xml.gz"}}
  pubmed:
    from: [articles, citations]
    steps:
      - {one_document}
      - {{use: stages.license.KeepLicenses, allow: [cc-by], allow_unknown: [citation, deletion]}}
dataset:
  from: pubmed
  tokenizer: {{model: {tokenizer}, bos: document, eos: document}}
  rows: {{length: 128, packing: concat, per_shard: 64}}
limits: {{max_quarantined: 0.05}}
run: {{unit_bytes: {unit_bytes}}}
"""
Fates = Counter[tuple[str, str, str, str]]  # name, file, fate, reason


def prose(seed: int, num_words: int) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(num_words)).replace("&", "and").replace("<", "")


def article(number: int, pmid: str | None, license: str) -> bytes:
    ids = f'<article-id pub-id-type="pmc">{number}</article-id>'
    ids += f'<article-id pub-id-type="pmid">{pmid}</article-id>' if pmid else ""
    terms = f"<permissions><license><p>Creative Commons {license}</p></license></permissions>"
    front = f"<front><article-meta>{ids}{terms}</article-meta></front>"
    return f"<article>{front}<body><p>{prose(number, 300)}</p></body></article>".encode()


def citation(pmid: int, version: int, seed: int, pmcid: str | None) -> str:
    words = f"<Abstract><AbstractText>{prose(seed, 120)}</AbstractText></Abstract>"
    ids = f'<ArticleIdList><ArticleId IdType="pmc">{pmcid}</ArticleId></ArticleIdList>' if pmcid else ""
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article><ArticleTitle>On {pmid}.'
        f"</ArticleTitle>{words}<Language>eng</Language></Article></MedlineCitation><PubmedData>{ids}</PubmedData></PubmedArticle>"
    )


class PubMed:
    """Files with versions, deletions and full texts by chance, and the documents that they hold."""

    def __init__(self, folder: Path, baseline: str, updates: str) -> None:
        self.folder = folder
        self.documents: list[Document] = []
        self.labels: list[tuple[str, str]] = []  # name and file of each document
        chance = random.Random(3)
        for file in range(1, 5):
            home = baseline if file < 3 else updates
            self._write(folder / home / f"pubmed25n{file:04d}.xml.gz", file, chance)
        (folder / "pmc").mkdir()
        for number in range(100, 112):
            pmid = str(number) if number % 2 else None
            license = "Attribution" if number % 3 else "Attribution-NonCommercial"
            (folder / "pmc" / f"PMC{number}.xml").write_bytes(article(number, pmid, license))
            self._enter(Document(number=0, pmid=pmid, pmcid=f"PMC{number}"), f"PMC{number}", f"PMC{number}.xml")

    def _enter(self, document: Document, name: str, file: str) -> None:
        self.documents.append(document.__class__(**vars(document) | {"number": len(self.documents)}))
        self.labels.append((name, file))

    def _write(self, path: Path, file: int, chance: random.Random) -> None:
        path.parent.mkdir(exist_ok=True)
        pmids = range(100, 150) if file < 3 else chance.sample(range(100, 160), 20)
        parts = []
        for position, pmid in enumerate(pmids):
            pmcid = f"PMC{pmid}" if pmid < 115 else None
            version = chance.choice([1, 1, 1, 2])
            parts.append(citation(pmid, version, pmid * 10 + file, pmcid))
            one = Document(number=0, pmid=str(pmid), pmcid=pmcid, place=(file, position), version=version)
            self._enter(one, f"PMID:{pmid}", path.name)
        deleted = chance.sample(range(100, 165), 8)
        for position, pmid in enumerate(deleted, start=1000):
            one = Document(number=0, pmid=str(pmid), place=(file, position), version=1, is_deletion=True)
            self._enter(one, f"PMID:{pmid}", path.name)
        deletions = "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in deleted)
        text = f"<PubmedArticleSet>{''.join(parts)}<DeleteCitation>{deletions}</DeleteCitation></PubmedArticleSet>"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

    def pipeline(self, unit_bytes: str = "64 MiB", one_document: str = "stages.pubmed.OneDocumentPerPmid") -> Path:
        tokenizer = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
        text = PIPELINE.format(folders="*-files", tokenizer=tokenizer, unit_bytes=unit_bytes, one_document=one_document)
        path = self.folder / f"{len(text)}.yaml"
        path.write_text(text)
        return path

    def expected(self) -> Fates:
        """What becomes of each record; full texts that are not free take their citations with them."""
        verdicts = verdicts_of(self.documents, "full_text")
        fates: Fates = Counter()
        for at, (name, file) in enumerate(self.labels):
            fate, reason, _ = verdicts.get(at, ("kept", "", None))
            if fate == "kept" and name.startswith("PMC") and int(name[3:]) % 3 == 0:
                fate, reason = "dropped", "license"
            fates[name, file, fate, reason] += 1
        return fates


def fates_of(output: Path) -> Fates:
    manifest = output / json.loads((output / "MANIFEST").read_text("utf-8"))["manifest"]
    parts = json.loads(manifest.read_text("utf-8"))["ledger"]["parts"]
    lines = pa.concat_tables([pq.read_table(manifest.parent / part["key"]) for part in parts]).to_pylist()
    # What fills no row of its own at the end is a matter of packing.
    kept = [one | {"fate": "kept", "reason": ""} if one["stage"] == "pack" else one for one in lines]
    return Counter((one["name"], one["origin"]["key"].split("/")[-1], one["fate"], one["reason"] or "") for one in kept)


@pytest.fixture(scope="module")
def pubmed(tmp_path_factory: pytest.TempPathFactory) -> PubMed:
    return PubMed(tmp_path_factory.mktemp("pubmed"), "a-files", "b-files")


def test_one_document_an_article(pubmed: PubMed, curate: Any, read_manifest: Any, tmp_path: Path) -> None:
    curate("run", pubmed.pipeline(), "--output", tmp_path / "out", "--workers", 1)
    assert fates_of(tmp_path / "out") == pubmed.expected()
    manifest = read_manifest(tmp_path / "out")
    reasons = manifest["drops"]["one_document_per_pmid"] | manifest["merged"]["one_document_per_pmid"]
    assert set(reasons) == {"applied", "deleted", "full_text", "older_version"}
    assert json.loads(curate("verify", tmp_path / "out", "--json").stdout)["ok"]
    curate("run", pubmed.pipeline(unit_bytes="4 KiB"), "--output", tmp_path / "cut", "--workers", 2)
    assert read_manifest(tmp_path / "cut") == manifest


def test_the_order_in_which_files_are_read_does_not_matter(curate: Any, tmp_path: Path) -> None:
    """The updates lie in a folder before that of the baseline."""
    turned = PubMed(tmp_path, "b-files", "a-files")
    curate("run", turned.pipeline(), "--output", tmp_path / "out", "--workers", 1)
    assert fates_of(tmp_path / "out") == turned.expected()


def test_why_finds_all_records_of_a_pmid(pubmed: PubMed, curate: Any, tmp_path: Path) -> None:
    curate("run", pubmed.pipeline(), "--output", tmp_path / "out", "--workers", 1)
    answer = json.loads(curate("why", tmp_path / "out", "PMID:103", "--json").stdout)
    wanted = sum(count for (name, *_), count in pubmed.expected().items() if name in {"PMID:103", "PMC103"})
    assert len(answer["records"]) == wanted > 1


def test_deletions_without_the_step_are_told_apart(
    pubmed: PubMed, curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    file = pubmed.pipeline(one_document="stages.dedup.ExactDedup")
    curate("run", file, "--output", tmp_path / "out", "--workers", 1)
    assert read_manifest(tmp_path / "out")["drops"]["drop_empty"] == {"deletion_not_applied": 32}
