"""What is read of one PubMed citation: ids, dates, languages, and the text of title and abstract."""

import pytest
from lxml import etree

from curate.core.errors import DataError
from stages.medline_citation import Citation, Pmid, read_citation
from stages.xml import parse


def citation(article: str, around: str = "", data: str = "") -> Citation:
    return read_citation(
        etree.fromstring(
            f'<PubmedArticle><MedlineCitation><PMID Version="1">1</PMID><Article>{article}</Article>{around}'
            f"</MedlineCitation><PubmedData>{data}</PubmedData></PubmedArticle>"
        )
    )


def abstract(words: str) -> str:
    return citation(f"<Abstract><AbstractText>{words}</AbstractText></Abstract>").text


def title(words: str) -> str | None:
    return citation(f"<ArticleTitle>{words}</ArticleTitle>").title


def test_the_abstract_does_not_end_at_an_inline_tag() -> None:
    """metapub/metapub#22."""
    assert abstract("Vitamin D<sub>3</sub> raised IgG (<i>p</i> &lt; 0.05).") == "Vitamin D3 raised IgG (p < 0.05)."


def test_inline_tags_in_a_title() -> None:
    """biopython/biopython#1539."""
    assert title("Role of <i>TP53</i> in <b>cancer</b>.") == "Role of TP53 in cancer."


def test_structured_abstracts() -> None:
    """titipata/pubmed_parser#47: sections without a label, or with text in child tags alone, were lost."""
    found = citation(
        '<ArticleTitle>A case.</ArticleTitle><Abstract><AbstractText Label=""><b>Patient: F, 16</b></AbstractText>'
        '<AbstractText Label="METHODS" NlmCategory="METHODS">We did.</AbstractText><AbstractText/>'
        '<AbstractText Label="UNLABELLED">So.</AbstractText><AbstractText Label="AIM:">To see.</AbstractText>'
        '<AbstractText Label="RESULTS">Results: many.</AbstractText><AbstractText Label="EMPTY"> </AbstractText>'
        "<CopyrightInformation>(c) nobody</CopyrightInformation></Abstract>"
    )
    assert found.text == ("# A case.\n\nPatient: F, 16\n\nMETHODS: We did.\n\nSo.\n\nAIM: To see.\n\nResults: many.")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("[Not Available].", None),
        ("[In Process Citation]", None),
        ("", None),
        ("[Ein Titel].", "Ein Titel."),
        ("[A title (author's transl)]", "A title (author's transl)"),
        ("[Is it?].", "Is it?"),
        ("[Effects of [3H]glucose on rats].", "Effects of [3H]glucose on rats."),
        ("[3H]glucose and [14C]glucose.", "[3H]glucose and [14C]glucose."),
        ("Not available.", "Not available."),
    ],
)
def test_titles_in_brackets(words: str, expected: str | None) -> None:
    """spyysalo/pubmed#3."""
    assert title(words) == expected


def test_a_title_alone_is_no_text_and_a_placeholder_no_heading() -> None:
    assert (citation("<ArticleTitle>T.</ArticleTitle>").text, citation("<ArticleTitle/>").title) == ("", None)
    found = citation(
        "<ArticleTitle>[Not Available].</ArticleTitle><Abstract><AbstractText>Words.</AbstractText></Abstract>"
        "<VernacularTitle>Ein Titel.</VernacularTitle>"
    )
    assert (found.title, found.text) == (None, "Words.")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "Genes &amp;lt;i&amp;gt;VLDLR&amp;lt;/i&amp;gt; and A &amp;amp; B, p &lt; 0.05",
            "Genes VLDLR and A & B, p < 0.05",
        ),
        ("&lt;h4&gt;Background: &lt;/h4&gt;We saw", "Background: We saw"),
        ("one&lt;br/&gt;two", "one two"),
        ("10&lt;sup&gt;5&lt;/sup&gt; cells, CO&amp;lt;sub&amp;gt;2&amp;lt;/sub&amp;gt;", "10^5 cells, CO2"),
        ("p &lt;b and c&gt; d", "p <b and c> d"),
        ("a &lt; b, c &gt; d", "a < b, c > d"),
        ("R&amp;D; AT&amp;T &amp;amp;lt;", "R&D; AT&T &lt;"),
        ("&amp;#946;-blocker, &amp;nbsp;&amp;alpha;, &amp;#1; &amp;#4;", "\u03b2-blocker, \u03b1,"),
    ],
)
def test_markup_that_was_escaped_once_too_often(words: str, expected: str) -> None:
    """dsifford/astrocite#17; cyanheads/pubmed-mcp-server#74."""
    assert abstract(words) == expected


def test_invisible_characters() -> None:
    """cyanheads/pubmed-mcp-server#74."""
    assert abstract("clin\u00adical gen\u200beration") == "clinical generation"


def test_formulas_and_unknown_elements() -> None:
    math = '<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mfrac><mml:mi>a</mml:mi><mml:mi>b</mml:mi></mml:mfrac></mml:math>'
    assert abstract(f"The ratio {math}, or <DispFormula>{math}</DispFormula>so.") == "The ratio a/b, or a/b so."
    assert abstract("<p>One.</p><p>Two.</p>tail") == "One. Two. tail"


