"""Writes the quickstart's input files again: python -m examples.quickstart.make_data FOLDER_WITH_THE_SOURCES

FOLDER holds the public files that SOURCES.md names. The same files give the same bytes. The pages of the two WARC files
are rendered here from freely licensed texts, so that a small crawl can be shipped: they were never fetched from a site.
"""

import argparse
import gzip
import io
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any

import zstandard

from examples.quickstart.make_citations import read_citations, write_citations
from examples.quickstart.make_pages import (
    CC_BY,
    Page,
    article_page,
    declaration_page,
    license_of,
    origin_of,
    speech_page,
    wikipedia_pages,
)
from examples.quickstart.make_warc import oddities, page_response, request, warcinfo

HERE = Path(__file__).parent
LICENSE_URL = re.compile(r"creativecommons\.org/(?:licenses|publicdomain)/[a-z/+-]+[\d.]*")
WIKIPEDIA_TITLES = [
    "Aardvark",
    "Aardwolf",
    "Abacus",
    "Achilles",
    "Acid",
    "Actinopterygii",
    "Agricultural science",
    "Aikido",
    "Albedo",
    "Algae",
    "Alkane",
    "Alphabet",
    "Altruism",
    "Ambiguity",
    "Ampere",
    "Anatomy",
    "Android (robot)",
    "Animation",
    "Apollo 8",
    "Appellate court",
    "Arithmetic mean",
    "Asphalt",
    "Assistive technology",
    "Atomic number",
    "Austroasiatic languages",
    "International Atomic Time",
]
DECLARATION_LANGUAGES = ("arb", "deu", "fra", "jpn", "rus", "spa")
STORIES = (
    "A Modest Proposal",
    "An Occurrence at Owl Creek Bridge",
    "Civil Disobedience",
    "Rip Van Winkle",
    "The Black Cat",
)
WEB_YEARS = range(1861, 1873)
CRAWL_YEARS = (1881, 1882, 1883, 1916, 1920)
GENERAL_YEARS = range(1801, 1817)


Article = tuple[dict[str, Any], bytes]  # its line of the manifest, and the file


def jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of an .xz file of JSON lines."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def eligible_articles(folder: Path) -> list[Article]:
    """English CC BY articles with abstract and body whose file names one licence only, smallest first."""
    rows = [json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()]
    wanted = {
        row["member"]: row
        for row in rows
        if row["source"] == "evidence_inference" and row["licence"] == "cc-by" and row["lang"] in (None, "en")
        if row["abstract_chars"] > 500 and row["body_chars"] > 8000 and row["bytes"] < 60_000
    }
    found = []
    with tarfile.open(folder / "jats_evidence_inference.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None or member.name not in wanted:
                continue
            raw = file.read()
            xml = raw.decode("utf-8", "replace")
            if len(set(LICENSE_URL.findall(xml))) == 1 and CC_BY.search(xml):
                found.append((wanted[member.name], raw))
    return sorted(found, key=lambda item: (item[0]["bytes"], item[0]["pmcid"]))


def write_articles(articles: list[Article], num_loose: int) -> None:
    """One package as PMC makes them, some files beside it, one of them also in the package."""
    folder = HERE / "pmc"
    folder.mkdir(exist_ok=True)
    loose, packed = articles[:num_loose], articles[num_loose - 1 :]
    for row, raw in loose:
        (folder / f"{row['pmcid']}.xml").write_bytes(raw)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        listing = "".join(f"{row['pmcid']}\t{license_of(raw)}\n" for row, raw in packed).encode()
        members = [(f"{row['pmcid']}/{row['pmcid']}.nxml", raw) for row, raw in packed]
        for name, raw in [("filelist.txt", listing), *members]:
            member = tarfile.TarInfo(f"oa_comm/{name}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    (folder / "articles.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))


