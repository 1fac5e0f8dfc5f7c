"""From a file to a plan: order, chains, keys, columns, places."""

import importlib.metadata
import json
import os
import unicodedata
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import PlanError
from curate.core.hashing import canonical_json, digest
from curate.plan.build import build
from curate.plan.plan import Plan, Run
from tests.plan.conftest import SMALL


def planned(old: str = "", new: str = "", output: str | None = None) -> Plan:
    """The plan of SMALL with one change."""
    assert old == "" or SMALL.count(old) == 1
    Path("pipeline.yaml").write_text(SMALL.replace(old, new) if old else SMALL)
    return build("pipeline.yaml", output)


@pytest.mark.usefixtures("folder")
def test_sources_come_depth_first_with_their_whole_chains() -> None:
    plan = planned()
    assert [(source.name, source.use, [step.name for step in source.steps]) for source in plan.sources] == [
        ("web", "tiny_stages.ReadLines", ["extract", "language", "keep", "repair", "drop_empty", "tokenize"]),
        ("notes", "tiny_stages.ReadLines", ["extract_notes", "repair", "drop_empty", "tokenize"]),
    ]
    web, notes = plan.sources
    assert web.steps[-3:] == notes.steps[-3:]
    assert [step.use for step in web.steps[-2:]] == ["stages.text.DropEmpty", "stages.tokenize.Tokenize"]


@pytest.mark.usefixtures("folder")
def test_the_order_of_from_is_the_order_of_sources() -> None:
    assert [source.name for source in planned("[web, notes]", "[notes, web]").sources] == ["notes", "web"]


@pytest.mark.usefixtures("folder")
def test_depth_first_means_a_join_comes_before_what_follows_it() -> None:
    text = SMALL.replace("    from: [web, notes]", "    from: [inner, web]").replace(
        "  corpus:\n", "  late:\n    from: notes\n  inner: {from: [late]}\n  corpus:\n"
    )
    Path("pipeline.yaml").write_text(text)
    assert [source.name for source in build("pipeline.yaml").sources] == ["notes", "web"]


@pytest.mark.usefixtures("folder")
def test_columns_follow_the_steps() -> None:
    columns = [list(found) for found in planned().sources[0].columns]
    identity = ["id", "name", "record_hash", "source", "origin"]
    assert columns == [
        [*identity, "content"],
        [*identity, "text", "title"],
        [*identity, "text", "title", "language"],
        [*identity, "text", "title", "language"],
        [*identity, "text", "title", "num_repairs"],  # the language was found in another text
        [*identity, "text", "title", "num_repairs"],
        [*identity, "title", "num_repairs", "tokens"],
    ]


def test_inputs_are_sorted_and_hidden_files_are_left(folder: Path) -> None:
    web, notes = planned().sources
    assert web.root == str(folder / "data")
    assert [(item.key, item.size) for item in web.inputs] == [("one.txt", 13), ("two.txt", 13)]
    assert web.inputs[0].tag == str(os.stat(folder / "data" / "one.txt").st_mtime_ns)
    assert (notes.root, [item.key for item in notes.inputs]) == (str(folder / "notes"), ["a.txt", "b.txt"])


def test_rows_and_the_rest(folder: Path) -> None:
    plan = planned()
    model = folder / "models" / "tiny.model"
    rows = plan.rows
    assert (plan.name, plan.file, plan.seed, plan.max_quarantined) == ("small", "pipeline.yaml", 7, 0.001)
    assert plan.run == Run(unit_seconds=60.0, unit_bytes=None, memory_per_worker=2 << 30)
    assert (rows.length, rows.per_shard, rows.packing, rows.dtype) == (16, 64, "stages.pack.Concat", "<u2")
    assert (rows.tokenizer.location, rows.tokenizer.sha256) == (str(model), sha256(model.read_bytes()).hexdigest())
    assert (rows.tokenizer_name, rows.bos, rows.eos, rows.bos_id, rows.eos_id) == (
        "tiny.model",
        "document",
        "document",
        1,
        2,
    )


@pytest.mark.usefixtures("folder")
def test_defaults_are_those_of_the_grammar() -> None:
    shortest = "curate: 1\ndocuments:\n  web:\n    read: {use: tiny_stages.ReadLines, paths: data/one.txt}\n"
    shortest += "    steps: [tiny_stages.Extract]\ndataset: {from: web, tokenizer: {model: models/tiny.model}}\n"
    Path("shortest.yaml").write_text(shortest)
    plan = build("shortest.yaml")
    assert (plan.name, plan.seed, plan.max_quarantined, plan.run) == ("shortest", 0, 0.001, Run())
    assert (plan.rows.length, plan.rows.per_shard, plan.rows.packing) == (4096, 16384, "stages.pack.Concat")
    assert plan.output == os.path.abspath("curate-out/shortest")


@pytest.mark.usefixtures("folder")
def test_the_description_says_what_decides_and_nothing_else() -> None:
    plan = planned()
    assert plan.plan_id == digest(plan.description)
    assert json.loads(canonical_json(plan.description)) == plan.description
    web = plan.description["sources"][0]
    assert [step["name"] for step in web["steps"]] == [
        "extract",
        "language",
        "keep",
        "repair",
        "drop_empty",
        "tokenize",
    ]
    assert web["steps"][1] == {
        "name": "language",
        "use": "tiny_stages.Language",
        "version": 3,
        "options": {"model": {"sha256": sha256(b"language").hexdigest()}},
        "libraries": {"pyarrow": importlib.metadata.version("pyarrow"), "unicode": unicodedata.unidata_version},
    }
    assert {key: web[key] for key in ("name", "use", "version", "options", "libraries")} == {
        "name": "web",
        "use": "tiny_stages.ReadLines",
        "version": 1,
        "options": {"max_record_bytes": 1 << 20},
        "libraries": {"unicode": unicodedata.unidata_version},
    }
    assert web["inputs"] == [[item.key, item.size, item.tag] for item in plan.sources[0].inputs]
    assert str(Path.cwd()) not in canonical_json(plan.description).decode()


