"""Freely licensed texts as web pages, each between the furniture that real pages have."""

import bz2
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

CC_BY = re.compile(r"https?://creativecommons\.org/licenses/by/[234]\.\d")


@dataclass(frozen=True, kw_only=True)
class Page:
    """One rendered page and where its text comes from."""

    url: str
    title: str
    body: str  # HTML between the site's own furniture
    site: str
    origin: str
    license: str
    language: str = "en"


# JATS articles


def origin_of(row: dict[str, Any]) -> str:
    """Where an article was published, from its line of the manifest."""
    return f"{row['pmcid']}; doi {row['doi'] or '-'}; {row['journal']}"


def license_of(raw: bytes) -> str:
    """The address of the article's licence."""
    match = CC_BY.search(raw.decode("utf-8", "replace"))
    if match is None:
        raise ValueError("an article without a licence")
    return match.group()


INLINE = {"italic": "i", "bold": "b", "sup": "sup", "sub": "sub"}
LEFT_OUT = set(
    ["disp-formula", "fig", "fn", "graphic", "inline-formula", "label", "media", "supplementary-material", "table-wrap"]
)


def inline_html(node: Any) -> str:
    """The HTML of a JATS element's content, figures and tables left out."""
    parts = [html.escape(node.text or "", quote=False)]
    for child in node:
        if isinstance(child.tag, str) and child.tag not in LEFT_OUT:
            inner, tag = inline_html(child), INLINE.get(child.tag)
            parts.append(f"<{tag}>{inner}</{tag}>" if tag else inner)
        parts.append(html.escape(child.tail or "", quote=False))
    return "".join(parts)


def blocks_html(node: Any, depth: int) -> str:
    """Sections and paragraphs below a JATS element as HTML."""
    parts = []
    for child in node:
        if child.tag == "sec":
            parts.append(f"<section>\n{blocks_html(child, depth + 1)}</section>\n")
        elif child.tag == "title":
            parts.append(f"<h{depth}>{inline_html(child)}</h{depth}>\n")
        elif child.tag == "p":
            parts.append(f"<p>{' '.join(inline_html(child).split())}</p>\n")
        elif child.tag == "list":
            parts.append("<ul>\n" + "".join(f"<li>{blocks_html(item, depth)}</li>\n" for item in child) + "</ul>\n")
    return "".join(parts)


def article_page(row: dict[str, Any], raw: bytes) -> Page:
    """A CC BY article as a page of a journal's site."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    root = etree.fromstring(raw, parser)
    authors = root.xpath("//article-meta//contrib/name")
    names = [" ".join(name.xpath("given-names//text() | surname//text()")) for name in authors]
    url = f"https://journals.example.org/articles/{row['pmcid']}"
    body = (
        f'<p class="byline">{html.escape("; ".join(names))}. <cite>{html.escape(row["journal"])}</cite></p>\n'
        f"<h2>Abstract</h2>\n{''.join(blocks_html(part, 2) for part in root.xpath('//article-meta/abstract'))}"
        f"{''.join(blocks_html(part, 1) for part in root.xpath('/article/body'))}"
        f'<p class="license">First published as {row["pmcid"]}, doi {html.escape(row["doi"] or "-")}, under '
        f'<a href="{license_of(raw)}">CC BY</a>; figures, tables and references left out.</p>\n'
    )
    return Page(
        url=url,
        title=row["title"],
        body=body,
        site="Open Trials Reader",
        origin=origin_of(row),
        license=license_of(raw),
    )


# Wikipedia


def without_nested(text: str, opening: str, closing: str) -> str:
    """`text` without everything between balanced `opening` and `closing` marks."""
    kept, depth, pattern = [], 0, re.compile(f"{re.escape(opening)}|{re.escape(closing)}")
    start = 0
    for match in pattern.finditer(text):
        if depth == 0:
            kept.append(text[start : match.start()])
        depth = depth + 1 if match.group() == opening else max(0, depth - 1)
        start = match.end()
    return "".join(kept) + ("" if depth else text[start:])


def plain_wikitext(text: str) -> str:
    """Wikitext without comments, references, templates, tables and pictures."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<ref[^>/]*/>|<ref.*?</ref>|<gallery.*?</gallery>|<math.*?</math>", "", text, flags=re.S)
    text = re.sub(r"\{\{convert\|([^|{}]+)\|(to|-|\u2013|and)\|([^|{}]+)\|([^|{}]+)[^{}]*\}\}", r"\1 to \3 \4", text)
    text = re.sub(r"\{\{convert\|([^|{}]+)\|([^|{}]+)[^{}]*\}\}", r"\1 \2", text)
    text = without_nested(without_nested(text, "{{", "}}"), "{|", "|}")
    text = re.sub(r"\[\[(?:File|Image|Category):(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]", "", text)
    text = re.sub(r"<[^>]+>", "", text)
    return re.sub(r"\(\s*[;,]?\s*\)| +(?=[,.;])", "", text)


def wiki_line(line: str) -> str:
    """One line of plain wikitext as HTML."""
    line = html.escape(html.unescape(line.strip()), quote=False)
    line = re.sub(r"\[\[([^|\[\]]*\|)?([^\[\]]*)\]\]", r'<a href="#">\2</a>', line)
    line = re.sub(r"\[https?://\S+ ([^\]]*)\]", r"\1", line)
    line = re.sub(r"'''(.+?)'''", r"<b>\1</b>", line)
    return re.sub(r"''(.+?)''", r"<i>\1</i>", line)