def test_languages_are_not_mixed() -> None:
    """pkp/jatsTemplate#1: a translated abstract is not joined to the abstract."""
    other = '<OtherAbstract Type="Publisher" Language="spa"><AbstractText>Hola.</AbstractText></OtherAbstract>'
    plain = '<OtherAbstract Type="plain-language-summary"><AbstractText>Simply.</AbstractText></OtherAbstract>'
    words = "<Abstract><AbstractText>Words.</AbstractText></Abstract>"
    assert citation(words, other + plain).text == "Words."
    assert citation("", other).text == ""
    assert citation("", other + plain).text == "Simply."


@pytest.mark.parametrize(
    ("article", "language"),
    [
        ("<Language>eng</Language>", "en"),
        ("<Language>fre</Language><Language>eng</Language>", "en"),
        ("<ArticleTitle>[A title].</ArticleTitle><Language>ger</Language>", "en"),
        ("<ArticleTitle>[Not Available].</ArticleTitle><Language>ger</Language>", "en"),
        ("<ArticleTitle>Um titulo.</ArticleTitle><Language>por</Language>", "pt"),
        ("<Language>und</Language>", None),
        ("<Language>mul</Language><Language>haw</Language>", "haw"),
        ("", None),
    ],
)
def test_the_language_is_that_of_the_text(article: str, language: str | None) -> None:
    assert citation(article).language == language


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        ("<PubDate><Year>2016</Year><Month>Jan</Month></PubDate>", "2016-01"),
        ("<PubDate><Year>2016</Year><Month>09</Month><Day>3</Day></PubDate>", "2016-09-03"),
        ("<PubDate><Year>2016</Year><Season>Spring</Season></PubDate>", "2016"),
        ("<PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate>", "1998"),
        ("<PubDate><MedlineDate>Spring 1998</MedlineDate></PubDate>", None),
        ("<PubDate/>", None),
    ],
)
def test_dates(dates: str, expected: str | None) -> None:
    journal = f"<Journal><JournalIssue>{dates}</JournalIssue></Journal>"
    assert citation(journal).date == expected
    electronic = "<ArticleDate DateType='Electronic'><Year>2015</Year><Month>12</Month><Day>31</Day></ArticleDate>"
    assert citation(journal + electronic).date == "2015-12-31"


def test_ids_are_those_of_the_article_and_not_of_its_references() -> None:
    each = '<ArticleId IdType="pmc">PMC{0}</ArticleId><ArticleId IdType="doi">10.1/{0}</ArticleId>'
    ids = f"<ArticleIdList>{each}</ArticleIdList>"
    cited = f"<ReferenceList><Reference><Citation>C</Citation>{ids.format(9)}</Reference></ReferenceList>"
    found = citation("", data=cited + ids.format(2) + cited)
    assert (found.pmid, found.pmcid, found.doi) == (Pmid("1", 1), "PMC2", "10.1/2")
    assert (citation("", data=cited).pmcid, citation("", data=cited).doi) == (None, None)
    stated = (
        '<ELocationID EIdType="doi" ValidYN="N">10.1/0</ELocationID><ELocationID EIdType="doi">10.1/3</ELocationID>'
    )
    assert citation(stated).doi == "10.1/3"


def test_retraction_and_what_is_not_of_the_text() -> None:
    kind = '<PublicationType UI="D016441">Retracted Publication</PublicationType>'
    kinds = f"<PublicationTypeList>{kind}</PublicationTypeList>"
    comments = (
        '<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"><RefSource>J. 2020</RefSource>'
        "<PMID>9</PMID></CommentsCorrections></CommentsCorrectionsList>"
    )
    words = "<Abstract><AbstractText>Long (ABSTRACT TRUNCATED AT 250 WORDS)</AbstractText></Abstract>"
    assert citation(words + kinds, comments).is_retracted
    assert not citation(words, comments).is_retracted
    assert citation(words, comments).text == "Long"


def test_a_citation_without_a_pmid_is_refused() -> None:
    with pytest.raises(DataError, match="bad_pmid"):
        read_citation(etree.fromstring("<PubmedArticle><MedlineCitation/></PubmedArticle>"))


def test_languages_are_mixed_where_that_is_asked_for() -> None:
    article = parse(
        b"<PubmedArticle><MedlineCitation><PMID Version='1'>1</PMID><Article><Journal><Title><i>In Vivo</i> Models"
        b"</Title></Journal><ArticleTitle>[A title].</ArticleTitle><Abstract><AbstractText>Text.</AbstractText>"
        b"</Abstract><VernacularTitle>Ein Titel.</VernacularTitle></Article><OtherAbstract Language='ger'>"
        b"<AbstractText>Auf Deutsch.</AbstractText></OtherAbstract></MedlineCitation></PubmedArticle>"
    )
    assert read_citation(article).text == "# A title.\n\nText."
    assert read_citation(article, with_translations=True).text == "# A title. / Ein Titel.\n\nText.\n\nAuf Deutsch."
    assert read_citation(article).journal == "In Vivo Models"
