"""The XML parser for what strangers wrote: no file, no network, no bomb, no depth that hurts."""

import resource
import socket
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.errors import DataError
from stages import xml
from stages.xml import as_safe_utf8, parse, pull_parser, with_known_entities


def reason_of(data: bytes) -> str:
    with pytest.raises(DataError) as caught:
        parse(data)
    return caught.value.reason


def test_no_file_is_read(tmp_path: Path) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("canary-7f3a", "utf-8")
    url = canary.as_uri()
    declared = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{url}">]><a>&x;</a>'
    assert reason_of(declared.encode()) == "unsafe_xml"
    assert reason_of(declared.encode("utf-16")) == "unsafe_xml"
    parameter = f'<!DOCTYPE a [<!ENTITY % x SYSTEM "{url}"> %x;]><a/>'
    assert reason_of(parameter.encode()) == "unsafe_xml"
    external = (
        f'<!DOCTYPE a SYSTEM "{url}"><a xmlns:i="http://www.w3.org/2001/XInclude">&x;<i:include href="{url}"/></a>'
    )
    assert "canary-7f3a" not in "".join(parse(external.encode()).itertext())


def test_no_connection_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x.dtd"
        document = (
            f'<?xml-stylesheet href="{url}"?><!DOCTYPE a PUBLIC "-//X//EN" "{url}" [ %x; ]><a>text &x;</a>'.encode()
        )
        assert "".join(parse(document).itertext()) == "text &x;"
        parser = pull_parser(events=("end",))
        parser.feed(with_known_entities(as_safe_utf8(document)))
        assert [element.text for _, element in parser.read_events()] == ["text &x;"]
        with pytest.raises(TimeoutError):
            listener.accept()


def test_bombs_are_refused_in_little_memory() -> None:
    laughs = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, 12))
    quadratic = f'<!ENTITY l11 "{"x" * 100_000}">'
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for declarations in (f'<!ENTITY l0 "lol">{laughs}', quadratic):
        bomb = f"<!DOCTYPE a [{declarations}]><a>{'&l11;' * 1000}</a>".encode()
        assert reason_of(bomb) == "unsafe_xml"
        hidden = b'<?xml version="1.0" encoding="UTF-7"?>' + bomb.replace(b"<", b"+ADw-")
        assert reason_of(hidden) == "bad_xml"
    if sys.platform == "linux":  # kilobytes there
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_bounds_on_tags_depth_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MAX_TAGS", 10)
    assert parse(b"<a>" + b"<b/>" * 8 + b"</a>").tag == "a"
    assert reason_of(b"<a>" + b"<b/>" * 9 + b"</a>") == "unsafe_xml"
    monkeypatch.undo()
    assert parse(b"<a>" * 256 + b"</a>" * 256).tag == "a"
    assert reason_of(b"<a>" * 100_000) == "bad_xml"
    assert reason_of(b"<a>" + b"x" * 11_000_000 + b"</a>") == "bad_xml"


@pytest.mark.parametrize("doctype", ["", '<!DOCTYPE article SYSTEM "missing.dtd">'])
def test_names_that_only_a_dtd_defines(doctype: str) -> None:
    """packtools#158: such a name stopped the parse; the known ones become characters, the others stay visible."""
    root = parse(f'{doctype}<p t="&eacute;">a &squf; b &ndash; c &unknownent; d&nbsp;e &lt;&LT;&amp;</p>'.encode())
    assert root.text == "a \u25aa b \u2013 c &unknownent; d\xa0e <<&"
    assert root.get("t") == "\u00e9"


def test_ampersands_in_cdata_and_comments_are_text() -> None:
    assert parse(b"<p>&nbsp;<![CDATA[&nbsp; & <b>]]><!-- &nbsp; -->.</p>").text == "\xa0&nbsp; & <b>."


@pytest.mark.parametrize("unclosed", [b"<!--", b"<![CDATA["])
def test_what_is_never_closed_takes_linear_time(unclosed: bytes) -> None:
    """Quadratic, this would take hours."""
    assert reason_of(b"<p>&nbsp;" + unclosed * 500_000 + b"&nbsp;") == "bad_xml"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252", "us-ascii"])
def test_declared_encodings(encoding: str) -> None:
    text = "plain" if encoding == "us-ascii" else "caf\u00e9"
    assert parse(f'<?xml version="1.0" encoding="{encoding}"?>\n<p>{text}</p>'.encode(encoding)).text == text


@pytest.mark.parametrize(
    "data", [b"", b" \n", b"text", b"<a>", b"<a></b>", b"<a>\xff</a>", b"<a>&#0;</a>", b"\xff\xfe<", b"<a/><b/>"]
)
def test_what_is_not_well_formed(data: bytes) -> None:
    assert reason_of(data) == "bad_xml"


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from(["<a>", "</a>", "<!DOCTYPE a [", "]>", "<!ENTITY x 'y'>", "&x;", "&nbsp;", "<!--"]))
        .map("".join)
        .map(str.encode),
    )
)
def test_anything_parses_or_is_bad_data(data: bytes) -> None:
    try:
        root = parse(data)
    except DataError as error:
        assert error.reason in ("bad_xml", "unsafe_xml")
    else:
        assert isinstance(root.tag, str)
        assert b"<!ENTITY" not in data
