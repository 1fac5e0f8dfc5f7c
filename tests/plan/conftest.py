"""A small pipeline that can be planned, in a folder of its own."""

import io
import shutil
import sys
from pathlib import Path

import pytest
import sentencepiece

PACKAGES = Path(__file__).parent / "packages"

SMALL = """\
curate: 1
name: small
seed: 7
documents:
  web:
    read: {use: tiny_stages.ReadLines, paths: "data/*.txt"}
    steps:
      - {use: tiny_stages.Extract, tables: small}
      - {use: tiny_stages.Language, model: models/language.bin}
      - {use: tiny_stages.Keep, min_words: 5}
  notes:
    read:
      use: tiny_stages.ReadLines
      paths: [notes/a.txt, notes/b.txt]
    steps: [{use: tiny_stages.Extract, name: extract_notes, tables: drop}]
  corpus:
    from: [web, notes]
    steps:
      - tiny_stages.Repair
dataset:
  from: corpus
  tokenizer: {model: models/tiny.model, bos: document, eos: document}
  rows: {length: 16, packing: concat, per_shard: 64}
limits: {max_quarantined: 0.001}
run: {unit_seconds: 60, memory_per_worker: 2 GiB}
"""


@pytest.fixture(scope="session")
def tokenizer_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model of 300 pieces, trained here."""
    model = io.BytesIO()
    sentences = ["the cell divides and the other cell does not"] * 8
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("tokenizer") / "tiny.model"
    path.write_bytes(model.getvalue())
    return path


@pytest.fixture
def folder(tmp_path: Path, tokenizer_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of SMALL and all that it reads; it is the current one, and tiny_stages can be imported."""
    for name in ("data/one.txt", "data/two.txt", "data/.hidden.txt", "notes/a.txt", "notes/b.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "language.bin").write_bytes(b"language")
    shutil.copy(tokenizer_model, tmp_path / "models" / "tiny.model")
    (tmp_path / "pipeline.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(PACKAGES), *sys.path])
    return tmp_path
