"""The text of JATS articles: nothing twice, nothing lost, nothing glued. Public faults are named where held off."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.jats_inline import is_marker
from stages.jats_options import JatsOptions
from stages.jats_text import article_text
from stages.xml import parse

MATH = 'xmlns:mml="http://www.w3.org/1998/Math/MathML"'


def extract(body: str, meta: str = "", after: str = "", **options: Any) -> tuple[str | None, str]:
    front = f"<front><article-meta>{meta}</article-meta></front>"
    article = parse(f"<article {MATH}>{front}<body>{body}</body>{after}</article>".encode())
    return article_text(article, JatsOptions(**options))


def text(body: str, meta: str = "", after: str = "", **options: Any) -> str:
    return extract(body, meta, after, **options)[1]


def blocks(body: str, meta: str = "", after: str = "", **options: Any) -> list[str]:
    return text(body, meta, after, **options).split("\n\n")


def paragraph(content: str) -> str:
    (found,) = blocks(f"<p>{content}</p>")
    return found


# --- one paragraph ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # pubmed-mcp-server#41
        ("1.73 m<sup>2</sup> of it; 10<sup>5</sup> cells; kg m<sup>-2</sup>", "1.73 m^2 of it; 10^5 cells; kg m^-2"),
        ("CO<sub>2</sub>, Vitamin D<sub>3</sub>, V<sub>max</sub>, log<sub>10</sub>", "CO2, Vitamin D3, Vmax, log10"),
        ("10<sub>2</sub> and x<sub>1</sub><sup>2</sup>", "10_2 and x1^2"),
        ("Ca<sup>2+</sup>, CD4<sup>+</sup>, PGC<sup>\u2212/\u2212</sup>", "Ca^2+, CD4+, PGC\u2212/\u2212"),
        ("[<sup>18</sup>F]FDG, <sup>14</sup>C", "[18F]FDG, 14C"),
        ("the 1<sup>st</sup>, 2<sup>nd</sup> Apc<sup>Min</sup> A<sup>\u00ae</sup>", "the 1st, 2nd Apc^Min A\u00ae"),
        ("10<sup>5 </sup>cells, 10<sup> 6</sup> more, CO<sub>2 </sub>gas", "10^5 cells, 10^6 more, CO2 gas"),
        ("e<sup>a + b</sup>, x<sup>y<sup>2</sup></sup>", "e^(a + b), x^y^2"),
        # packtools#1327
        ("a <bold>b<sup>c</sup>d</bold> e <xref>( f )</xref> g", "a b^cd e ( f ) g"),
        # metapub#22, biopython#1539
        ("Role of <italic>TP53</italic> in <bold>cancer</bold>.", "Role of TP53 in cancer."),
        # pubmed-mcp-server#94
        ("P&lt;0.001 in A; n&lt;N chain <bold>up</bold>; a&lt;b and c&gt;d", "P<0.001 in A; n<N chain up; a<b and c>d"),
        # pubmed-mcp-server#74
        ("clin\u00adical gen\u200beration", "clinical generation"),
        ("a\u00a0b \n\t c<break/>d<!-- no -->e<?no?>f", "a b c def"),
        ("see <ext-link>http://a.example</ext-link>, <email>a@b.example</email>", "see http://a.example, a@b.example"),
        ("about<strange>unknown</strange>words", "about unknown words"),
        ("<inline-graphic/>a <inline-formula><italic>n</italic> = 5</inline-formula>", "a n = 5"),
    ],
)  # fmt: skip
def test_inline(content: str, expected: str) -> None:
    assert paragraph(content) == expected


def cite(text: str, kind: str = "bibr") -> str:
    return f'<xref ref-type="{kind}">{text}</xref>'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # cwrc/ontology#445
        (f"not only men,{cite('10')} but women{cite('<sup>3,4</sup>')}. See {cite('Fig. 1', 'fig')}({cite('5')}).",
         "not only men, but women. See Fig. 1."),
        (f"shown [{cite('1')},{cite('2')}\u2013{cite('9')}], and", "shown, and"),
        (f"shown<sup>{cite('1')},{cite('2')}</sup> and<sup>[{cite('3')}]</sup>.", "shown and."),
        (f"shown ([{cite('1')}]; {cite('2')}) here", "shown here"),
        (f"shown {cite('1')}, {cite('2')} and {cite('3')}.", "shown."),
        (f"as in {cite('[12]')}, we{cite('')} and", "as in, we and"),
        (f"word {cite('1')}glued", "word glued"),
        (f"First.{cite('1')} Second {cite('2')}. {cite('3')} Third", "First. Second. Third"),
        (f"so (reviewed in {cite('7')}, see also {cite('8')}) and (see {cite('9')} for more)", "so and (see for more)"),
        (f"known ({cite('Smith et al., 2010')}; {cite('Jones, 2011')}) since {cite('Brown (1999)')} showed it",
         "known since Brown (1999) showed it"),
        (f"value{cite('*', 'fn')} and{cite('a', 'table-fn')} more", "value and more"),
        (f"see {cite('Table 2', 'table')} and {cite('Section 3', 'sec')}", "see Table 2 and Section 3"),
        (f"x<sup>2</sup> {cite('4')} y", "x^2 y"),
        ("plain [1, 2] and (3) and [] stay", "plain [1, 2] and (3) and [] stay"),
    ],
)  # fmt: skip
def test_citations(content: str, expected: str) -> None:
    assert paragraph(content) == expected


def test_what_counts_as_a_marker() -> None:
    assert all(map(is_marker, ["", "12", "[3, 4]", "5a", "*", "\u2020", "1\u20133", "a", "(7)"]))
    assert not any(map(is_marker, ["Smith 2010", "Fig. 1", "ab", "ref. 3"]))


# --- formulas --------------------------------------------------------------------------------

PREAMBLE = r"\documentclass[12pt]{minimal}\usepackage{amsmath}\setlength{\oddsidemargin}{-69pt}"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        # pubmed-mcp-server#135
        (r"<inline-formula><alternatives><tex-math>\documentclass{minimal}\begin{document}$x_1$\end{document}</tex-math>"
         "<mml:math><mml:mi>x</mml:mi><mml:mn>1</mml:mn></mml:math><inline-graphic/></alternatives></inline-formula>",
         "$x_1$"),
        (rf"<tex-math><![CDATA[{PREAMBLE}\begin{{document}}$$y^2$$\end{{document}}]]></tex-math>", "$$y^2$$"),
        (rf"<tex-math>{PREAMBLE} z</tex-math>", "$z$"),
        ("<mml:math><mml:msub><mml:mi>x</mml:mi><mml:mn>1</mml:mn></mml:msub><mml:mo>=</mml:mo><mml:mfrac><mml:mi>a</mml:mi>"
         "<mml:mrow><mml:mi>b</mml:mi><mml:mo>+</mml:mo><mml:mn>2</mml:mn></mml:mrow></mml:mfrac></mml:math>",
         "x_1=a/(b+2)"),
        ("<mml:math><mml:munderover><mml:mo>\u2211</mml:mo><mml:mi>i</mml:mi><mml:mi>n</mml:mi></mml:munderover><mml:msqrt>"
         "<mml:mi>x</mml:mi></mml:msqrt></mml:math>", "\u2211_i^n sqrt(x)"),
        ("<mml:math><mml:mi>sin</mml:mi><mml:mi>x</mml:mi><mml:mover><mml:mi>y</mml:mi><mml:mo>\u00af</mml:mo></mml:mover>"
         "</mml:math>", "sin x y\u00af"),
        ('<mml:math><mml:mfenced open="&#xA;x007B;" close=""><mml:mi>x</mml:mi><mml:mi>y</mml:mi></mml:mfenced>'
         "</mml:math>",
         "(x,y"),
        ('<mml:math><mml:semantics><mml:mi>x</mml:mi><mml:annotation encoding="application/x-tex">x</mml:annotation>'
         "</mml:semantics></mml:math>", "$x$"),
        ("<alternatives><textual-form>x squared</textual-form><inline-graphic/></alternatives>", "x squared"),
        ("<alternatives><tex-math>$x$</tex-math><textual-form>x</textual-form></alternatives>", "$x$"),
        ("<disp-formula><label>(1)</label><tex-math>$x$</tex-math></disp-formula>", "(1) $x$"),
    ],
)  # fmt: skip
def test_one_form_of_a_formula(formula: str, expected: str) -> None:
    assert paragraph(f"if {formula} then") == f"if {expected} then"


def test_deep_formulas_keep_their_text() -> None:
    deep = "<mml:mrow><mml:mi>a</mml:mi>" * 100 + "<mml:mi>z</mml:mi>" + "</mml:mrow>" * 100
    assert paragraph(f"<mml:math>{deep}</mml:math>").split() == ["a"] * 100 + ["z"]


# --- blocks ----------------------------------------------------------------------------------


def test_title_and_abstract() -> None:
    meta = (
        "<title-group><article-title>On <italic>E. coli</italic><xref ref-type='fn'>*</xref></article-title>"
        "<subtitle>A study</subtitle><alt-title>Running</alt-title></title-group>"
        "<abstract><sec><title>Methods</title><p>We did.</p></sec><sec><title/><p>Then more.</p></sec></abstract>"
        "<abstract abstract-type='toc'><p>Blurb.</p></abstract>"
        "<abstract abstract-type='summary'><title>Summary</title><p>In short.</p></abstract>"
        "<trans-abstract xml:lang='es'><p>Hola.</p></trans-abstract>"
    )
    assert extract("<p>Body.</p>", meta) == (
        "On E. coli: A study",
        "# On E. coli: A study\n\n## Abstract\n\n### Methods\n\nWe did.\n\nThen more.\n\n"
        "## Summary\n\nIn short.\n\nBody.",
    )


def test_two_languages_in_one_abstract() -> None:
    """jatsTemplate#1: a paragraph of white space gives no block; the translated abstract is not joined."""
    meta = "<abstract><p>English words here.</p><p> </p><p>Les mots sont ici.</p></abstract>"
    meta += "<trans-abstract><p>Hola.</p></trans-abstract>"
    assert blocks("", meta) == ["## Abstract", "English words here.", "Les mots sont ici."]


