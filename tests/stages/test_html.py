"""ExtractHtml: text of real and hostile pages; never a crash, never text lost without a word."""

import json
import lzma
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from curate.core.errors import DataError
from curate.core.schema import OPTIONAL, schema_of
from stages.html import (
    MAX_ATTRIBUTES,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_OPEN_FORMATTING,
    MAX_OPEN_TAGS,
    MAX_TAGS,
    ExtractHtml,
)

EXTRACTORS = ["trafilatura", "resiliparse"]
INPUT = schema_of({"id": pa.binary(16)} | {name: OPTIONAL[name] for name in ("content", "kind", "charset")})
WORDS = " ".join(f"word{number}" for number in range(60))
AROUND = "".join(f"<p>{WORDS} paragraph {number}.</p>" for number in range(5))


def batch_of(*pages: bytes | None, kind: str = "text/html", charset: str | None = None) -> pa.RecordBatch:
    rows = [{"id": bytes(16), "content": page, "kind": kind, "charset": charset} for page in pages]
    return pa.RecordBatch.from_pylist(rows, schema=INPUT)


def extract(page: str | bytes, extractor: Any = "trafilatura", **columns: Any) -> tuple[str, str | None]:
    content = page.encode() if isinstance(page, str) else page
    (row,) = ExtractHtml(extractor=extractor).open()(batch_of(content, **columns)).to_pylist()
    return row["text"], row["title"]


def reason_of(page: str, extractor: str) -> str:
    with pytest.raises(DataError) as caught:
        extract(page, extractor)
    return caught.value.reason


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_a_page_becomes_text_and_title(extractor: Any) -> None:
    page = (
        f"<html><head><title> T &amp; \n x</title></head><body><nav>Home</nav><article>{AROUND}</article></body></html>"
    )
    stage = ExtractHtml(extractor=extractor)
    batch = stage.open()(batch_of(page.encode(), b"", None))
    assert batch.schema.names == ["id", "kind", "text", "title"]
    assert {name: batch.schema.field(name).type for name in stage.adds} == stage.adds
    assert batch.column("title").to_pylist() == ["T & x", None, None]
    text, *others = batch.column("text").to_pylist()
    assert others == ["", ""]
    assert text.split() == (" ".join(f"{WORDS} paragraph {number}." for number in range(5))).split()


def test_plain_text_is_decoded_and_passed_on() -> None:
    text = "W\xf6rter <b>\r\nund\0 mehr\n"
    assert extract(text.encode("latin1"), kind="text/plain", charset="iso-8859-1") == (
        "W\xf6rter <b>\nund mehr\n",
        None,
    )


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>abc</p>", "abc"),
        ("<p>First letters matter</p>", "First letters matter"),
        ("<html><body></body></html>", ""),
        ("<html><script>var x = 1</script></html>", ""),
        ('<p title="a\x00b">x\x01y\x0bz</p>', "xy z"),  # BUG-033
        ("<meta charset=iso-8859-1><p>die m\xf6\xf6se</p>", "die m\xf6\xf6se"),  # BUG-025
    ],
)
def test_small_pages_keep_their_text(extractor: str, page: str, text: str) -> None:
    assert extract(page.encode("latin1"), extractor)[0].strip() == text


# Known faults of the libraries


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_each_sentence_of_a_short_page_comes_once(extractor: str) -> None:
    """BUG-018."""
    page = (
        "<html><body><main><section><p>One</p>loose tail text<div><h4>Head</h4><p>Two words here</p>more tail</div>"
        "</section></main></body></html>"
    )
    text, _ = extract(page, extractor)
    assert " ".join(text.split()) == "One loose tail text Head Two words here more tail"


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_no_paragraph_of_a_small_article_comes_twice(extractor: str) -> None:
    """BUG-019."""
    first = "The first paragraph has about eighty characters in it, which is not all that many."
    second = "The second one has some seventy other characters, and then it ends here."
    article = f"<article><h1>T</h1><p>{first}</p><p>{second}</p></article>"
    page = f"<html><body><nav>Home</nav>{article}<footer>Imprint</footer></body></html>"
    text, _ = extract(page, extractor)
    assert (text.count(first), text.count(second)) == (1, 1)


def test_inner_lists_are_set_apart() -> None:
    """BUG-021."""
    items = "<ul><li>Tea<ul><li>Black</li><li>Green</li></ul></li><li>Milk</li></ul>"
    lines = [
        line.strip(" -")
        for line in extract(f"<html><body><article>{AROUND}{items}{AROUND}</article></body></html>")[0].split("\n")
    ]
    assert lines[5:9] == ["Tea", "Black", "Green", "Milk"]


def test_an_empty_cell_keeps_its_place() -> None:
    """BUG-023."""
    table = "<table><tr><th>a</th><th>b</th><th>c</th></tr><tr><td>dose</td><td></td><td>5</td></tr></table>"
    text, _ = extract(f"<html><body><article>{AROUND}{table}{AROUND}</article></body></html>")
    (row,) = (line for line in text.split("\n") if "dose" in line)
    assert [cell.strip() for cell in row.strip("| ").split("|")] == ["dose", "", "5"]


@pytest.mark.parametrize("depth", [100, 240, 260, 2_000, 10_000])
@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_deep_text_is_kept_or_refused(extractor: str, depth: int) -> None:
    """BUG-027: libxml2 leaves out what is deeper than 256, without a word."""
    page = "<html><body>" + "<div>" * depth + f"<p>DEEPMARKER {WORDS}</p>" + "</div>" * depth + "</body></html>"
    try:
        text, _ = extract(page, extractor)
    except DataError as error:
        assert error.reason in ("too_deep", "too_many_open_tags")
        assert depth > MAX_DEPTH - 3
    else:
        assert "DEEPMARKER" in text


