"""From pipeline.yaml to a checked `Plan`: a chain of stages a source, columns, inputs, keys.

    load -> grammar (keys, types) -> graph (nodes, chains) -> stages -> columns -> inputs -> keys

Whatever can be known to be wrong before a document is read is found here and raised as a
PlanError that begins with its line. Nothing is written.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from curate import __version__
from curate.core.errors import PlanError
from curate.core.exchange import Exchange
from curate.core.hashing import digest
from curate.core.stage import Asset, Reader
from curate.core.storage import open_storage
from curate.core.summary import NeedsSummary
from curate.plan.assets import AssetFinder
from curate.plan.columns import trace_columns
from curate.plan.grammar import GRAMMAR, PipelineKeys, RowsKeys, place_of, refuse_unbuilt
from curate.plan.graph import Chain, Use, check_name, read_names, read_nodes, source_chains
from curate.plan.inputs import find_inputs
from curate.plan.load import Items, Place, Scalar, Table, Value, describe, load
from curate.plan.mix import mix_groups
from curate.plan.plan import Plan, Rows, Source, Step, step_name
from curate.plan.resolve import find_class, identity, limits, make_reader, make_step
from curate.plan.values import PIPELINE, Converter
from manifests.exports import hf

DROP_EMPTY = "stages.text.DropEmpty"
TOKENIZE = "stages.tokenize.Tokenize"
PACKINGS = {"concat": "stages.pack.Concat", "best_fit_fill": "stages.pack.BestFitFill"}
OWN_NAMES = ("drop_empty", "tokenize", "pack", "mix")  # of the steps and drops that every run has
MAX_SHARD_BYTES = 5 << 30  # what S3 takes in one PutObject


@dataclass(frozen=True)
class Placed:
    """A step, where the file says it, and what decides about its output."""

    step: Step
    place: Place
    identity: dict[str, Any]


def build(file: str | os.PathLike[str], output: str | None = None) -> Plan:
    """The plan of a pipeline file; `output` stands in for the file's own. Raises PlanError."""
    file = os.fspath(file)
    return plan_of(load(file), file, Path(os.path.abspath(file)).parent, output)


def plan_of(table: Table, file: str, base: Path, output: str | None) -> Plan:
    """The plan of a pipeline's values; relative paths begin at the folder `base`. Raises PlanError."""
    _check_grammar(table)
    finder = AssetFinder(base)
    converter = Converter(finder.find, finder.expand)
    keys = converter.build(PipelineKeys, table, of=PIPELINE, skip=("curate", "documents"), noun="key")
    refuse_unbuilt(keys, table)
    name = _name(keys, table, file)
    place = _output(keys, table, base, name, output)
    chains = source_chains(
        read_nodes(_value(table, "documents")), read_names(_value(table, "dataset", "from"), "dataset")
    )
    readers = [make_reader(chain.read, converter) for chain in chains]
    steps = _steps(chains, table, converter)
    rows, rows_description = _rows(keys.dataset.rows, steps[0][-1], table, keys.seed)
    sources: list[Source] = []
    described: list[dict[str, Any]] = []
    for chain, reader, placed in zip(chains, readers, steps, strict=True):
        source, description = _source(chain, reader, placed, base, place)
        sources.append(source)
        described.append(description)
    groups = mix_groups(keys.dataset.mix, [chain.source for chain in chains], table)
    splits = tuple((keys.dataset.splits or {}).items())
    exports = tuple(keys.dataset.exports or ())
    _check_sizes(rows, exports, place_of(table, "dataset", "rows", "per_shard"))
    whole = {"seed": keys.seed, "sources": described, "rows": rows_description, "exports": list(exports)}
    whole |= {"splits": [list(split) for split in splits], "mix": [asdict(group) for group in groups]}
    return Plan(
        name=name,
        file=file,
        seed=keys.seed,
        output=place,
        sources=tuple(sources),
        rows=rows,
        max_quarantined=keys.limits.max_quarantined,
        run=keys.run.settings(),
        description=whole,
        plan_id=digest(whole),
        splits=splits,
        groups=groups,
        exports=exports,
    )


def _check_grammar(table: Table) -> None:
    version = table.values.get("curate")
    if version is None:
        raise table.place.error(f"'curate: {GRAMMAR}' is missing, the version of the grammar")
    if not isinstance(version, Scalar) or version.text != GRAMMAR:
        found = describe(version)
        raise version.place.error(f"grammar version {found} is unknown; curate {__version__} reads 'curate: {GRAMMAR}'")


def _value(table: Table, *path: str) -> Value:
    """The value at `path`. Raises PlanError where a key is missing."""
    value: Value = table
    for key in path:
        if not isinstance(value, Table) or key not in value.values:
            raise value.place.error(f"{PIPELINE} needs the key {'.'.join(path)!r}")
        value = value.values[key]
    return value


def _name(keys: PipelineKeys, table: Table, file: str) -> str:
    if keys.name is None:
        return Path(file).stem
    check_name(keys.name, place_of(table, "name"), "a pipeline")
    return keys.name


def _output(keys: PipelineKeys, table: Table, base: Path, name: str, override: str | None) -> str:
    """The output as an absolute folder or a URL. The file's is relative to the file, the command's to where we are."""
    place = None
    if override is not None:
        output = override
    elif keys.output is not None:
        place, output = place_of(table, "output"), keys.output
    else:
        output = os.path.join("curate-out", name)
    try:
        if not output:
            raise PlanError("the output is empty; want a folder or s3://bucket/prefix")
        if "://" not in output:
            output = os.path.abspath(os.path.join(base, output) if place else output)
            if os.path.lexists(output) and not os.path.isdir(output):
                raise PlanError(f"the output {output!r} is a file; want a folder or s3://bucket/prefix")
        return open_storage(output).url.rstrip("/")
    except PlanError as error:
        raise (place.error(str(error)) if place else PlanError(f"--output: {error}")) from None