def identity(plan: Plan) -> dict[str, Any]:
    """What names the plan, its rows, all that a source's documents go through, and one step."""
    web, notes = ([one.reader_key, *((step.name, step.key) for step in one.steps)] for one in plan.sources)
    return {"plan": plan.plan_id, "rows": plan.rows.key, "web": web, "notes": notes, "keep": web[3][1]}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("seed: 7", "seed: 8", {"plan", "rows"}),
        ("name: small\n", "name: other\n", set()),
        ("limits: {max_quarantined: 0.001}", "limits: {max_quarantined: 1}", set()),
        ("run: {unit_seconds: 60, memory_per_worker: 2 GiB}", "run: {unit_bytes: 16 KiB}", set()),
        ("seed: 7", "seed: 7\noutput: elsewhere", set()),
        ("min_words: 5", "min_words: 6", {"plan", "web", "keep"}),
        ("min_words: 5", "min_words: 5, min_score: 0.5", set()),  # a default that is spelled out
        ("min_words: 5", "min_words: 5, name: strict", {"plan", "web"}),  # names stand in ledgers
        ("tables: drop", "tables: small", {"plan", "notes"}),
        ("length: 16", "length: 32", {"plan", "rows"}),
        ("per_shard: 64", "per_shard: 128", {"plan", "rows"}),
        ("eos: document", "eos: none", {"plan", "rows", "web", "notes"}),
        ("data/*.txt", "data/one.txt", {"plan"}),
        ("  web:\n", "  web2:\n", {"plan", "web"}),
        ("  corpus:\n    from: [web, notes]", "  corpus:\n    from: [notes, web]", {"plan", "swapped"}),
        ("model: models/language.bin", "model: models/copy.bin", set()),
        ("model: models/language.bin", "model: models/other.bin", {"plan", "web"}),
    ],
)
def test_what_enters_which_key(old: str, new: str, changed: set[str]) -> None:
    Path("models/copy.bin").write_bytes(b"language")
    Path("models/other.bin").write_bytes(b"other")
    before = identity(planned())
    text = SMALL.replace(old, new)
    if new == "  web2:\n":
        text = text.replace("[web, notes]", "[web2, notes]")
    Path("pipeline.yaml").write_text(text)
    after = identity(build("pipeline.yaml"))
    if "swapped" in changed:
        assert (before["web"], before["notes"]) == (after["notes"], after["web"])
        assert before["plan"] != after["plan"]
    else:
        assert {key for key in before if before[key] != after[key]} == changed


def test_a_key_does_not_depend_on_where_the_files_are(folder: Path) -> None:
    before = planned()
    moved = folder / "moved"
    moved.mkdir()
    for name in ("data", "notes", "models", "pipeline.yaml"):
        (folder / name).rename(moved / name)
    after = build(moved / "pipeline.yaml")
    assert after.plan_id == before.plan_id
    assert after.sources[0].root == str(moved / "data")


def test_the_output_of_the_file_is_relative_to_the_file_and_that_of_the_command_to_here(folder: Path) -> None:
    (folder / "sub").mkdir()
    text = (
        SMALL.replace("seed: 7", "seed: 7\noutput: ../out")
        .replace("models/", "../models/")
        .replace('"data/', '"../data/')
    )
    (folder / "sub" / "pipeline.yaml").write_text(text.replace("notes/", "../notes/"))
    assert build("sub/pipeline.yaml").output == str(folder / "out")
    assert build("sub/pipeline.yaml", "out2").output == str(folder / "out2")
    assert build("sub/pipeline.yaml", "s3://bucket/prefix/").output == "s3://bucket/prefix"
    assert not (folder / "out").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "--output: the output is empty; want a folder or s3://bucket/prefix"),
        ("gs://x/y", "--output: unknown kind of storage: 'gs://'; want a local folder or s3://bucket/prefix"),
    ],
)
def test_outputs_of_the_command_that_are_refused(output: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned(output=output)
    assert str(caught.value) == message


def test_a_model_inside_a_package_is_found_without_importing_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "lib" / "modelpack"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "inner" / "m.bin").write_bytes(b"in a package")
    monkeypatch.syspath_prepend(folder / "lib")
    step = planned("models/language.bin", "'modelpack:inner/m.bin'").sources[0].steps[1]
    assert step.stage.options()["model"].location == str(package / "inner" / "m.bin")
    assert step.stage.options()["model"].sha256 == sha256(b"in a package").hexdigest()
    inner = planned("models/language.bin", "'modelpack.inner:m.bin'").sources[0].steps[1]
    assert inner.key == step.key


@pytest.mark.usefixtures("folder")
def test_a_deep_chain_of_nodes_is_followed() -> None:
    names = [f"n{number}" for number in range(3000)]
    nodes = "".join(f"  {name}: {{from: {before}}}\n" for before, name in zip(["web", *names], names, strict=False))
    text = SMALL.replace("  corpus:\n", f"{nodes}  corpus:\n").replace("[web, notes]", "[n2999, notes]")
    Path("pipeline.yaml").write_text(text)
    assert [source.name for source in build("pipeline.yaml").sources] == ["web", "notes"]
