"""One percent of general text in all the articles that there are here, at full row length."""

import io
import json
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.recount import check_share, groups_of

ROOT = Path(__file__).parents[2]
NUM_PACKAGES = 8  # of about equal size, so that two workers share them well
NUM_ARTICLES = 2438

PIPELINE = """\
curate: 1
name: one-percent
seed: 1234
documents:
  articles:
    read: {{use: stages.jats.ReadJats, paths: "*.tar"}}
    steps: [stages.jats.ExtractJats]
  books: {{read: {{use: stages.jsonl.ReadJsonl, paths: books.jsonl, id: id, text: text}}}}
  corpus: {{from: [articles, books]}}
dataset:
  from: corpus
  mix:
    domain: {{sources: [articles], take: all}}
    general: {{sources: [books], share: 0.01}}
  tokenizer: {{model: {tokenizer}}}
  rows: {{length: 4096, per_shard: 512}}
run: {{unit_bytes: 16 MiB}}
"""


def articles(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All articles, by name."""
    for path in sorted(folder.glob("jats_*.tar.xz")):
        with tarfile.open(path) as package:
            for member in package:
                file = package.extractfile(member)
                if file is not None and member.name.endswith(("xml", "nxml")):
                    yield f"{path.stem}/{member.name}", file.read()


@pytest.fixture
def inputs(shared_data: Path, tmp_path: Path) -> Path:
    """The articles in packages, the books as lines, and the pipeline."""
    with ExitStack() as stack:
        packages = [stack.enter_context(tarfile.open(tmp_path / f"{one}.tar", "w")) for one in range(NUM_PACKAGES)]
        for number, (name, data) in enumerate(articles(shared_data / "pubmed/jats")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packages[number % NUM_PACKAGES].addfile(member, io.BytesIO(data))
    books = lzma.decompress((shared_data / "text/books_public_domain.jsonl.xz").read_bytes())
    (tmp_path / "books.jsonl").write_bytes(books)
    tokenizer = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(tokenizer=tokenizer))
    return tmp_path


def test_general_rows_are_one_percent_of_all_rows(inputs: Path, curate: Any, read_manifest: Any) -> None:
    output = inputs / "out"
    curate("run", inputs / "pipeline.yaml", "--output", output, "--on", "local", "--workers", 2)
    manifest = read_manifest(output)
    assert manifest["records"]["by_source"]["articles"]["in"] == NUM_ARTICLES
    assert check_share(groups_of(output, manifest, "train"), "0.01") >= 40
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]
