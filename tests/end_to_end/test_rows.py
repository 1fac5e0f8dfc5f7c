"""Each row is made of kept documents and of nothing else, token by token."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sentencepiece

from curate.core.exchange import Exchange
from curate.core.stage import Map
from curate.core.storage import open_storage
from curate.core.summary import NeedsSummary
from curate.engine.context import Context
from curate.engine.task import with_source
from curate.engine.units import cut
from curate.plan.build import build
from manifests.rows import open_rows


def texts_by_id(file: Path, output: Path) -> dict[bytes, list[str]]:
    """The texts that the steps before tokenization give, made here from the inputs once more."""
    plan = build(str(file), str(output))
    context = Context(plan)
    texts: dict[bytes, list[str]] = {}
    for source in plan.sources:
        read = source.reader.open()
        for slices in cut(source.inputs, source.reader, 1 << 40):
            for piece in slices:
                with context.open_input(source, piece.input) as opened:
                    for records in read(piece, opened):
                        batch = with_source(records.batch, source.name)
                        for step in source.steps[:-1]:
                            if isinstance(step.stage, Exchange | NeedsSummary):
                                continue  # changes no text
                            answer = context.opened(step.name, step.stage)(batch)
                            batch = answer if isinstance(step.stage, Map) else batch.filter(answer.is_null())
                        for one, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                            texts.setdefault(one, []).append(text)
    return texts


@pytest.mark.parametrize("packing", ["concat", "best_fit_fill"])
def test_each_piece_is_a_part_of_its_document(
    packing: str, corpus: Any, curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    replace = ("packing: concat", f"packing: {packing}")
    file, output = corpus.pipeline(replace=replace), tmp_path / "out"
    curate("run", file, "--output", output)
    curate("verify", output)
    texts = texts_by_id(file, output)
    manifest, storage = read_manifest(output), open_storage(str(output))
    tokenizer = manifest["tokenizer"]
    model = Path(__file__).parents[2] / "examples/quickstart/tokenizer/tokenizer.model"
    pieces_model = sentencepiece.SentencePieceProcessor(model_file=str(model))
    wanted = {
        one: [[tokenizer["bos_id"], *pieces_model.encode(text), tokenizer["eos_id"]] for text in candidates]
        for one, candidates in texts.items()
    }
    rows = open_rows(str(output))
    number = 0
    for shard in manifest["splits"]["train"]["shards"]:
        key = f"{manifest['dataset_id'][:12]}/{shard['docs']['key']}"
        docs: pa.Table = pq.read_table(io.BytesIO(storage.read(key)))
        for piece in docs.to_pylist():
            row = rows.row("train", number + piece["row"])
            assert row.max() < tokenizer["vocab_size"]
            tokens = row[piece["start"] : piece["start"] + piece["length"]].tolist()
            first = piece["token_offset"]
            assert any(one[first : first + len(tokens)] == tokens for one in wanted[piece["id"]])
            plain = [token for token in tokens if token not in (tokenizer["bos_id"], tokenizer["eos_id"])]
            if first == 0 and piece["length"] == piece["document_tokens"]:
                assert pieces_model.decode(plain) in texts[piece["id"]]
        filled = np.bincount(docs["row"].to_numpy(), docs["length"].to_numpy(), minlength=shard["num_rows"])
        assert (filled == manifest["format"]["row_length"]).all()
        number += shard["num_rows"]
    assert number == manifest["splits"]["train"]["rows"]
    assert manifest["format"]["packing"] == packing
    curate("run", corpus.pipeline(replace=replace, unit_bytes="16 KiB"), "--output", tmp_path / "cut", "--workers", 2)
    assert read_manifest(tmp_path / "cut") == manifest
