"""`extractor: fast` and its cascade on real and hostile pages."""

import hashlib
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from benchmarks.main_text.pages import GOOSE, TRAINING_SETS, GoldPage, load_pages
from benchmarks.main_text.score import tokens
from curate.core.errors import DataError
from stages import main_text
from stages.encoding import is_utf8, to_utf8
from stages.html import ExtractHtml
from stages.kernels.html_names import names
from stages.kernels.html_scan import scan
from tests.stages.test_html import AROUND, WORDS, batch_of

MODEL_SHA256 = "9cfcd5270a38b69f7592ed674aecfcdf65112cffb1e879bde813827806126ee6"
MAX_MODEL_BYTES = 100_000


def extract(page: str | bytes, **options: Any) -> dict[str, Any]:
    content = page.encode() if isinstance(page, str) else page
    (row,) = ExtractHtml(**{"extractor": "fast", **options}).open()(batch_of(content)).to_pylist()
    answer: dict[str, Any] = row
    return answer


@pytest.fixture(scope="module")
def pages(shared_data: Path) -> tuple[GoldPage, ...]:
    return load_pages((*TRAINING_SETS, GOOSE), shared_data / "web")


def test_a_page_becomes_text_title_and_a_decision() -> None:
    page = f"<title>A title of a page | Site</title><nav><a href=/>Home</a></nav><article>{AROUND}</article>"
    stage = ExtractHtml(extractor="fast")
    batch = stage.open()(batch_of(page.encode(), b"", None))
    assert batch.schema.names == ["id", "kind", "text", "title", "extracted_by", "uncertainty"]
    assert {name: batch.schema.field(name).type for name in stage.adds} == stage.adds
    first, *others = batch.to_pylist()
    assert first["text"] == "\n".join(f"{WORDS} paragraph {number}." for number in range(5))
    assert (first["title"], first["extracted_by"]) == ("A title of a page", "fast")
    assert [(row["text"], row["title"], row["extracted_by"], row["uncertainty"]) for row in others] == [
        ("", None, None, None)
    ] * 2


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<meta property='og:title' content='One &amp; two'><title>x</title>", "One & two"),
        ("<title> A \n title </title>", "A title"),
        ("<title>Short - much the longer part of all</title>", "much the longer part of all"),
        ("<title>One - two - three - four</title>", "One - two - three - four"),
        ("<title>x</title><h1>A <b>heading</b></h1>", "A heading"),
        ("<title>x</title><h1>One</h1><h1>Two</h1>", "x"),
        ("<meta property='og:title' content=' '><title>x</title>", "x"),
        ("<svg><title>no</title></svg>", None),
    ],
)
def test_titles(head: str, title: str | None) -> None:
    assert extract(f"{head}<p>{WORDS}</p>", unsure=0)["title"] == title


def test_an_unsure_page_goes_to_trafilatura(monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"<html><body><article>{AROUND}</article></body></html>"
    by_trafilatura = extract(page, extractor="trafilatura")["text"]
    sure = extract(page)
    assert sure["extracted_by"] == "fast"
    for limit, extractor in ((sure["uncertainty"], "fast"), (sure["uncertainty"] - 0.0001, "trafilatura")):
        monkeypatch.setattr(main_text.Model, "limit", lambda model, share, limit=limit: limit)
        row = extract(page, unsure=0.5)
        assert (row["extracted_by"], row["uncertainty"]) == (extractor, sure["uncertainty"])
    assert row["text"] == by_trafilatura
    assert extract(page, unsure=0)["extracted_by"] == "fast"


def test_what_trafilatura_refuses_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_text.Model, "limit", lambda model, share: -1.0)
    deep = "<div>" * 300 + AROUND
    assert extract(deep)["extracted_by"] == "fast_only"
    assert "word59 paragraph 4." in extract(deep)["text"]
    assert extract("<html><body></body></html>")["extracted_by"] == "fast_only"


def test_a_share_is_from_0_to_1() -> None:
    for unsure in (-0.01, 1.01):
        with pytest.raises(ValueError, match="wanted a share"):
            ExtractHtml(extractor="fast", unsure=unsure)


def test_a_page_that_is_all_json_ld() -> None:
    body = "Words of the &lt;article&gt; &amp; more. " * 20
    data = f'{{"articleBody": "{body}\\n<p>end</p>"}}'
    page = f'<html><script type="application/ld+json">{data}</script><body></body></html>'
    text = extract(page)["text"]
    assert text.startswith("Words of the <article> & more.") and text.endswith("end")
    for broken in ('{"articleBody": "never closed', '{"articleBody": "\\x"}', '{"articleBody": 5}'):
        assert extract(f"<script>{broken}</script>")["text"] == ""


