"""The command line: arguments in, calls out, errors as one line and an exit code. No logic lives here.

What the commands call is imported inside them: `curate --help` and a wrong file should answer at once.
"""

import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from curate import __version__
from curate.core.errors import BalanceError, CurateError, PlanError
from curate.installed import check_installation

FILE = click.argument("file")
PATH = click.argument("path")
OUTPUT = click.option("--output", metavar="PATH", help="Folder or s3:// URL; stands in for the file's own.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")


def main() -> NoReturn:
    """The console script."""
    code = call(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Arrow's threads may outlive Python's end, and have aborted a process that had done its work


def call(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        check_installation()
        with commands.make_context("curate", list(arguments)) as context:
            commands.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PlanError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except CurateError as error:
        print(f"curate: {_one_line(error)}", file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, _Terminated) as stop:
        print("curate: stopped; the same command goes on from here", file=sys.stderr)
        return 143 if isinstance(stop, _Terminated) else 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; Python flushes once more
        return 128 + signal.SIGPIPE
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _one_line(error: CurateError) -> str:
    """The message; a traceback that it holds stays in lines, other line ends do not."""
    text = str(error)
    return text if "Traceback (most recent call last)" in text else " ".join(text.split("\n"))


class _Terminated(SystemExit):
    """SIGTERM; in a worker process, which nobody catches it in, a quiet exit."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated(128 + number)


@click.group()
@click.version_option(__version__, prog_name="curate", message="%(prog)s %(version)s")
def commands() -> None:
    """Turn web crawls and PubMed into verified token rows for pre-training."""


@commands.command()
@FILE
@OUTPUT
@click.option(
    "--on",
    metavar="local|ray|auto|ADDRESS",
    default="ray",
    show_default=True,
    help="Where units run: processes of this machine, a Ray started here, or the Ray cluster at an address.",
)
@click.option("--workers", metavar="N", type=click.IntRange(min=1), help="Worker processes; by default one a CPU.")
@click.option("--job", metavar="I/N", help="Do the I-th of N shares; exit 3 while others hold units.")
@click.option("--wait", is_flag=True, help="With --job: wait for the other jobs.")
@click.option("--replace", is_flag=True, help="Take over an output that belongs to another plan.")
def run(
    file: str, output: str | None, on: str, workers: int | None, job: str | None, wait: bool, replace: bool
) -> None:
    """Make the dataset that FILE describes, or go on with it."""
    from curate.plan.build import build  # loads pyarrow

    plan = build(file, output)
    from curate.api import run as run_plan  # loads the engine, which a wrong file does not need

    run_plan(plan, on=on, workers=workers, job=job, wait=wait, replace=replace)


@commands.command()
@FILE
@OUTPUT
@AS_JSON
def plan(file: str, output: str | None, as_json: bool) -> None:
    """Show what `run` would do; writes nothing."""
    from curate.plan.build import build  # loads pyarrow

    built = build(file, output)
    from curate.engine.survey import survey  # loads the engine, which a wrong file does not need
    from curate.plan.explain import as_text, explain

    explained = explain(built, survey(built))
    click.echo(json.dumps(explained) if as_json else as_text(explained))


@commands.command()
@PATH
@AS_JSON
def verify(path: str, as_json: bool) -> None:
    """Recompute the digests and check the sums of the dataset at PATH."""
    from manifests.verify import verify as verify_dataset  # loads numpy

    found = verify_dataset(path)
    if as_json:
        click.echo(json.dumps(found))
    else:
        for problem in found["problems"]:
            click.echo(problem)
        for name, split in found["splits"].items():
            click.echo(f"{name}: {split['rows']} rows, {split['tokens']} tokens, digest {split['digest']}")
        click.echo("ok" if found["ok"] else "not ok")
    if not found["ok"]:
        raise BalanceError(f"{path}: problems found: {len(found['problems'])}")


@commands.command()
@PATH
@click.option("--global-batch", metavar="N", type=click.IntRange(min=1), required=True, help="Rows of one step.")
@click.option("--epochs", metavar="E", type=click.IntRange(min=1), default=1, show_default=True)
@AS_JSON
def steps(path: str, global_batch: int, epochs: int, as_json: bool) -> None:
    """Count the steps that the train rows of the dataset at PATH last."""
    from manifests.steps import steps as count_steps  # loads numpy

    found = count_steps(path, global_batch, epochs)
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(
            f"{found['steps']} steps: {epochs} x {found['steps_per_epoch']}, {found['tokens_per_step']} tokens each"
        )
        click.echo(f"{found['rows']} rows of {found['row_length']}; {found['rows_left_out']} fill no step of an epoch")


@commands.command()
@click.argument("format_", metavar="megatron|mds|nanotron|olmo")
@PATH
@click.argument("folder")
@click.option("--split", metavar="NAME", default="train", show_default=True)
@AS_JSON
def export(format_: str, path: str, folder: str, split: str, as_json: bool) -> None:
    """Write rows of the dataset at PATH to FOLDER as another trainer's files."""
    from manifests.export import export as write_files  # loads numpy

    names = write_files(path, format_, split, folder)
    click.echo(json.dumps({"files": names}) if as_json else "\n".join(names))


@commands.command()
@PATH
@click.argument("folder")
@AS_JSON
def fetch(path: str, folder: str, as_json: bool) -> None:
    """Copy the dataset at PATH to FOLDER, checking every digest; run again to go on."""
    from manifests.fetch import fetch as copy  # loads numpy

    found = copy(path, folder)
    text = f"{folder}: {found['files']} files of {found['dataset_id'][:12]} checked, {found['copied']} of them copied"
    click.echo(json.dumps(found) if as_json else text)


@commands.command()
@PATH
@AS_JSON
def report(path: str, as_json: bool) -> None:
    """Count what came in and what became of it, for the run at PATH."""
    from curate.report.report import render  # loads rich
    from curate.report.report import report as report_on

    found = report_on(path)
    click.echo(json.dumps(found) if as_json else render(found), nl=as_json)


@commands.command()
@PATH
@click.argument("record", metavar="ID|NAME|URL|PMID")
@AS_JSON
def why(path: str, record: str, as_json: bool) -> None:
    """Say what became of one record of the run at PATH, and which rule decided."""
    from curate.report.terminal import plain
    from curate.report.why import as_lines  # loads pyarrow
    from curate.report.why import why as look_up

    found = look_up(path, record)
    texts = ("\n".join(as_lines(one)) for one in found["records"])
    click.echo(json.dumps(found) if as_json else plain("\n\n".join(texts)))


@commands.command()
@PATH
@click.option("--rejected-by", metavar="RULE", required=True, help="A stage, a reason, or STAGE/REASON.")
@click.option("-n", "num_samples", metavar="N", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--seed", metavar="N", type=int, help="Draws others; by default the dataset's own.")
@AS_JSON
def sample(path: str, rejected_by: str, num_samples: int, seed: int | None, as_json: bool) -> None:
    """Show records that a rule did not keep, their text read again from the inputs."""
    from curate.report.sample import as_text  # loads pyarrow
    from curate.report.sample import sample as draw
    from curate.report.terminal import plain

    found = draw(path, rejected_by, num_samples, seed)
    click.echo(json.dumps(found) if as_json else plain(as_text(found)))


@commands.command()
@PATH
@click.option("-n", "num_clusters", metavar="N", type=click.IntRange(min=1), default=5, show_default=True)
@AS_JSON
def dups(path: str, num_clusters: int, as_json: bool) -> None:
    """Show the largest clusters of duplicates, what was kept beside what was removed."""
    from curate.report.dups import as_text  # loads pyarrow
    from curate.report.dups import dups as look_at
    from curate.report.terminal import plain

    found = look_at(path, num_clusters)
    click.echo(json.dumps(found) if as_json else plain(as_text(found)))


@commands.command()
@PATH
@click.argument("split")
@click.argument("row", type=int)
@click.argument("position", type=int, required=False)
@AS_JSON
def trace(path: str, split: str, row: int, position: int | None, as_json: bool) -> None:
    """Lead from a token, or a whole row, to the documents and inputs it came from."""
    from curate.report.terminal import plain
    from curate.report.trace import as_text, trace_row, trace_token  # loads pyarrow

    found = trace_row(path, split, row) if position is None else trace_token(path, split, row, position)
    click.echo(json.dumps(found) if as_json else plain(as_text(found)))


@commands.command()
@PATH
@AS_JSON
def status(path: str, as_json: bool) -> None:
    """Say how far the run at PATH is; reads storage alone."""
    from curate.report.status import as_text  # loads the engine
    from curate.report.status import status as look_at
    from curate.report.terminal import plain

    found = look_at(path)
    click.echo(json.dumps(found) if as_json else plain(as_text(found)))


@commands.command()
@PATH
@click.option("--delete", is_flag=True, help="Do it; without, only say what would go.")
@AS_JSON
def gc(path: str, delete: bool, as_json: bool) -> None:
    """Find what the output at PATH does not need any more: replaced datasets, abandoned work."""
    from curate.report.gc import as_text  # loads the engine
    from curate.report.gc import gc as collect
    from curate.report.terminal import plain

    found = collect(path, delete=delete)
    click.echo(json.dumps(found) if as_json else plain(as_text(found)))


@commands.command()
@click.argument("name", required=False)
@AS_JSON
def stages(name: str | None, as_json: bool) -> None:
    """List the stages, or show one; NAME may be your own's path."""
    from dataclasses import asdict

    from curate.plan.catalog import find, shipped  # loads pyarrow, and each stage
    from curate.report.stages import list_text, stage_text

    if name is None:
        found = shipped()
        click.echo(json.dumps([asdict(one) for one in found]) if as_json else list_text(found))
    else:
        one = find(name)
        click.echo(json.dumps(asdict(one)) if as_json else stage_text(one))


@commands.command()
@click.argument("folder", metavar="DIR")
@click.option("--recipe", metavar="NAME", help="Which pipeline to begin with; without it, the list of them.")
def init(folder: str, recipe: str | None) -> None:
    """Write a commented pipeline.yaml into DIR."""
    from curate.recipes import write_recipe

    path = write_recipe(folder, recipe)
    click.echo(f"wrote {path}: change the lines marked <-, then\n  curate plan {shlex.quote(str(path))}")
