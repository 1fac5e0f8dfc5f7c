"""The quickstart's data are what SOURCES.md says: real, licensed, small, and made by the script beside them."""

import csv
import gzip
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

FREE = re.compile(r"https?://creativecommons\.org/licenses/by(-sa)?/[234]\.\d/?$|public domain")
MADE = ("pmc", "medline", "web", "general", "tokenizer", "sources.tsv")


@pytest.fixture(scope="module")
def quickstart(root: Path) -> Path:
    return root / "examples" / "quickstart"


def response_ids(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [str(record.record_id) for record in ArchiveIterator(file, record_types=WarcRecordType.response)]


def test_a_crawl_of_some_size(quickstart: Path) -> None:
    pages, speeches = quickstart / "web/pages.warc.gz", quickstart / "web/speeches.warc"
    assert len(response_ids(pages)) >= 60
    assert pages.stat().st_size >= 300 * 1024
    assert set(response_ids(pages)) & set(response_ids(speeches)), "one record is in both files"


def test_at_least_forty_articles(quickstart: Path) -> None:
    with tarfile.open(quickstart / "pmc/articles.tar.gz") as archive:
        packed = {Path(name).stem for name in archive.getnames() if name.endswith(".nxml")}
    loose = {path.stem for path in quickstart.glob("pmc/*.xml")}
    assert len(packed | loose) >= 40
    assert len(packed & loose) == 1, "one article is in both"


def test_every_text_has_an_origin_and_a_free_license(quickstart: Path) -> None:
    with (quickstart / "sources.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) >= 180
    assert all(row["origin"] and FREE.match(row["license"]) for row in rows)
    assert "Apache License" in (quickstart / "tokenizer/LICENSE").read_text("utf-8")


def test_units_of_16_kib_are_at_least_sixty(quickstart: Path) -> None:
    cuttable = [*quickstart.glob("web/*.warc*"), *quickstart.glob("general/*.jsonl")]
    assert sum(-(-path.stat().st_size // 16384) for path in cuttable) >= 60


def test_compressed_files_carry_no_time(quickstart: Path) -> None:
    for path in [*quickstart.glob("*/*.gz")]:
        assert path.read_bytes()[4:8] == b"\0\0\0\0", path.name
        assert gzip.decompress(path.read_bytes())


def test_the_script_makes_the_same_bytes(quickstart: Path, shared_data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "examples" / "quickstart"
    copy.mkdir(parents=True)
    for script in quickstart.glob("*.py"):
        shutil.copy(script, copy)
    command = [sys.executable, "-m", "examples.quickstart.make_data", str(shared_data.resolve())]
    subprocess.run(command, cwd=tmp_path, check=True)
    made = {
        path.relative_to(copy).as_posix(): path for name in MADE for path in [copy / name, *(copy / name).rglob("*")]
    }
    files = {name: path for name, path in made.items() if path.is_file()}
    assert len(files) == 19
    assert [name for name, path in files.items() if path.read_bytes() != (quickstart / name).read_bytes()] == []