def test_the_depth_is_bounded_from_both_sides() -> None:
    for depth, refused in ((MAX_DEPTH - 3, False), (MAX_DEPTH - 2, True)):  # html, body and p are three levels
        page = "<html><body>" + "<div>" * depth + f"<p>{WORDS}</p>" + "</div>" * depth + "</body></html>"
        if refused:
            assert reason_of(page, "trafilatura") == "too_deep"
        else:
            assert WORDS in extract(page)[0]


@pytest.mark.parametrize("number", [500, 2_000])
def test_formatting_that_is_never_closed_is_refused(number: int) -> None:
    """BUG-029: minutes and gigabytes in a parser that follows the standard."""
    bold, italic = ("".join(f"<{tag} {at}>" for at in range(number)) for tag in "bi")
    page = f"{bold}{italic}x" + "</b>" * number
    assert reason_of(page, "resiliparse") == "too_many_open_tags"
    assert reason_of(page, "trafilatura") == "too_deep"


def test_open_tags_are_bounded_from_both_sides() -> None:
    for number, refused in ((MAX_OPEN_FORMATTING, False), (MAX_OPEN_FORMATTING + 1, True)):
        page = f"<p>{WORDS}" + "<br>" * 1000 + "<b>x" * number
        if refused:
            assert reason_of(page, "resiliparse") == "too_many_open_tags"
        else:
            assert "word59" in extract(page, "resiliparse")[0]
    assert reason_of("<div>" * (MAX_OPEN_TAGS + 1), "resiliparse") == "too_many_open_tags"
    assert WORDS in extract(f"<p>{WORDS}</p>" + "<div></div>" * (MAX_OPEN_TAGS + 1), "resiliparse")[0]


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_size_tags_and_attributes_are_bounded_from_both_sides(extractor: str) -> None:
    html = "<html><body>{}<p>" + WORDS + "</p></body></html>"
    filler = " ".join(
        f'a{number}="b c d e f g h i j k l m n o p q r s t u v w x y z"' for number in range(MAX_ATTRIBUTES)
    )
    for page, reason in (
        (html.format("<!--" + "x" * (MAX_BYTES - 9 - len(html.format("") + "-->") + 5) + "-->"), None),
        (html.format("<!--" + "x" * MAX_BYTES + "-->"), "too_large"),
        (html.format("<br>" * 2_000), None),
        (html.format("<" * MAX_TAGS), "too_many_tags"),
        (html.format(f"<div {filler}></div>"), None),
        (html.format(f"<div {filler} more></div>"), "too_many_attributes"),
    ):
        if reason:
            assert reason_of(page, extractor) == reason
        else:
            assert WORDS in extract(page, extractor)[0]


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize(
    "page",
    [
        b"<", b"<a ", b"&", b"<!", b"<!--", b"<p>" * 1000, b"\0" * 1000, b"<title>", b"<table>" * 200 + b"x",
        b"\xff\xd8\xff\xe0JFIF" + bytes(range(256)) * 4, b"%PDF-1.4" + bytes(range(128, 256)) * 9,
        b"<?xml version='1.0' encoding='utf-16'?><html><p>x", b"<frameset><frame>", b"<html" + b" a" * 900 + b">",
        b"<p>&#1;&#xd800;&#x110000;&#99999999999;</p>",
    ],
)  # fmt: skip
def test_whatever_comes_is_text_or_a_reason(extractor: str, page: bytes) -> None:
    try:
        text, _ = extract(page, extractor)
    except DataError as error:
        assert re.fullmatch(r"[a-z_]+", error.reason)
    else:
        assert text.encode().decode() == text


def test_a_bad_page_leaves_its_neighbors_to_be_read_alone() -> None:
    deep = ("<div>" * 300 + "x").encode()
    with pytest.raises(DataError, match="too_deep"):
        ExtractHtml().open()(batch_of(b"<p>a</p>", deep))


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_a_page_gives_the_same_text_whatever_came_before(extractor: Any, shared_data: Path) -> None:
    pages = [page for page, _ in benchmark_pages(shared_data)][:12]
    function = ExtractHtml(extractor=extractor).open()
    together = function(batch_of(*pages)).column("text").to_pylist()
    alone = [function(batch_of(page)).column("text")[0].as_py() for page in reversed(pages)]
    assert together == alone[::-1]
    assert all(together)


def benchmark_pages(shared_data: Path) -> list[tuple[bytes, str]]:
    folder = shared_data / "web" / "html"
    with lzma.open(folder / "article_extraction_benchmark.gold.jsonl.xz", "rt") as lines:
        gold = {row["member"]: row["gold"]["text"] for row in map(json.loads, lines)}
    with tarfile.open(folder / "article_extraction_benchmark.tar.xz") as archive:
        members = ((archive.extractfile(name), text) for name, text in gold.items())
        return [(member.read(), text) for member, text in members if member]


@pytest.mark.parametrize(("extractor", "least"), [("trafilatura", 0.94), ("resiliparse", 0.90)])
def test_the_text_is_that_which_people_see(extractor: Any, least: float, shared_data: Path) -> None:
    """Bag-of-words F1 on every third page of article-extraction-benchmark."""
    pages = benchmark_pages(shared_data)[::3]
    texts = ExtractHtml(extractor=extractor).open()(batch_of(*(page for page, _ in pages))).column("text").to_pylist()
    assert sum(f1(text, gold) for text, (_, gold) in zip(texts, pages, strict=True)) / len(pages) > least


def f1(text: str, gold: str) -> float:
    mine, wanted = (Counter(re.findall(r"\w+", words)) for words in (text, gold))
    return 2 * (mine & wanted).total() / max(1, mine.total() + wanted.total())
