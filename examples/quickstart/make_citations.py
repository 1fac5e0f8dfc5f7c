"""Citations of freely licensed articles, in the format of PubMed's yearly baseline and of the update file after it."""

import gzip
import re
from pathlib import Path
from typing import Any

PUBMED_ARTICLE = re.compile(r"<PubmedArticle>.*?</PubmedArticle>", re.DOTALL)
PMCID = re.compile(r'IdType="pmc">(PMC\d+)<')
HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" \
"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">
<!-- Not a file of NLM: titles, abstracts and ids of freely licensed articles in its format. See SOURCES.md. -->
<PubmedArticleSet>
"""
TAIL = "</PubmedArticleSet>\n"
REVISED = ("<DateRevised><Year>2025</Year>", "<DateRevised><Year>2026</Year>")


def read_citations(folder: Path) -> dict[str, str]:
    """The citations of the public files, by PMCID."""
    found = {}
    for path in sorted(folder.glob("derived_jats_*.xml.gz")):
        for match in PUBMED_ARTICLE.finditer(gzip.decompress(path.read_bytes()).decode("utf-8")):
            if pmcid := PMCID.search(match.group()):
                found[pmcid[1]] = match.group()
    return found


def write_citations(
    folder: Path, citations: dict[str, str], with_text: list[dict[str, Any]], alone: list[dict[str, Any]]
) -> None:
    """pubmed26n0001.xml.gz with the citations of all these articles, and pubmed26n0002.xml.gz.

    The second revises the first three of those that come `alone`, without a full text, and deletes the last of them.
    """
    folder.mkdir(exist_ok=True)
    baseline = [citations[row["pmcid"]] for row in (*with_text, *alone)]
    revised = [citations[row["pmcid"]].replace(*REVISED) for row in alone[:3]]
    deleted = f'<DeleteCitation>\n<PMID Version="1">{alone[-1]["pmid"]}</PMID>\n</DeleteCitation>'
    _write(folder / "pubmed26n0001.xml.gz", baseline)
    _write(folder / "pubmed26n0002.xml.gz", [*revised, deleted])


def _write(path: Path, records: list[str]) -> None:
    content = HEAD + "".join(f"{record}\n" for record in records) + TAIL
    path.write_bytes(gzip.compress(content.encode("utf-8"), 9, mtime=0))