CLOSING_SECTIONS = {"See also", "References", "Notes", "Further reading", "External links", "Bibliography"}


def wiki_html(text: str) -> str:
    """The HTML of plain wikitext up to its closing lists of references and links."""
    parts = []
    for line in text.splitlines():
        heading = re.fullmatch(r"(={2,4})\s*(.*?)\s*\1\s*", line)
        if heading and heading.group(2) in CLOSING_SECTIONS:
            break
        if heading:
            level = len(heading.group(1))
            parts.append(f"<h{level}>{wiki_line(heading.group(2))}</h{level}>\n")
        elif line.startswith(("*", "#")):
            parts.append(f"<ul><li>{wiki_line(line.lstrip('*#:; '))}</li></ul>\n")
        elif line.strip() and not line.startswith((":", ";", "|", "!")):
            parts.append(f"<p>{wiki_line(line)}</p>\n")
    return "".join(parts)


def wikipedia_pages(path: Path, titles: list[str]) -> list[Page]:
    """The articles of these titles in a cut Wikipedia dump."""
    with bz2.open(path, "rt", encoding="utf-8") as file:
        dump = file.read()
    pages = []
    for block in re.findall(r"<page>.*?</page>", dump, flags=re.S):
        title, revision = (re.search(p, block, re.S) for p in (r"<title>(.*?)</title>", r"<revision>\s*<id>(\d+)</id>"))
        text = re.search(r"<text[^>]*>(.*?)</text>", block, re.S)
        if not (title and revision and text) or title.group(1) not in titles:
            continue
        name, slug = html.unescape(title.group(1)), title.group(1).replace(" ", "_")
        source = f"https://en.wikipedia.org/w/index.php?title={slug}&oldid={revision.group(1)}"
        note = (
            f'<p class="license">By the authors of <a href="{html.escape(source)}">Wikipedia: {html.escape(name)}</a>, '
            '<a href="https://creativecommons.org/licenses/by-sa/3.0/">CC BY-SA 3.0</a>. '
            "Templates, tables, pictures and references were taken out.</p>\n"
        )
        body = wiki_html(plain_wikitext(html.unescape(text.group(1)))) + note
        pages.append(
            Page(
                url=f"https://encyclopedia.example.org/wiki/{slug}",
                title=name,
                body=body,
                site="Example Encyclopedia",
                origin=source,
                license="https://creativecommons.org/licenses/by-sa/3.0/",
            )
        )
    return sorted(pages, key=lambda page: page.url)


# Public-domain texts


def paragraphs(text: str, sentences_each: int = 4) -> str:
    """Running text as HTML paragraphs of a few sentences."""
    sentences = re.split(r"(?<=[.?!]) +(?=[A-Z])", " ".join(text.split()))
    groups = [sentences[i : i + sentences_each] for i in range(0, len(sentences), sentences_each)]
    return "".join(f"<p>{html.escape(' '.join(group), quote=False)}</p>\n" for group in groups)


def speech_page(row: dict[str, Any]) -> Page:
    """An annual message of a President of the United States as a page."""
    name = " ".join(row["id"].split("/")[1].split("_")[1:-1]).title()
    return Page(
        url=f"https://speeches.example.org/annual-messages/{row['year']}",
        title=f"Annual message to Congress, {row['year']} ({name})",
        body=paragraphs(row["text"]),
        site="Speeches of Two Centuries",
        origin=row["id"],
        license="public domain (work of the United States Government)",
    )


def declaration_page(row: dict[str, Any]) -> Page:
    """The Universal Declaration of Human Rights in a language that the pipeline does not keep."""
    lines = row["text"].split("\n")
    return Page(
        url=f"https://rights.example.org/declaration/{row['code']}",
        title=lines[0],
        body="".join(f"<p>{html.escape(line)}</p>\n" for line in lines[1:] if line.strip()),
        site="Rights",
        origin=f"udhr2/{row['code']}",
        license="public domain",
        language=row["code"][:2],
    )


# The page around the text


def page_html(page: Page) -> str:
    """A whole page: the text between the navigation, side bar and footer that real pages have."""
    words = ("Home", "Browse", "Search", "About", "Contact")
    links = "".join(f'<li><a href="/{word.lower()}">{word}</a></li>' for word in words)
    related = "".join(f'<li><a href="/item/{n}">Read next: item {n}</a></li>' for n in range(1, 6))
    return (
        f'<!DOCTYPE html>\n<html lang="{page.language}">\n<head>\n'
        f"<title>{html.escape(page.title)} | {page.site}</title>\n"
        f"<style>body {{ font-family: serif; margin: 2em }} nav li {{ display: inline }}</style>\n"
        f'<script>window.settings = {{"tracking": false, "page": {json.dumps(page.url)}}};</script>\n</head>\n<body>\n'
        f"<header><p>{page.site}</p><nav><ul>{links}</ul></nav></header>\n"
        f'<div class="notice">We use cookies. <button>Accept</button> <button>Decline</button></div>\n'
        f"<main><article>\n<h1>{html.escape(page.title)}</h1>\n{page.body}</article></main>\n"
        f"<aside><h3>Related</h3><ul>{related}</ul></aside>\n"
        f"<footer><p>Terms of use | Privacy | Sitemap | Back to top</p></footer>\n</body>\n</html>\n"
    )