@pytest.mark.parametrize(
    "article",
    ["<article/>", "<article><front/></article>", "<article><front><article-meta/></front><body/><back/></article>"],
)
def test_missing_parts(article: str) -> None:
    """pubmed_parser#125: an optional part that is missing lost the whole file."""
    assert article_text(parse(article.encode()), JatsOptions()) == (None, "")


def test_a_title_alone_is_no_text() -> None:
    meta = "<title-group><article-title>Only this</article-title></title-group><abstract/>"
    assert extract("", meta) == ("Only this", "")


def test_sections_at_any_depth() -> None:
    """pubmed-mcp-server#129: sections below the third level were cut away."""
    body = "<p>deep</p>"
    for level in range(64, 0, -1):
        body = f"<sec><label>{level}.</label><title>Level {level}</title>{body}</sec>"
    found = blocks(body)
    assert found[-1] == "deep"
    assert [block.lstrip("# ") for block in found[:-1]] == [f"{level}. Level {level}" for level in range(1, 65)]
    assert [len(block) - len(block.lstrip("#")) for block in found[:7]] == [2, 3, 4, 5, 6, 6, 6]


def test_tables_leave_their_captions_behind_the_sentence() -> None:
    """pubmed-mcp-server#111: cells were fused into the sentence, as numbers that never existed."""
    body = (
        "<sec><p>Before <table-wrap><table><tr><td>12</td><td>34</td></tr></table></table-wrap>after.</p><table-wrap>"
        "<label>Table 1</label><caption><title>Cap</title><p>Note.</p></caption><table><tr><td>5</td></tr></table>"
        "<table-wrap-foot><fn><label>a</label><p>p &lt; 0.05</p></fn></table-wrap-foot></table-wrap></sec>"
    )
    assert blocks(body) == ["Before after.", "Table 1. Cap", "Note.", "a p < 0.05"]


