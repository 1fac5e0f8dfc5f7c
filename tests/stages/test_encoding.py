"""Bytes to text in browsers' order, and control characters out."""

import codecs
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.core.errors import DataError
from stages.encoding import clean, codec_of, decode

UMLAUTS = "die m\xf6\xf6se und noch ein ganzer Satz"
CHINESE = (
    "\u8fd9\u662f\u4e00\u4e2a\u5173\u4e8e\u533b\u5b66\u7814\u7a76\u7684\u4e2d\u6587\u6bb5\u843d\uff0c"
    "\u8ba8\u8bba\u4e86\u75c5\u4eba\u7684\u6cbb\u7597\u3002"
)


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("ISO-8859-1", "cp1252"),
        ("latin1", "cp1252"),
        ("us-ascii", "cp1252"),
        ("gb2312", "gb18030"),
        ("GBK", "gb18030"),
        ("shift_jis", "cp932"),
        ("euc-kr", "cp949"),
        ("big5", "big5hkscs"),
        ("iso-8859-9", "cp1254"),
        (" utf8 ", "utf-8"),
        ("utf-7", None),
        ("no such", None),
    ],
)
def test_labels_mean_what_browsers_mean_by_them(label: str, codec: str | None) -> None:
    assert codec_of(label) == codec
    assert codec is None or codecs.lookup(codec)


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        (b"\xef\xbb\xbf" + UMLAUTS.encode(), "latin1"),
        (codecs.BOM_UTF16_LE + UMLAUTS.encode("utf-16-le"), "utf-8"),
        (codecs.BOM_UTF16_BE + UMLAUTS.encode("utf-16-be"), None),
        (UMLAUTS.encode("latin1"), "iso-8859-1"),
        (UMLAUTS.encode("utf-16-le"), "utf-16le"),
        (UMLAUTS.encode(), None),
        (UMLAUTS.encode(), "unheard-of"),
        (UMLAUTS.encode("latin1"), "utf-8"),  # which does not fit
    ],
)
def test_text_is_decoded_by_mark_then_declaration_then_what_fits(content: bytes, charset: str | None) -> None:
    assert decode(content, charset, is_html=False) == UMLAUTS


def test_a_declared_charset_is_believed_where_it_fits() -> None:
    assert decode("\xf6".encode() * 10, "latin1", is_html=False) == "\xc3\xb6" * 10


@pytest.mark.parametrize(
    "meta", ["<meta charset=iso-8859-1>", "<META http-equiv='x' content='text/html; charset=\"ISO-8859-1\"'>"]
)
def test_a_page_that_states_latin1_is_read_as_windows_1252(meta: str) -> None:
    """BUG-025."""
    page = f"{meta}<p>die m\xf6\xf6se \u201cx\u201d</p>"
    assert decode(page.encode("cp1252"), None, is_html=True) == page


def test_a_declaration_in_a_comment_or_in_plain_text_is_none() -> None:
    page = f"<!-- <meta charset=koi8-r> --><p>{UMLAUTS}"
    assert decode(page.encode(), None, is_html=True) == page
    assert decode(f"<meta charset=koi8-r>{UMLAUTS}".encode(), None, is_html=False).endswith(UMLAUTS)


def test_a_page_cannot_state_utf16_in_ascii() -> None:
    page = f"<meta charset=utf-16>{UMLAUTS}"
    assert decode(page.encode(), None, is_html=True) == page


def test_detection_looks_at_all_bytes() -> None:
    """BUG-026: 20,000 and 400,000 bytes of ASCII before the text."""
    for size in (20_000, 400_000):
        page = "<div class=x>" * (size // 13) + f"<p>{CHINESE}</p>" + "<br>" * (size // 4)
        assert decode(page.encode("gb18030"), None, is_html=True) == page


def test_gb2312_is_read_as_gb18030() -> None:
    """BUG-026: with a character that GB2312 does not have."""
    page = f"<meta charset=gb2312><p>{CHINESE}\u9555</p>"
    with pytest.raises(UnicodeEncodeError):
        page.encode("gb2312")
    assert decode(page.encode("gb18030"), None, is_html=True) == page


def test_a_few_bad_bytes_do_not_change_the_encoding() -> None:
    text = UMLAUTS * 40  # 80 umlauts: 160 bytes beyond ASCII
    assert decode(text.encode() + b"\xff", "utf-8", is_html=False) == text + "\ufffd"
    with pytest.raises(DataError, match="bad_encoding"):
        decode(text.encode() + b"\xff" * 60, "utf-8", is_html=False)


def test_bad_bytes_weigh_by_what_is_not_ascii() -> None:
    page = "<br>" * 1000 + "it\u2019s"
    assert decode(page.encode("cp1252"), "utf-8", is_html=True) == page


def test_replacement_characters_of_the_page_itself_are_no_fault() -> None:
    assert decode("\ufffd\ufffd\xe4".encode(), None, is_html=False) == "\ufffd\ufffd\xe4"


def test_bytes_that_nothing_fits_are_refused() -> None:
    content = bytes(range(0x80, 0x100)) * 20
    with pytest.raises(DataError, match="bad_encoding"):
        decode(content, None, is_html=False)


def test_control_characters_are_taken_out() -> None:
    """BUG-033."""
    assert clean("a\0b x\x01y\x0bz\x0c\x7f\x85\x80\x9f\ufffe\uffff\ud800.\r\n\r\t\xa0\u2028\U0001f600") == (
        "ab xy z \n\ufffd.\n\n\t\xa0\u2028\U0001f600"
    )


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_is_utf8_and_stays_as_it_is(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert cleaned.encode().decode() == cleaned
    assert not set(cleaned) & {chr(code) for code in [*range(9), 11, 12, *range(13, 32), *range(127, 160)]}
    ordinary = "".join(char for char in text if char.isprintable() or char == " ")
    assert clean(ordinary) == ordinary


def test_real_documents_of_known_encodings(shared_data: Path) -> None:
    """Fewer are right where browsers do not know the encoding (IBM855, MacCyrillic, Johab, UTF-32)."""
    folder = shared_data / "web" / "charset"
    num_right = num_documents = 0
    with tarfile.open(folder / "chardet_corpus.tar.xz") as archive:
        contents = {member.name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
        for line in (folder / "chardet_corpus.manifest.jsonl").read_text().splitlines():
            fact = json.loads(line)
            member = contents[fact["member"]]
            codec = codec_of(fact["encoding"])
            if codec is None or member is None:
                continue
            content = member.read()
            num_documents += 1
            wanted = content.decode(codec, "replace").removeprefix("\ufeff")
            try:
                num_right += decode(content, None, is_html=True) == wanted
            except DataError:
                continue  # no answer is not the right one
    assert num_documents == 327
    assert num_right >= 312
