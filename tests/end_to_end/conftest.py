"""A small corpus with everything that makes cutting hard."""

import gzip
import io
import json
import random
import subprocess
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import command, manifest_of

ROOT = Path(__file__).parents[2]
WORDS = (ROOT / "LICENSE").read_text().split()

PIPELINE = """
curate: 1
name: small
seed: 7
documents:
  articles:
    read: {{use: stages.jats.ReadJats, paths: ["pmc/*.tar.gz", "pmc/*.xml"]}}
    steps: [stages.jats.ExtractJats]
  web:
    read: {{use: stages.warc.ReadWarc, paths: ["web/*.warc.gz", "web/*.warc"]}}
    steps:
      - {{use: stages.html.ExtractHtml, extractor: resiliparse}}
      - stages.statistics.TextStatistics
      - {{use: stages.score.KeepTop, column: num_words, share: 0.9}}
{web_steps}
  general:
    read: {{use: stages.jsonl.ReadJsonl, paths: ["general/*.jsonl", "general/*.jsonl.gz"], id: id, text: text}}
  corpus: {{from: [articles, web, general], steps: [stages.dedup.MinHashDedup]}}
dataset:
  from: corpus
  tokenizer: {{model: {tokenizer}, bos: document, eos: document}}
  rows: {{length: {length}, packing: concat, per_shard: 64}}
limits: {{max_quarantined: {max_quarantined}}}
run: {{unit_bytes: {unit_bytes}}}
"""


@dataclass(frozen=True)
class Corpus:
    """A folder with inputs, and pipelines over them."""

    folder: Path

    def pipeline(self, **changes: Any) -> Path:
        """A pipeline file; `changes` are seed-free settings of the template, and `replace` = (old, new) of its text."""
        old, new = changes.pop("replace", ("", ""))
        values: dict[str, Any] = {"unit_bytes": "64 MiB", "length": 256, "web_steps": "", "max_quarantined": 0.05}
        tokenizer = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
        text = PIPELINE.format(tokenizer=tokenizer, **values | changes)
        assert old in text, f"nothing to replace: {old!r}"
        text = text.replace(old, new)
        path = self.folder / f"pipeline-{zlib.crc32(text.encode()):08x}.yaml"
        path.write_text(text)
        return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """WARC inside WARC, stored gzip members, records longer than a 16 KiB unit, packages, lines, repeated records."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in ("web", "pmc", "general"):
        (folder / name).mkdir()
    make_web(folder / "web")
    make_articles(folder / "pmc")
    make_general(folder / "general")
    return Corpus(folder)


def prose(seed: int, num_words: int) -> str:
    """Sentences of words drawn with a seed."""
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(num_words))


def record(url: str, body: bytes, kind: str = "response", media: str = "text/html; charset=utf-8") -> bytes:
    """One WARC record."""
    http = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    block = http if kind == "response" else body
    number = zlib.crc32(url.encode() + kind.encode())
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012d}>\r\n"
        f"WARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Type: application/http\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def page(seed: int, num_words: int = 300) -> bytes:
    """A page with a paragraph."""
    return f"<html><head><title>Page {seed}</title></head><body><p>{prose(seed, num_words)}</p></body></html>".encode()


def make_web(folder: Path) -> None:
    """A crawl with per-record gzip, parts of it stored, and the same kind of records in a plain file."""
    inner = b"".join(gzip.compress(record(f"http://inner/{i}", page(500 + i)), mtime=0) for i in range(40))
    members = []
    for number in range(150):
        url = f"http://site/{number}"
        members.append(gzip.compress(record(url, b"GET /", kind="request"), mtime=0))
        level = 0 if number % 7 == 0 else 6
        body = page(number, 9000 if number % 40 == 3 else 300)
        members.append(gzip.compress(record(url, body), compresslevel=level, mtime=0))
        if number in (20, 70):  # stored: the bytes of 40 sound members stand verbatim inside one record
            nested = record(f"http://nested/{number}", inner, media="application/gzip")
            members.append(gzip.compress(nested, compresslevel=0, mtime=0))
            wrapped = record(f"http://text/{number}", inner.replace(b"<", b"&"), media="text/html")
            members.append(gzip.compress(wrapped[:40_000], compresslevel=0, mtime=0))
    members.append(members[1])  # the same record again
    (folder / "crawl.warc.gz").write_bytes(b"".join(members))
    nested_plain = b"".join(record(f"http://deep/{i}", page(700 + i)) for i in range(30))
    plain = [record(f"http://plain/{i}", page(200 + i, 6000 if i == 5 else 250)) for i in range(60)]
    plain.insert(12, record("http://plain/nested", nested_plain, media="application/warc"))
    (folder / "more.warc").write_bytes(b"".join(plain))


def make_articles(folder: Path) -> None:
    """A package with members that are no articles, and single files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as package:
        for number in range(20):
            add(package, f"J/PMC{number}.nxml", article(number))
            add(package, f"J/figure{number}.jpg", bytes(range(256)) * 4)
    (folder / "package.tar.gz").write_bytes(stream.getvalue())
    for number in range(20, 26):
        (folder / f"PMC{number}.xml").write_bytes(article(number))


def add(package: tarfile.TarFile, name: str, data: bytes) -> None:
    """A member without time or owner."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    package.addfile(member, io.BytesIO(data))


def article(number: int) -> bytes:
    """A JATS article."""
    return (
        '<article article-type="research-article"><front><article-meta>'
        f'<article-id pub-id-type="pmc">{number}</article-id>'
        f"<title-group><article-title>On {prose(number, 5)}</article-title></title-group><permissions><license "
        'xlink:href="https://creativecommons.org/licenses/by/4.0/" '
        'xmlns:xlink="http://www.w3.org/1999/xlink"/></permissions>'
        f"<abstract><p>{prose(1000 + number, 80)}</p></abstract></article-meta></front>"
        f"<body><sec><title>Methods</title><p>{prose(2000 + number, 900)}</p></sec></body></article>"
    ).encode()


def make_general(folder: Path) -> None:
    """Lines: one repeated, some nearly, one id with two contents, one broken; the second file is one gzip stream."""
    rows = [json.dumps({"id": f"g{i}", "text": prose(3000 + i, 4000 if i == 9 else 250)}) for i in range(150)]
    near = [json.dumps({"id": f"near{i}", "text": prose(3000 + i, 250) + " and so on"}) for i in (20, 21, 60)]
    lines = [
        *rows[:100],
        rows[3],
        *near,
        json.dumps({"id": "g4", "text": "other words"}),
        '{"id": "broken", "text"',
        "",
        rows[100],
    ]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(rows[101:]).encode(), mtime=0))


@pytest.fixture(scope="session")
def undisturbed(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The manifest of a run in one process with one unit an input, that nothing disturbed."""
    output = tmp_path_factory.mktemp("undisturbed")
    done = subprocess.run(
        command("run", corpus.pipeline(), "--output", output, "--workers", 1),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return manifest_of(output)
