"""Reference lists leave the bytes only where that cannot change what is left."""

import pytest

from stages.jats_references import without_references

LIST = b"<ref-list id='a'><title>References</title><ref>x</ref></ref-list>"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"<back>" + LIST + b"<fn/></back>", b"<back><fn/></back>"),
        (b"<back>" + LIST + b" and " + LIST + b"</back>", b"<back> and </back>"),
        (b"<!-- a --><back>" + LIST + b"<!-- b --></back>", b"<!-- a --><back><!-- b --></back>"),
    ],
)
def test_lists_that_go(data: bytes, expected: bytes) -> None:
    assert without_references(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"<back/>",
        b"</ref-list><ref-list>",
        b"<ref-list>",
        b"<!--" + LIST + b"-->",
        b"<p><![CDATA[" + LIST + b"]]></p>",
        b"<ref-list><!-- </ref-list> --></ref-list>",
        b"<ref-list><?pi </ref-list>?></ref-list>",
        b"<ref-list><ref-list></ref-list></ref-list>",
        b"<ref-lists>" + b"</ref-list>",
        LIST + b"<ref-list>" + b"</ref-lists>",
    ],
)
def test_what_is_left_alone(data: bytes) -> None:
    assert without_references(data) == data
