"""The real command: exact errors, exit codes, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import command as command_line
from tests.plan.conftest import PACKAGES, SMALL, folder, tokenizer_model
from tests.plan.malformed import COMMON, Malformed

__all__ = ["folder", "tokenizer_model"]  # fixtures

ROOT = Path(__file__).parents[1]
HEAVY = {"pyarrow", "ray", "numba", "numpy", "boto3", "yaml", "rich"}
Curate = Callable[..., subprocess.CompletedProcess[str]]

RUNNABLE = """\
curate: 1
documents:
  notes:
    read: {use: stages.jsonl.ReadJsonl, paths: "*.jsonl", id: id, text: text}
dataset:
  from: notes
  tokenizer: {model: models/tiny.model}
  rows: {length: 16, per_shard: 64}
"""


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(PACKAGES)])}


@pytest.fixture
def curate(folder: Path) -> Curate:
    """Runs the command in the folder of SMALL."""

    def call(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = command_line(*arguments)
        done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


@pytest.mark.parametrize("case", COMMON, ids=lambda case: case.name)
def test_a_malformed_pipeline_is_one_line_and_exit_2_and_nothing_is_created(
    case: Malformed,
    curate: Curate,
    folder: Path,
) -> None:
    (folder / "pipeline.yaml").write_text(SMALL.replace(case.old, case.new))
    before = sorted(folder.rglob("*"))
    done = curate("run", "pipeline.yaml", "--output", "out", code=2)
    assert (done.stdout, done.stderr) == ("", f"pipeline.yaml{case.message}\n")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.yaml"], "absent.yaml: cannot be read: No such file or directory"),
        (["plan", "absent.yaml"], "absent.yaml: cannot be read: No such file or directory"),
        (["run", "pipeline.yaml", "--job", "3/2"], "--job: want I/N with I from 1 to N, such as 2/8, not '3/2'"),
        (["run", "pipeline.yaml", "--wait"], "--wait goes with --job"),
        (
            ["run", "pipeline.yaml", "--output", ""],
            "--output: the output is empty; want a folder or s3://bucket/prefix",
        ),
    ],
)
def test_other_errors_are_one_line(arguments: list[str], message: str, curate: Curate) -> None:
    done = curate(*arguments, code=2)
    assert (done.stdout, done.stderr) == ("", f"{message}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "nowhere"],
        ["report", "nowhere"],
        ["why", "nowhere", "x"],
        ["sample", "nowhere", "--rejected-by", "x"],
        ["trace", "nowhere", "train", "0"],
        ["status", "nowhere"],
        ["gc", "nowhere"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_wrong_path_is_exit_2_for_all(arguments: list[str], curate: Curate) -> None:
    done = curate(*arguments, code=2)
    assert done.stdout == ""
    assert "nowhere" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["rnu"], ["run", "a", "b"], ["plan", "a", "--on", "local"], ["run", "a", "--workers", "0"], ["why", "a"]],
)
def test_wrong_usage_is_exit_2(arguments: list[str], curate: Curate) -> None:
    done = curate(*arguments, code=2)
    assert done.stdout == ""
    assert "Error: " in done.stderr


def test_version_and_help(curate: Curate) -> None:
    assert curate("--version").stdout == "curate 0.1.0\n"
    for command in ("run", "plan", "verify", "report", "why", "sample", "trace", "status", "gc"):
        assert f"  {command} " in curate("--help").stdout
        assert "Usage: curate " in curate(command, "--help").stdout


def test_the_options_are_those_that_others_script_against(curate: Curate) -> None:
    text = curate("run", "--help").stdout
    for option in ("--output", "--on", "--workers", "--job", "--wait", "--replace"):
        assert option in text
    for command in ("plan", "verify", "report", "why", "sample", "trace", "status", "gc"):
        assert "--json" in curate(command, "--help").stdout


def test_help_loads_nothing_heavy(folder: Path) -> None:
    code = "import sys; from curate.cli import call; call(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert HEAVY.isdisjoint(done.stderr.split())


def test_importing_curate_gives_load_and_run(folder: Path) -> None:
    code = "import curate; plan = curate.load('pipeline.yaml'); print(plan.name, callable(curate.run)); curate.lod"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "small True\n"
    assert "AttributeError: module 'curate' has no attribute 'lod'. Did you mean: 'load'?\n" in done.stderr


def test_plan_shows_and_writes_nothing(curate: Curate, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    text = curate("plan", "pipeline.yaml").stdout
    assert "source   web: 2 inputs" in text
    explained = json.loads(curate("plan", "pipeline.yaml", "--json", "--output", "elsewhere").stdout)
    assert explained["output"] == str(folder / "elsewhere")
    phases = {phase["phase"]: phase for phase in explained["phases"]}
    assert (phases["documents.web"]["units"], phases["documents.web"]["done"]) == (1, 0)
    assert sorted(folder.rglob("*")) == before


def test_from_a_file_to_a_verified_dataset_and_the_story_of_a_record(curate: Curate, folder: Path) -> None:
    (folder / "p.yaml").write_text(RUNNABLE)
    lines = [json.dumps({"id": f"n{number}", "text": f"the cell divides {number}"}) for number in range(40)]
    (folder / "notes.jsonl").write_text("\n".join([*lines, json.dumps({"id": "none", "text": " "})]) + "\n")
    curate("run", "p.yaml", "--workers", "1")
    output = folder / "curate-out" / "p"
    verified = json.loads(curate("verify", output, "--json").stdout)
    assert verified["ok"] and verified["problems"] == []
    assert curate("verify", output).stdout.endswith("ok\n")
    report = json.loads(curate("report", output, "--json").stdout)
    assert report["records"]["in"] == 41
    assert report["drops"]["drop_empty"] == {"no_text": 1}
    assert report["balanced"]
    assert "no_text" in curate("report", output).stdout
    (record,) = json.loads(curate("why", output, "none", "--json").stdout)["records"]
    assert (record["fate"], record["stage"], record["reason"]) == ("dropped", "drop_empty", "no_text")
    assert "reason: no_text\n" in curate("why", output, "none").stdout
    assert "41" not in curate("why", output, "nobody", code=2).stdout
    counted = json.loads(curate("steps", output, "--global-batch", 2, "--json").stdout)
    assert counted["steps_per_epoch"] == verified["splits"]["train"]["rows"] // 2
    assert curate("steps", output, "--global-batch", 2).stdout.startswith(f"{counted['steps']} steps: 1 x ")
    assert " files of " in curate("fetch", output, folder / "copy").stdout
    assert json.loads(curate("verify", folder / "copy", "--json").stdout) == verified
    phases = json.loads(curate("plan", "p.yaml", "--json").stdout)["phases"]
    assert phases[0]["units"] == phases[0]["done"] == 1
    (folder / "p.yaml").write_text(RUNNABLE.replace("length: 16", "length: 32"))
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    assert curate("run", "p.yaml", code=4).stderr.startswith("curate: ")
    assert "--replace" in curate("plan", "p.yaml").stdout
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before
    next(output.rglob("rows-00000.*")).write_bytes(b"damaged")
    assert curate("verify", output, code=5).stdout.endswith("not ok\n")


def test_a_bug_shows_its_traceback_and_is_exit_1(curate: Curate, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(SMALL.replace("tiny_stages.Repair", "tiny_stages.Buggy"))
    done = curate("run", "pipeline.yaml", code=1)
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("RuntimeError: a bug\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_by_a_signal(number: int, code: int, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(SMALL.replace("tiny_stages.Repair", "sleepy_stages.Repair"))
    with subprocess.Popen(
        command_line("run", "pipeline.yaml"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        assert process.wait() == code
        assert process.stderr.read() == "curate: stopped; the same command goes on from here\n"


def test_a_reader_that_leaves_is_no_bug(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "curate", "plan", "pipeline.yaml"],
        cwd=folder,
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