def test_the_document_form_is_that_of_the_web_stage() -> None:
    items = "<ul><li>Tea<ul><li>Black</li><li>Green</li></ul></li><li>Milk</li></ul>"
    table = "<table><tr><th>drug</th><th>b</th><th>c</th></tr><tr><td>dose</td><td></td><td>5</td></tr></table>"
    inner = f"<h2>Heading</h2>{AROUND}{items}{AROUND}{table}{AROUND}<pre>x = 1\n  y = 2</pre>{AROUND}"
    page = f"<html><body><nav>Home</nav><article>{inner}</article></body></html>"
    blocks = scan(page.encode(), names())
    text = main_text.text_of(blocks, np.ones(blocks.num_blocks, np.bool_))
    wanted = extract(page, extractor="trafilatura")["text"]
    assert "- Tea\n  - Black\n  - Green\n- Milk\n" in wanted
    lines = [line.replace("| \n", "|\n").rstrip() for line in wanted.split("\n")]
    assert [line.rstrip() for line in text.split("\n")[1:]] == lines


def test_the_model_is_the_one_that_this_version_was_measured_with() -> None:
    """A new model is a new output: raise ExtractHtml.version with it."""
    content = main_text.MODEL.read_bytes()
    assert len(content) < MAX_MODEL_BYTES
    assert (ExtractHtml.version, hashlib.sha256(content).hexdigest()) == (2, MODEL_SHA256)


def test_a_model_is_stored_and_loaded(tmp_path: Path) -> None:
    model = main_text.load_model()
    main_text.save_model(model, tmp_path / "model.npz")
    assert (tmp_path / "model.npz").read_bytes() == main_text.MODEL.read_bytes()


@pytest.mark.parametrize(
    "page",
    [
        b"<", b"<a ", b"&", b"<!", b"<!--", b"<p>" * 1000, b"\0" * 1000, b"<title>", b"<table>" * 200 + b"x",
        b"\xff\xd8\xff\xe0JFIF" + bytes(range(256)) * 4, b"%PDF-1.4" + bytes(range(128, 256)) * 9, b"<div>" * 100_000,
        b"<?xml version='1.0' encoding='utf-16'?><html><p>x", b"<frameset><frame>", b"<html" + b" a" * 900 + b">",
        b"<p>&#1;&#xd800;&#x110000;&#99999999999;</p>", b"<b>" * 50_000 + b"x" + b"</b>" * 50_000, b"<a b='" * 20_000,
    ],
)  # fmt: skip
def test_whatever_comes_is_text_or_a_reason(page: bytes) -> None:
    try:
        row = extract(page, unsure=0)
    except DataError as error:
        assert re.fullmatch(r"[a-z_]+", error.reason)
    else:
        assert row["text"].encode().decode() == row["text"]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_utf8_is_what_python_takes_for_it(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError:
        assert not is_utf8(content)
    else:
        assert is_utf8(content)
        assert to_utf8(content, "utf-8", is_html=True) == content.removeprefix(b"\xef\xbb\xbf")


def test_all_text_is_that_of_lexbor(pages: tuple[GoldPage, ...]) -> None:
    """Standing test of the scanner: with all blocks kept, the words of a page are those of a parser by the standard."""
    recalls, precisions = [], []
    for page in pages[::4]:
        content = to_utf8(page.content, None, is_html=True)
        wanted, mine = Counter(tokens(lexbor_text(content))), Counter(tokens(all_text(content)))
        common = (wanted & mine).total()
        recalls.append(common / max(1, wanted.total()))
        precisions.append(common / max(1, mine.total()))
    assert len(recalls) > 250
    assert statistics.mean(recalls) > 0.995
    assert statistics.mean(precisions) > 0.97
    assert statistics.quantiles(recalls, n=100)[1] > 0.95  # of the second worst percent


def lexbor_text(content: bytes) -> str:
    """Without what form fields show, which it puts in brackets."""
    tree = HTMLTree.parse(content.decode("utf-8", "replace"))
    text = extract_plain_text(tree, main_content=False, list_bullets=False, alt_texts=False, form_fields=True)
    return re.sub(r"\[ [^\[\]]* \]", " ", text)


def all_text(content: bytes) -> str:
    page = scan(content, names())
    return main_text.text_of(page, np.ones(page.num_blocks, np.bool_))


def test_real_pages_are_read_well(pages: tuple[GoldPage, ...]) -> None:
    """On pages of goose3, with which nothing was trained: most of the words that must be there are."""
    gold = [(page, page.prefix) for page in pages if page.set == GOOSE and page.prefix]
    recalls = []
    for page, prefix in gold:
        mine, wanted = (Counter(tokens(text)) for text in (extract(page.content, unsure=0)["text"], prefix))
        recalls.append((mine & wanted).total() / wanted.total())
    assert len(recalls) > 40
    assert statistics.mean(recalls) > 0.97


def test_a_worker_starts_soon_without_a_tree_library() -> None:
    code = (
        "import sys, json; from stages.html import ExtractHtml; ExtractHtml(extractor='fast').open(); "
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert "stages.kernels.html_scan" in modules
    assert modules.isdisjoint({"lightgbm", "sklearn", "benchmarks", "matplotlib"})