def test_captions_and_boxes() -> None:
    """pubmed-mcp-server#169: the title of a box ran into its first sentence."""
    assert blocks("<boxed-text><caption><title>Box 1</title><p>Summary.</p></caption></boxed-text>") == [
        "Box 1",
        "Summary.",
    ]
    figure = "<fig><caption><p>c</p></caption><graphic/></fig><fig><label>Figure 2</label></fig>"
    assert blocks(f"<p>See this {figure}here.</p>") == ["See this here.", "c", "Figure 2."]


def test_floats_outside_the_body() -> None:
    """pubmed_parser#171: tables in floats-group were not seen."""
    floats = "<floats-group><table-wrap><caption><p>TBLCAP</p></caption></table-wrap></floats-group>"
    assert blocks("<p>x</p>", after=floats) == ["x", "TBLCAP"]


def test_lists() -> None:
    body = (
        "<p>Steps: <list list-type='order'><list-item><p>One</p><p>more</p></list-item><list-item><p>Two</p>"
        "<list list-type='bullet'><list-item><p>inner</p></list-item></list></list-item></list> then go on.</p>"
        "<list list-type='simple'><list-item><label>(a)</label><p>labeled</p></list-item></list>"
        "<def-list><def-item><term>AMI</term><def><p>infarction</p></def></def-item></def-list>"
    )
    assert blocks(body) == [
        "Steps:",
        "1. One\n  more\n2. Two\n  - inner",
        "then go on.",
        "(a) labeled",
        "AMI: infarction",
    ]


