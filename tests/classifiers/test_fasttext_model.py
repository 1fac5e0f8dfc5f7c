"""FastTextModel: one answer for each text, and no damaged model in this process."""

from pathlib import Path

import fasttext
import pytest

from classifiers.fasttext_model import FastTextModel, load_model
from curate.core.errors import PlanError
from curate.core.hashing import sha256
from curate.core.stage import Asset
from tests.strategies import language_model

LINE_ENDS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0"]


@pytest.fixture(scope="module")
def model() -> FastTextModel:
    return load_model(Asset(str(language_model())))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "examples.txt").write_text("__label__a alpha beta\n__label__b gamma delta\n" * 50, "utf-8")
    trained = fasttext.train_supervised(str(folder / "examples.txt"), dim=4, epoch=5, thread=1, verbose=0)
    trained.save_model(str(folder / "model.bin"))
    return folder / "model.bin"


def test_labels_have_no_prefix(model: FastTextModel) -> None:
    assert len(model.labels) == 176
    assert {"en", "de", "zh"} <= set(model.labels)
    assert model.best("The patients were treated with the drug.")[0] == "en"


@pytest.mark.parametrize("end", LINE_ENDS)
def test_line_ends_are_spaces(model: FastTextModel, end: str) -> None:
    """fastText#1079: a line end in the text raised an error and ended the batch."""
    one_line = model.best("The first line and the second line")
    assert model.best(f"The first line{end}and the second line") == one_line
    assert model.best(f"The first line and the second line{end}") == one_line  # fastText#435: a token of its own


@pytest.mark.parametrize("text", ["", " ", "\n", "\0", "\u2028\0\r\n"])
def test_no_words_no_label(model: FastTextModel, text: str) -> None:
    assert model.best(text) == (None, 0.0)


def test_one_answer_for_each_text(model: FastTextModel) -> None:
    """fastText#344: answers were lost, and those behind them went to other documents."""
    texts = ["", "   ", "\0", "x" * 100_000, "\u200b", "\u4e2d\u6587", "\U0001f600" * 1000, "hello there"] * 5
    assert len([model.best(text) for text in texts]) == len(texts)
    assert model.best(texts[-1]) == model.best("hello there")


def test_scores_are_probabilities(trained: Path) -> None:
    model = load_model(Asset(str(trained)))
    for text in ("alpha beta", "gamma", "never seen"):
        label, score = model.best(text)
        assert label in ("a", "b")
        assert 0 <= score <= 1


def test_a_model_is_loaded_once(trained: Path) -> None:
    assert load_model(Asset(str(trained))) is load_model(Asset(str(trained)))


def test_another_file_than_planned_is_refused(trained: Path) -> None:
    """fastText#1087: a changed model may load and answer wrongly; its digest tells."""
    planned = sha256(trained.read_bytes())
    assert load_model(Asset(str(trained), planned)).labels == ("a", "b")
    damaged = bytearray(trained.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    changed = trained.with_name("changed.bin")
    changed.write_bytes(damaged)
    with pytest.raises(PlanError, match=r"changed\.bin: the fastText model changed: expected SHA-256 \w+, found"):
        load_model(Asset(str(changed), planned))


@pytest.mark.parametrize("content", [b"", b"hello", b"hello world, I am a text"])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(PlanError, match="not a fastText model: found"):
        load_model(Asset(str(path)))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot read the fastText model: No such file"):
        load_model(Asset(str(tmp_path / "model.bin")))


def test_a_damaged_model_is_met_by_a_child_process(tmp_path: Path, trained: Path) -> None:
    """Cut short, or with a changed header that asks for other sizes: the library crashes or gives up, there."""
    whole = trained.read_bytes()
    for name, content in {
        "half": whole[: len(whole) // 2],
        "sizes": whole[:8] + b"\xff" * 48 + whole[56:],
        "words": whole[:64] + b"\x7f" * 40 + whole[104:],
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(PlanError, match=f"{name}: not a usable fastText model"):
            load_model(Asset(str(path)))


def test_an_unsupervised_model_is_refused(tmp_path: Path) -> None:
    examples = tmp_path / "examples.txt"
    examples.write_text("alpha beta gamma delta\n" * 50, "utf-8")
    fasttext.train_unsupervised(str(examples), dim=4, epoch=1, thread=1, verbose=0).save_model(str(tmp_path / "m.bin"))
    with pytest.raises(PlanError, match="damaged or not supervised"):
        load_model(Asset(str(tmp_path / "m.bin")))
