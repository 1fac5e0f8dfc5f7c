"""KeepLicenses: which names are one, and what a document without a license is."""

import pyarrow as pa
import pytest

from stages.license import KeepLicenses, folded

BATCH = pa.RecordBatch.from_pydict(
    {
        "license": pa.array(["cc0", "cc-by", "CC BY 4.0", "cc-by-sa", "cc-by-nc", None, None, "", "MIT"], pa.string()),
        "kind": pa.array([None, "a", "citation", "a", "citation", "citation", None, "citation", "a"], pa.string()),
    }
)


def judged(stage: KeepLicenses) -> list[str | None]:
    reasons: list[str | None] = stage.open()(BATCH.select(stage.columns_read())).to_pylist()
    return reasons


def test_what_is_allowed_stays() -> None:
    found = judged(KeepLicenses(allow=("cc0", "cc-by")))
    other, unknown = "license", "license_unknown"
    assert found == [None, None, None, other, other, unknown, unknown, other, other]


def test_citations_stay_where_a_source_says_which_documents_are_some() -> None:
    found = KeepLicenses(allow=("cc0", "cc-by")).open()(BATCH).to_pylist()
    other, unknown = "license", "license_unknown"
    assert found == [None, None, None, other, other, None, unknown, other, other]
    assert KeepLicenses(allow=("cc0",), allow_unknown=()).open()(BATCH).to_pylist()[5] == unknown


def test_kinds_that_need_not_state_a_license() -> None:
    """A citation states none; one that states another is dropped all the same."""
    found = judged(KeepLicenses(allow=("CC-BY-SA",), allow_unknown=("citation", "letter")))
    other, unknown = "license", "license_unknown"
    assert found == [other, other, other, None, other, None, unknown, other, other]


def test_the_columns_that_are_read_depend_on_the_options() -> None:
    assert KeepLicenses(allow=("cc0",)).columns_read() == ("license",)
    assert KeepLicenses(allow=("cc0",), allow_unknown=("letter",)).columns_read() == ("license", "kind")


def test_an_empty_list_would_keep_nothing() -> None:
    with pytest.raises(ValueError, match="allow: found nothing"):
        KeepLicenses(allow=())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CC BY", "cc-by"),
        ("cc_by_nc_nd", "cc-by-nc-nd"),
        (" CC-BY-4.0 ", "cc-by"),
        ("CC BY 3.0 Unported", "cc-by"),
        ("CC0 1.0 Universal", "cc0"),
        ("cc-by-sa-2.5", "cc-by-sa"),
        ("public domain", "public-domain"),
        ("GPL-3.0", "gpl-3.0"),
        ("cc-by-4.0-igo", "cc-by-4.0-igo"),
        ("cc-by-x", "cc-by-x"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert folded(name) == expected