def write_warcs(pages: list[Page], speeches: list[Page]) -> None:
    """web/pages.warc.gz, one gzip member a record, and web/speeches.warc, not compressed."""
    folder = HERE / "web"
    folder.mkdir(exist_ok=True)
    records = [warcinfo("pages.warc.gz")]
    for position, page in enumerate(pages):
        records += [request(page.url), page_response(position, page)]
    records += oddities(pages[0], pages[1])
    (folder / "pages.warc.gz").write_bytes(b"".join(gzip.compress(record, 9, mtime=0) for record in records))
    again = records[2]  # the same record in two files: merged by its id
    plain = [warcinfo("speeches.warc"), *(page_response(0, page) for page in speeches), again]
    (folder / "speeches.warc").write_bytes(b"".join(plain))


def write_general(speeches: list[dict[str, Any]], books: list[dict[str, Any]]) -> None:
    """general/speeches.jsonl and general/stories.jsonl.zst."""
    folder = HERE / "general"
    folder.mkdir(exist_ok=True)

    def lines(rows: list[dict[str, Any]]) -> bytes:
        kept = [{"id": row["id"], "text": row["text"]} for row in rows]
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept).encode("utf-8")

    (folder / "speeches.jsonl").write_bytes(lines(speeches))
    (folder / "stories.jsonl.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(lines(books)))


def copy_files(sources: Path) -> None:
    """The crawled page of Common Crawl and the tokenizer, as they are."""
    (HERE / "web" / "common-crawl.warc.gz").write_bytes((sources / "web/warc/cc_whirlwind.warc.gz").read_bytes())
    folder = HERE / "tokenizer"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.model").write_bytes((sources / "tokenizers/mistral_v1.tokenizer.model").read_bytes())
    (folder / "LICENSE").write_bytes((sources / "tokenizers/mistral_v1.LICENSE").read_bytes())


def write_table(
    articles: list[Article], citations: list[Article], pages: list[Page], general: list[dict[str, Any]]
) -> None:
    """sources.tsv: one line a text, with its origin and licence."""
    rows = [("pmc", row["title"], origin_of(row), license_of(raw)) for row, raw in articles]
    rows += [("medline", row["title"], origin_of(row), license_of(raw)) for row, raw in citations]
    rows += [("web", page.title, page.origin, page.license) for page in pages]
    rows += [("general", row.get("title") or str(row["year"]), row["id"], "public domain") for row in general]
    lines = ["folder\ttitle\torigin\tlicense", *("\t".join(" ".join(cell.split()) for cell in row) for row in rows)]
    (HERE / "sources.tsv").write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    """Read the sources and write every file beside this script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    sources: Path = parser.parse_args().sources

    articles = eligible_articles(sources / "pubmed/jats")
    shipped, rendered, cited = articles[0:132:3], articles[1:85:3], articles[2:122:3]
    messages = {row["year"]: row for row in jsonl(sources / "text/state_of_the_union.jsonl.xz")}
    declaration = {row["code"]: row for row in jsonl(sources / "text/udhr2_langid_gold.jsonl.xz")}
    wiki = "text/wikipedia_dump_samples/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    crawl_speeches = [speech_page(messages[year]) for year in CRAWL_YEARS]
    pages = [
        *(article_page(row, raw) for row, raw in rendered),
        *wikipedia_pages(sources / wiki, WIKIPEDIA_TITLES),
        *(declaration_page(declaration[code]) for code in DECLARATION_LANGUAGES),
        *crawl_speeches,
    ]
    speeches = [speech_page(messages[year]) for year in WEB_YEARS]
    general = [messages[year] for year in GENERAL_YEARS]
    stories = [row for row in jsonl(sources / "text/books_public_domain.jsonl.xz") if row["title"] in STORIES]

    write_articles(shipped, num_loose=8)
    citations = read_citations(sources / "pubmed/medline")
    write_citations(HERE / "medline", citations, [row for row, _ in shipped], [row for row, _ in cited])
    write_warcs(pages, speeches)
    write_general(general, stories)
    copy_files(sources)
    write_table(shipped, cited, pages + speeches, general + stories)


if __name__ == "__main__":
    main()