def _steps(chains: Sequence[Chain], table: Table, converter: Converter) -> list[list[Placed]]:
    """The steps of each chain with the two that end it. A step on several chains is made once."""
    ending = [_implicit(DROP_EMPTY, table, "from"), _implicit(TOKENIZE, table, "tokenizer")]
    made: dict[int, Placed] = {}
    for use in [*(use for chain in chains for use in chain.steps), *ending]:
        if id(use) not in made:
            made[id(use)] = _step(use, converter)
    taken = {*OWN_NAMES, *(step_name(chain.read.path.text) for chain in chains)}
    steps = [[made[id(use)] for use in chain.steps] for chain in chains]
    _check_names(steps, taken)
    return [[*placed, *(made[id(use)] for use in ending)] for placed in steps]


def _implicit(path: str, table: Table, key: str) -> Use:
    """A step that the file implies, placed at the key of `dataset` that has its options."""
    place, value = place_of(table, "dataset", key), _value(table, "dataset", key)
    return Use(Scalar(place, path, plain=True), None, value if isinstance(value, Table) else Table(place, {}, {}))


def _step(use: Use, converter: Converter) -> Placed:
    stage = make_step(use, converter)
    name = use.name.text if use.name else step_name(use.path.text)
    what = identity(use.path.text, stage)
    step = Step(name=name, use=use.path.text, stage=stage, key=digest(what))
    return Placed(step, (use.name or use.path).place, what)


def _check_names(chains: Iterable[Sequence[Placed]], taken: set[str]) -> None:
    """Raise PlanError where a name could mean two steps. Equal steps of different chains may share one."""
    known: dict[str, Placed] = {}
    for chain in chains:
        here: dict[str, Placed] = {}
        for placed in chain:
            name = placed.step.name
            if name in taken:
                raise placed.place.error(
                    f"the step name {name!r} is taken by a reader or by curate; set another with 'name:'"
                )
            other = here.get(name, known.get(name, placed))
            is_other = (
                name in here
                or other.step.key != placed.step.key
                or isinstance(placed.step.stage, Exchange | NeedsSummary)
            )
            if other is not placed and is_other:
                raise placed.place.error(
                    f"two steps are named {name!r} (the other on {other.place.within}); set another with 'name:'"
                )
            here[name] = placed
            known.setdefault(name, placed)


def _rows(keys: RowsKeys, tokenize: Placed, table: Table, seed: int) -> tuple[Rows, dict[str, Any]]:
    """How rows are made, and its description, after the tokenizer has been loaded."""
    stage: Any = tokenize.step.stage
    model: Asset = stage.model
    place = _value(table, "dataset", "tokenizer", "model").place
    try:
        ids: dict[str, Any] = {"vocab_size": stage.vocab_size, "bos_id": stage.bos_id, "eos_id": stage.eos_id}
        ids["probe_sha256"] = stage.probe_sha256
    except PlanError as error:
        raise place.error(f"model of dataset.tokenizer: {error}") from None
    use = PACKINGS[keys.packing]
    packing = identity(use, find_class(Scalar(place_of(table, "dataset", "rows", "packing"), use, plain=True))())
    marks: dict[str, Any] = {"bos": stage.bos, "eos": stage.eos}
    shape: dict[str, Any] = {"length": keys.length, "per_shard": keys.per_shard}
    description = {"tokenizer": model.sha256, "packing": packing} | ids | marks | shape
    rows = Rows(
        tokenizer=model,
        tokenizer_name=Path(model.location).name,
        packing=use,
        key=digest(description | {"seed": seed}),
        **ids,
        **marks,
        **shape,
    )
    return rows, description


def _check_sizes(rows: Rows, exports: Sequence[str], place: Place) -> None:
    """Raise PlanError where a file of a shard could not be stored in one go."""
    token_bytes = {"a shard": int(rows.dtype[-1])}
    if hf.KIND in exports:
        token_bytes["a shard of the export 'hf'"] = hf.token_bytes(rows.dtype)
    for what, width in token_bytes.items():
        shard_bytes = rows.length * rows.per_shard * width
        if shard_bytes > MAX_SHARD_BYTES:
            raise place.error(f"{what} would have {shard_bytes} bytes, above {MAX_SHARD_BYTES}; lower per_shard")


def _source(
    chain: Chain, reader: Reader, placed: Sequence[Placed], base: Path, output: str
) -> tuple[Source, dict[str, Any]]:
    """A source with its columns and inputs, and its description."""
    use = chain.read.path.text
    columns = trace_columns(chain.source, chain.read.path, reader, [(one.step, one.place) for one in placed])
    written = chain.read.options.values["paths"]
    paths = [
        path for path in (written.values if isinstance(written, Items) else (written,)) if isinstance(path, Scalar)
    ]
    if not paths:
        raise written.place.error(f"paths of {use} names no file")
    root, inputs = find_inputs(paths, base, output)
    reads = identity(use, reader, without=("paths",))
    source = Source(
        name=chain.source,
        root=root,
        use=use,
        reader=reader,
        inputs=inputs,
        steps=tuple(one.step for one in placed),
        columns=columns,
        reader_key=digest([chain.source, reads]),
    )
    steps = [{"name": one.step.name} | one.identity | limits(one.step.stage) for one in placed]
    listed = [[item.key, item.size, item.tag] for item in inputs]
    return source, {"name": chain.source, **reads, "steps": steps, "inputs": listed}