BACK = (
    "<back><ack><title>Thanks</title><p>To all.</p></ack><ref-list><title>References</title><ref><label>1</label>"
    "<mixed-citation><name><surname>Roe</surname></name>. 2020.<pub-id>10.1/x</pub-id><pub-id>123</pub-id>"
    "</mixed-citation></ref></ref-list><fn-group><fn fn-type='con'><p>Roe did it.</p></fn><fn fn-type='supported-by'>"
    "<p>By a fund.</p></fn><fn><p>None.</p></fn></fn-group><sec><title>Funding:</title><p>More money.</p></sec>"
    "<app-group><app><title>Appendix</title><sec><title>More</title><p>Data.</p></sec></app></app-group></back>"
    "<sub-article><body><p>Reply.</p></body></sub-article>"
)  # fmt: skip


def test_back_matter() -> None:
    """pubmed-mcp-server#115: references are left out, so that no two identifiers are joined."""
    assert blocks("<p>Body.</p>", after=BACK) == ["Body.", "None.", "## Appendix", "### More", "Data."]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("acknowledgments", ["## Thanks", "To all."]),
        ("references", ["## References", "1 Roe. 2020. 10.1/x 123"]),
        ("authors", ["Roe did it."]),
        ("funding", ["By a fund.", "## Funding:", "More money."]),
    ],
)
def test_parts_of_the_back_matter_that_are_asked_for(option: str, expected: list[str]) -> None:
    found = blocks("<p>Body.</p>", after=BACK, **{option: "keep"})
    assert [block for block in found if block in expected] == expected
    assert len(found) == 5 + len(expected)


def test_a_section_of_the_body_stays_whatever_its_title() -> None:
    assert blocks("<sec><title>Funding</title><p>Its history.</p></sec>") == ["## Funding", "Its history."]


def test_authors_and_translations_that_are_asked_for() -> None:
    meta = (
        "<title-group><article-title>Work</article-title><trans-title-group xml:lang='es'><trans-title>Obra"
        "</trans-title></trans-title-group></title-group><contrib-group><contrib><name><surname>Roe</surname>"
        "<given-names>J. A.</given-names></name><aff>Ulm</aff></contrib><contrib><collab>The Group</collab></contrib>"
        "</contrib-group><abstract><p>English.</p></abstract>"
        "<trans-abstract xml:lang='es'><title>Resumen</title><p>Hola.</p></trans-abstract>"
    )  # fmt: skip
    assert blocks("<p>x</p>", meta) == ["# Work", "## Abstract", "English.", "x"]
    assert blocks("<p>x</p>", meta, authors="keep")[:2] == ["# Work", "J. A. Roe, The Group"]
    assert blocks("<p>x</p>", meta, translations="keep") == [
        "# Work / Obra", "## Abstract", "English.", "## Resumen", "Hola.", "x",
    ]  # fmt: skip


def test_citations_that_are_asked_for() -> None:
    content = f"shown [{cite('1')},{cite('2')}] by {cite('Roe 2010')}<sup>{cite('3')}</sup>"
    assert blocks(f"<p>{content}</p>", citations="keep") == ["shown [1,2] by Roe 2010^3"]


def test_a_name_is_a_word_of_its_own() -> None:
    """Real: `apud` and the name behind it, with no space between the elements."""
    assert paragraph(f"<italic>apud</italic>{cite('Roe, 2010')}and") == "apud Roe, 2010 and"


def test_formulas_that_are_pictures_or_not_wanted_leave_a_mark() -> None:
    body = "<p>if <inline-formula><inline-graphic/></inline-formula>, "
    body += "<inline-formula><italic>n</italic></inline-formula></p>"
    body += (
        "<disp-formula><label>(1)</label><tex-math>$x$</tex-math></disp-formula><disp-formula><graphic/></disp-formula>"
    )
    assert blocks(body) == ["if [formula] , n", "(1) $x$", "[formula]"]
    assert blocks(body, formulas="drop") == ["if [formula] , [formula]", "[formula]", "[formula]"]


# --- tables ----------------------------------------------------------------------------------


def table(*rows: str) -> str:
    written = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table-wrap><label>Table 1</label><table><tbody>{written}</tbody></table></table-wrap>"


