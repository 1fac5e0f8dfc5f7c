"""The kernels of `extractor: fast` against plain Python, and on hostile pages."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.kernels import html_names, html_page
from stages.kernels.html_feature_names import FEATURES
from stages.kernels.html_features import describe
from stages.kernels.html_names import names
from stages.kernels.html_page import MAX_DEPTH, MAX_VALUE_BYTES, Node, Page
from stages.kernels.html_scan import scan
from stages.kernels.html_write import write
from tests.stages import reference_html, reference_html_features

PIECES = (
    "<p>",
    "</p>",
    "<div>",
    "</div>",
    "<div class='entry-content'>",
    '<DIV CLASS="sideBar relatedposts">',
    "<ul>",
    "</ul>",
    "<li>",
    "</li>",
    "<ol>",
    "<dl><dt>",
    "<dd>",
    "<table>",
    "</table>",
    "<tr>",
    "</tr>",
    "<td>",
    "</td>",
    "<th>",
    "<tbody>",
    "<a href=x>",
    "</a>",
    "<b>",
    "</b>",
    "<b class=ad>",
    "<br>",
    "<br/>",
    "</br>",
    "<h1>",
    "<h2>",
    "</h2>",
    "<pre>",
    "</pre>",
    "<script>",
    "</script>",
    "<script/>",
    "<style>",
    "</STYLE >",
    "<svg>",
    "<svg/>",
    "</svg>",
    "<template>",
    "</template>",
    "<title>",
    "</title>",
    "<noscript>",
    "<x-y>",
    "</x-y>",
    "<option>",
    "<select>",
    "</select>",
    "<head>",
    "<body>",
    "</body>",
    "<meta property=og:title content='A \"title\"'>",
    "<meta name='og:title' content>",
    "<img alt='<p>'>",
    "<hr>",
    "<p style='display : none'>",
    '<p style="x;display:none">',
    "<p hidden>",
    "<p aria-hidden=true id=footer role=main>",
    "<a title='unclosed>",
    '<a title="x',
    "'",
    '"',
    ">",
    "<",
    "</",
    "<!",
    "<!-->",
    "<!--",
    "-->",
    "--!>",
    "<!DOCTYPE html>",
    "<?php ?>",
    "=",
    "/",
    " ",
    "\n",
    "\0",
    "\x01",
    "\x7f",
    "\x0b",
    "&amp;",
    "&nbsp;",
    "caf\u00e9",
    "\u4e2d\u6587\u3002\u3001\uff0c",
    "\u00a9 2020",
    "Some words, and more of them. ",
    "Some words, and more of them that make up a sentence of a good length! ",
    "share",
    "By",
    "12",
    "|",
    "@",
    "T\u00edtulo",
    "x" * 40,
    "postContentfoo",
    "articlebody",
    "storybox",
)
PAGES = st.lists(st.sampled_from(PIECES), max_size=60).map(lambda parts: "".join(parts).encode())
BYTES = st.binary(max_size=200)


def bits(words: frozenset[int]) -> int:
    return sum(1 << word for word in words)


def compare(page: Page, expected: reference_html.Scanner) -> None:
    numbers = {id(element): number for number, element in enumerate(expected.elements)}
    assert [
        (row[Node.TAG], row[Node.PARENT], row[Node.DEPTH], row[Node.CHILDREN], row[Node.WORDS], row[Node.CLASS] != 0)
        for row in page.nodes.tolist()
    ] == [
        (
            one.tag,
            numbers[id(one.parent)] if one.parent else -1,
            one.depth,
            one.num_children,
            bits(one.words),
            one.css_class != b"",
        )
        for one in expected.elements
    ]
    spans = [None if start < 0 else (start, stop, bool(linked)) for start, stop, linked in page.spans.tolist()]
    ends = page.blocks[:, 0].tolist()
    found = [
        (owner, words, breaks, spans[first:last])
        for (_, owner, words, breaks), first, last in zip(page.blocks.tolist(), ends, ends[1:], strict=False)
    ]
    assert found == [
        (numbers[id(block.owner)], bits(block.words), block.num_breaks, block.spans) for block in expected.blocks
    ]
    for (start, stop), wanted in ((page.title, expected.title), (page.meta_title, expected.meta_title)):
        assert page.data[max(start, 0) : max(stop, 0)].tobytes() == (wanted or b"")


@settings(max_examples=400, deadline=None)
@given(PAGES | BYTES)
@example(b"<p>a<b class=ad>x</b><p>c<br>d<br><br>e<div><table><tr><th>1<th><th>3<tr><td><td>2</table>")
@example(b"<ul><li>a<ul><li>b<pre>\n x\n y </pre></ul>c</ul>")
def test_scan_and_write_are_as_in_plain_python(content: bytes) -> None:
    page, expected = scan(content, names()), reference_html.Scanner(content)
    compare(page, expected)
    for step in (1, 2, 3):
        kept = [number % step == 0 for number in range(page.num_blocks)]
        assert write(page, names(), np.array(kept, np.bool_)) == reference_html.write(expected, kept)


@settings(max_examples=150, deadline=None)
@given(PAGES)
@example(b"<title>Some words</title><h1>Some words</h1>" + b"<p>Some words, and more of them. " * 4)
def test_features_are_as_in_plain_python(content: bytes) -> None:
    page = scan(content, names())
    blocks = describe(page, names())
    features, groups = reference_html_features.describe(reference_html.Scanner(content))
    assert blocks.features.shape == (page.num_blocks, len(FEATURES))
    for number, wanted in enumerate(features):
        found = dict(zip(FEATURES, blocks.features[number].tolist(), strict=True))
        assert found == pytest.approx({name: float(value) for name, value in wanted.items()}, rel=1e-5, abs=1e-6)
    for column in range(4):  # the numbers of groups may differ, what they hold may not
        assert partition(blocks.groups[:, column].tolist()) == partition([row[column] for row in groups])


def partition(keys: list[Any]) -> list[int]:
    return [keys.index(key) for key in keys]


def text_of(content: bytes) -> str:
    page = scan(content, names())
    return write(page, names(), np.ones(page.num_blocks, np.bool_)).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (b"", ""),
        (b"a\0b\x01c", "abc"),
        (b"a < b <3 <", "a < b <3 <"),
        (b"<p>one<p>two</p>three", "one\ntwo\nthree"),
        (b"<a title='never closed>link</a> text <b>x</b>", "link text x"),
        (b'<a title="it\'s">link</a>', "link"),
        (b"x<!-- never closed <b>y</b>", "xy"),
        (b"x<!-- a -- b > c -->y<!--->z", "xyz"),
        (b"<p>x<script>if (a<b) document.write('</p><p>')</script>y", "xy"),
        (b"<script>never closed <p>x", ""),
        (b"x<style/>y<iframe>z", "xyz"),
        (b"<template><p>no</p><template>no</template>no</template><p>yes", "yes"),
        (b"<svg><title>no</title><svg></svg>no</svg>yes", "yes"),
        (b"<ul><li>Tea<ul><li>Black<li>Green</ul><li>Milk</ul>", "- Tea\n  - Black\n  - Green\n- Milk"),
        (b"<li><p>One</p><p>Two</p></li>", "- One\nTwo"),
        (b"<table><tr><td>dose<td><td>5<td></table>", "| dose |  | 5 |  |"),
        (b"<table><tr><th>a<th>b<tr><td>1<br>2<td>3</table>", "| a | b |\n|---|---|\n| 1 2 | 3 |"),
        (b"<table><tr><td><p>layout</p><p>more</p></table>", "layout\nmore"),
        (b"<pre>\n  x = 1\n    y\n</pre>", "  x = 1\n    y"),
        (b"a<br>b<br><br>c", "a\nb\nc"),
    ],
)
def test_pages_become_documents(page: bytes, text: str) -> None:
    assert text_of(page) == text


def test_depth_is_bounded_and_no_text_is_lost() -> None:
    for tag in (b"div", b"b", b"x-y", b"table><tr><td", b"li"):
        deep = b"<" + tag + b">"
        page = b"<p>before</p>" + deep * (3 * MAX_DEPTH) + b"inside" + b"</div>" * 10 + b"<p>after</p>"
        assert text_of(page).split()[-1] == "after"
        assert "inside" in text_of(page) and "before" in text_of(page)
        assert scan(page, names()).nodes[:, Node.DEPTH].max() < MAX_DEPTH


def test_a_long_value_ends_where_it_should() -> None:
    filler = b"x" * MAX_VALUE_BYTES
    assert text_of(b"<img src='data:" + filler + b"'>text") == "text"
    assert text_of(b"<a title='" + b"<b>" + filler + b"'>text").endswith("'>text")  # its quote counts as lost
    assert text_of(b"<a title='" + b"<b>" + filler[:-10] + b"'>text") == "text"


@pytest.mark.parametrize(
    "piece",
    [
        b"<",
        b"<a ",
        b"</p",
        b"<!--",
        b"<!",
        b"<a b='",
        b"<a b=\"'>",
        b"<script>",
        b"<svg>",
        b"<title>",
        b"<template></",
        b"<p>",
        b"</div>",
        b"<table><tr><td>",
        b"<b><p>",
        b"<li>x",
        b"<x-y></y-x>",
        b"<br>",
        b"=",
        b"<a/=",
        b'"articleBody":"',
    ],
)
def test_costs_are_linear(piece: bytes) -> None:
    """Two megabytes of one piece: what was quadratic would take hours."""
    page = scan(piece * (2_000_000 // len(piece)), names())
    describe(page, names())
    write(page, names(), np.ones(page.num_blocks, np.bool_))


def test_tables_hold_what_the_kernels_know_by_number() -> None:
    assert [html_names.TAG[name] for name in html_page.KNOWN_TAGS] == list(range(1, len(html_page.KNOWN_TAGS) + 1))
    assert len(html_names.CLASS_WORDS) == html_page.PAIR_BIT
    assert len(set(html_names.TAGS)) == len(html_names.TAGS)
    for groups in (html_names.CLASS_WORDS, html_names.TEXT_WORDS):
        words = " ".join(groups).split()
        assert len(words) == len(set(words))
