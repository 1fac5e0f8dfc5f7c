"""The manifest's reader: what it takes, what it refuses, and in which words."""

import re
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import PlanError, StorageError
from manifests.manifest import open_dataset
from manifests.shape import MANIFEST_SHAPE, misshapen
from manifests.sums import broken_sums, sum_rules
from tests.manifests.builder import Json, Tiny, rewrite_manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Json:
    return open_dataset(Tiny().publish(str(tmp_path / "output"))).manifest


def test_opens_what_was_published(output_url: str) -> None:
    tiny = Tiny()
    tiny.publish(output_url)
    dataset = open_dataset(output_url)
    assert dataset.folder == tiny.manifest["dataset_id"][:12]
    assert dataset.manifest["splits"]["train"]["rows"] == 23
    key = dataset.key(dataset.manifest["splits"]["train"]["shards"][0]["rows"]["key"])
    assert len(dataset.storage.read(key)) == 256


def test_the_shape_takes_a_true_manifest_and_an_empty_part_of_the_ledger(manifest: Json) -> None:
    assert list(misshapen(manifest, MANIFEST_SHAPE)) == []
    manifest["ledger"]["parts"][0] |= {"rows": 0, "first_id": None, "last_id": None}
    assert list(misshapen(manifest, MANIFEST_SHAPE)) == []


@pytest.mark.parametrize(
    "key", ["schema", "format", "tokenizer", "splits", "records", "drops", "bytes", "tokens", "ledger", "sums"]
)
def test_a_missing_key_is_named(manifest: Json, key: str) -> None:
    del manifest[key]
    (line,) = misshapen(manifest, MANIFEST_SHAPE)
    assert line.startswith(f"{key}: expected ")
    assert line.endswith(", found nothing")


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("splits.train.shards[1].num_rows", "8", "a whole number, found '8'"),
        ("splits.train.shards[1].num_rows", True, "a whole number, found True"),
        ("splits.train.shards", {}, "a list, found dict"),
        ("records", [], "an object, found list"),
        ("tokenizer.name", None, "text, found null"),
        ("drops.read_warc.request", 1.5, "a whole number, found float"),
        ("ledger.parts[0].key", "/etc/passwd", "a key below the dataset, found '/etc/passwd'"),
        ("ledger.parts[0].key", "a/../b", "a key below the dataset, found 'a/../b'"),
        ("ledger.parts[0].first_id", 7, "an id or null, found 7"),
    ],
)
def test_a_value_of_another_shape_is_named(manifest: Json, path: str, value: Any, what: str) -> None:
    *keys, last = re.findall(r"\w+", path)
    place: Any = manifest
    for key in keys:
        place = place[int(key) if isinstance(place, list) else key]
    place[last] = value
    assert list(misshapen(manifest, MANIFEST_SHAPE)) == [f"{path}: expected {what}"]


def test_no_dataset_is_a_plan_error(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(PlanError, match="expected a finished dataset, found no MANIFEST"):
            open_dataset(str(place))


@pytest.mark.parametrize("schema", ["curate.dataset/2", "curate.dataset/1.1", "other/1", ""])
def test_an_unknown_schema_is_refused(tmp_path: Path, schema: str) -> None:
    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, lambda manifest: manifest.update(schema=schema, later={}))
    with pytest.raises(PlanError, match=r"schema: expected curate\.dataset/1, found"):
        open_dataset(str(tmp_path))


def test_a_manifest_that_is_not_the_one_named_is_refused(tmp_path: Path) -> None:
    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, lambda manifest: manifest.update(seed=2), pointer=False)
    with pytest.raises(StorageError, match=r"manifest\.json: sha256: expected [0-9a-f]{64} by MANIFEST, found"):
        open_dataset(str(tmp_path))


def test_sums_hold_and_name_what_does_not(manifest: Json) -> None:
    assert list(broken_sums(manifest, sum_rules())) == []
    assert len({rule["name"] for rule in sum_rules()}) == len(sum_rules())
    manifest["records"]["kept"] += 1
    lines = list(broken_sums(manifest, sum_rules()))
    assert [line.split("'")[1] for line in lines] == [
        "every record has one fate",
        "every kept record is a document of one split",
        "records kept by source",
    ]
    assert lines[0] == (
        "sum 'every record has one fate': expected records.in = records.kept + records.dropped + records.merged"
        " + records.quarantined, found 36 and 37"
    )


@pytest.mark.parametrize(
    ("left", "right", "broken"),
    [
        (["a.b"], ["c"], False),
        (["a.*"], ["c", "list.1"], False),
        (["list.*"], ["c"], False),
        (["empty.*"], ["zero"], False),
        (["a.b"], ["zero"], True),
        (["a.x"], ["zero"], True),
        (["c.x"], ["zero"], True),
        (["list.7"], ["zero"], True),
        (["list.x"], ["zero"], True),
        (["a"], ["zero"], True),
        (["yes"], ["zero"], True),
    ],
)
def test_paths_of_sums(left: list[str], right: list[str], broken: bool) -> None:
    numbers = {"a": {"b": 3, "e": 2}, "c": 3, "list": [1, 2], "empty": {}, "zero": 0, "yes": True}
    assert len(list(broken_sums(numbers, [{"name": "n", "left": left, "right": right}]))) == broken