HEAD = "<th>Arm</th><th>n</th>"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((HEAD, "<td>A<xref ref-type='table-fn'>a</xref></td><td>1|2</td>"),
         "| Arm | n |\n| --- | --- |\n| A | 1\\|2 |"),
        ((HEAD, "<td colspan='2'>All</td>", "<td rowspan='2'>B</td><td>3</td>", "<td>4</td>"),
         "| Arm | n |\n| --- | --- |\n| All |  |\n| B | 3 |\n|  | 4 |"),
        ((HEAD, "<td>A</td>"), None),  # not rectangular
        ((HEAD,), None),
        (("<td>A</td>", "<td>B</td>"), None),  # one column is a list
        ((HEAD, *["<td>A</td><td>1</td>"] * 39), "| A | 1 |"),
        ((HEAD, *["<td>A</td><td>1</td>"] * 40), None),
        (("<td>A</td>" * 12, "<td>B</td>" * 12), "| B | B |"),
        (("<td>A</td>" * 13, "<td>B</td>" * 13), None),
        ((HEAD, f"<td>{'x' * 300}</td><td/>"), "x" * 300),
        ((HEAD, f"<td>{'x' * 301}</td><td/>"), None),
        ((HEAD, "<td colspan='99999999999'>A</td><td rowspan='x'>B</td>"), "| A | B |"),
    ],
)  # fmt: skip
def test_small_rectangular_tables(rows: tuple[str, ...], expected: str | None) -> None:
    body = f"<p>Before{table(*rows)} after.</p>"
    found = blocks(body, tables="small")
    assert found[:2] == ["Before after.", "Table 1."]
    assert found[2:] == [] if expected is None else expected in found[2]
    assert blocks(body) == ["Before after.", "Table 1."]


def test_verbatim_and_quotes() -> None:
    body = "<p>Code: <preformat>a  b\n  c</preformat> and <disp-quote><p>quoted</p></disp-quote>end.</p>"
    assert blocks(body) == ["Code:", "a  b\n  c", "and", "quoted", "end."]


def test_namespaced_articles() -> None:
    article = (
        '<article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/"><front><article-meta><title-group><article-title>T'
        "</article-title></title-group></article-meta></front><body><sec><title>S</title><p>p</p></sec></body></article>"
    )
    assert article_text(parse(article.encode()), JatsOptions()) == ("T", "# T\n\n## S\n\np")


# --- laws ------------------------------------------------------------------------------------

TAGS = ("p", "sec", "title", "list", "list-item", "bold", "sup", "sub", "fig", "caption", "table-wrap", "fn", "label",
        "disp-formula", "def-item", "term", "xref", "strange", "boxed-text", "disp-quote", "break",
        "app-group")  # fmt: skip


def element(children: Any) -> Any:
    def build(tag: str, parts: list[Any]) -> tuple[str, list[Any]]:
        return tag, parts

    return st.builds(build, st.sampled_from(TAGS), st.lists(children, max_size=4))


TREES = st.lists(st.recursive(st.just(None), element, max_leaves=25), max_size=4)


def serialize(trees: list[Any], names: list[str]) -> str:
    """XML with a word of its own before, between and behind all elements; the words go to `names`."""

    def word() -> str:
        names.append(f"w{len(names)}q")
        return f" {names[-1]} "

    written = word()
    for tree in trees:
        if tree is not None:
            written += f"<{tree[0]}>{serialize(tree[1], names)}</{tree[0]}>"
        written += word()
    return written


@settings(max_examples=400, deadline=None)
@given(TREES)
def test_each_word_comes_once_and_alone(trees: list[Any]) -> None:
    names: list[str] = []
    found = re.findall(r"w\d+q", text(serialize(trees, names)))
    assert sorted(found) == sorted(names)


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_no_empty_block_and_no_double_space(trees: list[Any]) -> None:
    for block in blocks(serialize(trees, [])):
        for line in block.split("\n"):
            assert re.fullmatch(r"(  )*\S+( \S+)*", line), line


@pytest.mark.parametrize(
    "pattern",
    [
        "and ",
        "[",
        "[and ",
        ", ",
        "(see ",
        "x<sup>1</sup>",
        cite("1"),
        f"[{cite('Smith 1')}",
        "(" * 50,
        "<mml:math/>",
        "<fig/>",
    ],
)
def test_hostile_paragraphs_take_linear_time(pattern: str) -> None:
    """Quadratic, each would take minutes."""
    content = pattern * (400_000 // len(pattern))
    assert text(f"<p>start {content}{cite('1')} end</p>").endswith("end")
