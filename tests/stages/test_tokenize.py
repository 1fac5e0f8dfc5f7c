"""Tokenize: exactly the library's ids, control ids from nowhere but us, and clear refusals."""

import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from curate.core.errors import DataError, PlanError
from curate.core.stage import Asset
from stages.bpe_engine import MARK, Engine, find_obstacle
from stages.kernels.bpe import ARENA_WORDS, MAX_SHORT
from stages.model_proto import describe
from stages.tokenize import PROBE, Model, Tokenize, checked_cast, load_model, refuse_control_ids
from tests.stages.reference_bpe import encode as reference_encode

SENTENCES = [
    "the patients were treated with the drug and recovered",
    "a <s>strike</s> through and an <unk> word \u00a7 sign",
    "white  space   matters in tables 10 20 30",
    "na\u00efve caf\u00e9 \u03b2-catenin \u4e2d\u6587",
] * 20


def train(folder: Path, **options: Any) -> Asset:
    """A small real model, of the structure of Llama-2's unless `options` say otherwise."""
    llama: dict[str, Any] = {
        "model_type": "bpe", "vocab_size": 400, "byte_fallback": True, "character_coverage": 0.99,
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "num_threads": 1,
        "hard_vocab_limit": False, "minloglevel": 2,
    }  # fmt: skip
    model = io.BytesIO()
    trainer = sentencepiece.SentencePieceTrainer
    trainer.train(sentence_iterator=iter(SENTENCES), model_writer=model, **(llama | options))
    path = folder / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return Asset(str(path))


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Asset:
    return train(tmp_path_factory.mktemp("bpe"))


def library(asset: Asset) -> Any:
    return sentencepiece.SentencePieceProcessor(model_file=asset.location)


def tokenize(stage: Tokenize, texts: list[str | None]) -> list[list[int] | None]:
    batch = pa.record_batch({"name": pa.array([str(i) for i in range(len(texts))]), "text": pa.array(texts)})
    result = stage.open()(batch)
    assert result.schema.names == ["name", "tokens"]
    assert result.schema.field("tokens").type == stage.adds["tokens"]
    result.validate(full=True)
    ids: list[list[int] | None] = result.column("tokens").to_pylist()
    return ids


def ids_of(model: Model, text: str) -> list[int]:
    """The ids that the stage gives."""
    ids, starts = model.encode(pa.array([text], pa.large_string()))
    assert starts.tolist() == [0, len(ids)]
    found: list[int] = ids.tolist()
    return found


@pytest.mark.parametrize(
    ("file", "key"), [("mistral_v1.tokenizer.model", "mistral_v1"), ("llama2/tokenizer.model", "llama2")]
)
def test_gives_the_recorded_ids_of_both_real_models(shared_data: Path, file: str, key: str) -> None:
    folder = shared_data / "tokenizers"
    stage = Tokenize(model=Asset(str(folder / file)))
    assert (stage.vocab_size, stage.bos_id, stage.eos_id) == (32_000, 1, 2)
    assert stage.adds["tokens"] == pa.large_list(pa.uint16())
    lines = (folder / "test_vectors.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 175
    ids = tokenize(stage, [vector["text"] for vector in vectors])
    assert ids == [[1, *vector[key], 2] for vector in vectors]
    joined = "\n\n".join(vector["text"] for vector in vectors)  # goes through in parts
    model = load_model(stage.model)
    assert model.engine is not None
    assert ids_of(model, joined) == model.processor.encode(joined)
    # google/sentencepiece#684: nothing is folded, but for the model's own sign for a space.
    assert model.processor.decode(ids_of(model, joined)) == joined.replace(MARK, " ")


def test_probe_digest_of_the_quickstart_model_is_pinned() -> None:
    asset = Asset(str(Path(__file__).parents[2] / "examples" / "quickstart" / "tokenizer" / "tokenizer.model"))
    expected = "aeda8cc4c5bd3913a412bb40cd94d51bffa8e1c8d466ad9bf0f9a673dc3fbcd5"
    assert Tokenize(model=asset).probe_sha256 == expected


def test_probe_digest_differs_between_models(bpe: Asset, tmp_path: Path) -> None:
    other = train(tmp_path, vocab_size=390)
    assert Tokenize(model=bpe).probe_sha256 == Tokenize(model=bpe).probe_sha256
    assert Tokenize(model=bpe).probe_sha256 != Tokenize(model=other).probe_sha256


def test_bos_and_eos_follow_their_policies(bpe: Asset) -> None:
    ids = library(bpe).encode("the drug")
    assert tokenize(Tokenize(model=bpe), ["the drug", ""]) == [[1, *ids, 2], [1, 2]]
    assert tokenize(Tokenize(model=bpe, bos="none"), ["the drug"]) == [[*ids, 2]]
    assert tokenize(Tokenize(model=bpe, eos="none"), ["the drug"]) == [[1, *ids]]
    assert tokenize(Tokenize(model=bpe, bos="none", eos="none"), ["the drug", ""]) == [ids, []]


def test_null_text_gives_null_tokens_and_rows_stay_in_order(bpe: Asset) -> None:
    a, b = library(bpe).encode("a"), library(bpe).encode("b")
    assert tokenize(Tokenize(model=bpe), [None, "a", None, "b"]) == [None, [1, *a, 2], None, [1, *b, 2]]
    assert tokenize(Tokenize(model=bpe), []) == []


@pytest.mark.parametrize(
    "text", ["<s>", "</s>", "<unk>", "HTML has <s>strike</s> and </s> tags", "a</s>", "<s> <s>", "<0x0A>"]
)
def test_text_that_spells_a_control_token_stays_text(bpe: Asset, text: str) -> None:
    (ids,) = tokenize(Tokenize(model=bpe, bos="none", eos="none"), [text])
    assert ids is not None
    assert not {0, 1, 2} & set(ids)
    assert library(bpe).decode(ids) == text


@pytest.mark.parametrize(
    "text", ["abc\x00def", "\x00", "para one\npara two", "\r\n\r\n", "\u2028", "\U0001f680"], ids=ascii
)
def test_nul_line_ends_and_rare_characters_survive(bpe: Asset, text: str) -> None:
    (ids,) = tokenize(Tokenize(model=bpe, bos="none", eos="none"), [text])
    assert ids is not None
    assert 0 not in ids
    assert library(bpe).decode(ids) == text


def test_characters_cut_by_the_end_of_a_row_are_whole_again_when_rows_are_joined(bpe: Asset) -> None:
    # google/sentencepiece#906: a rocket is four byte pieces; decoding rows one by one would lose it.
    text = "drug \U0001f680\U0001f680\U0001f680 drug"
    (ids,) = tokenize(Tokenize(model=bpe, bos="none", eos="none"), [text])
    assert ids is not None
    for row_length in (2, 3, 5):
        rows = [ids[i : i + row_length] for i in range(0, len(ids), row_length)]
        assert any("\ufffd" in library(bpe).decode(row) for row in rows)
        assert library(bpe).decode([token for row in rows for token in row]) == text


@pytest.mark.parametrize(
    "options", [{}, {"model_type": "unigram"}, {"model_type": "char"}, {"byte_fallback": False}], ids=str
)
def test_a_control_piece_of_one_character_does_not_come_from_text(tmp_path: Path, options: dict[str, Any]) -> None:
    asset = train(tmp_path, control_symbols=["d"], **options)
    control_id = library(asset).piece_to_id("d")
    assert load_model(asset).is_control[control_id]
    assert control_id not in ids_of(load_model(asset), "d and the drug d")


def test_a_library_that_gave_control_ids_for_text_would_be_noticed() -> None:
    is_control = np.array([False, True, True, False])
    refuse_control_ids(np.array([0, 3, 3], dtype=np.int32), is_control)
    refuse_control_ids(np.array([], dtype=np.int32), is_control)
    with pytest.raises(DataError, match="control_token: text became control id 2"):
        refuse_control_ids(np.array([0, 2], dtype=np.int32), is_control)


def test_user_defined_pieces_come_from_text_and_control_pieces_do_not(tmp_path: Path) -> None:
    asset = train(tmp_path, control_symbols=["<mask>"], user_defined_symbols=["<gene>"])
    model = load_model(asset)
    ids = ids_of(model, "a <gene> and a <mask>")
    assert library(asset).piece_to_id("<gene>") in ids
    assert library(asset).piece_to_id("<mask>") not in ids


def test_a_model_without_bos_is_refused_only_where_bos_is_wanted(tmp_path: Path) -> None:
    asset = train(tmp_path, bos_id=-1)
    with pytest.raises(PlanError, match=r"tokenizer\.model: this tokenizer has no BOS id; set bos: none"):
        Tokenize(model=asset).open()
    stage = Tokenize(model=asset, bos="none")
    assert stage.bos_id == -1
    assert tokenize(stage, ["a"]) == [[*library(asset).encode("a"), stage.eos_id]]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (None, "cannot read the tokenizer model: No such file"),
        (b"", "not a usable SentencePiece model: the file is empty"),
        (b"this is no model", "not a usable SentencePiece model: "),
        (b'{"model": {"type": "BPE"}}', "not a usable SentencePiece model: "),
    ],
)
def test_a_model_that_does_not_load_is_a_plan_error_with_its_path(
    tmp_path: Path, content: bytes | None, wrong: str
) -> None:
    path = tmp_path / "broken.model"
    if content is not None:
        path.write_bytes(content)
    stage = Tokenize(model=Asset(str(path)))
    for use in (stage.open, lambda: stage.adds, lambda: stage.vocab_size, lambda: stage.probe_sha256):
        with pytest.raises(PlanError, match=wrong) as raised:
            use()
        assert str(raised.value).startswith(f"{path}: ")
        assert "\n" not in str(raised.value)


def test_a_truncated_model_is_refused(bpe: Asset, tmp_path: Path) -> None:
    path = tmp_path / "short.model"
    path.write_bytes(Path(bpe.location).read_bytes()[:-7])
    with pytest.raises(PlanError, match="not a usable SentencePiece model"):
        load_model(Asset(str(path)))


def test_another_model_than_planned_is_refused(bpe: Asset) -> None:
    with pytest.raises(PlanError, match="changed: expected SHA-256 00, found"):
        load_model(Asset(bpe.location, sha256="00"))


def test_invalid_utf8_in_an_arrow_string_is_the_records_fault(bpe: Asset) -> None:
    offsets = pa.py_buffer(np.array([0, 3], dtype=np.int64).tobytes())
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(b"a\xff ")])
    with pytest.raises(DataError, match="invalid_utf8"):
        Tokenize(model=bpe).open()(pa.record_batch({"text": text}))


def test_ids_are_as_wide_as_the_vocabulary_asks_and_never_wrap() -> None:
    # huggingface/datatrove#118
    assert checked_cast(np.array([0], dtype=np.int32), 65_536).dtype == np.uint16
    assert checked_cast(np.array([0], dtype=np.int32), 65_537).dtype == np.uint32
    ids = np.array([0, 65_535], dtype=np.int32)
    assert checked_cast(ids, 65_536).tolist() == [0, 65_535]
    assert checked_cast(np.array([65_536], dtype=np.int32), 65_537).tolist() == [65_536]
    for wrong in (65_536, -1):
        with pytest.raises(DataError, match="token_out_of_range"):
            checked_cast(np.array([wrong], dtype=np.int32), 65_536)


WORDS = st.sampled_from(["the", "drug", "a", "\u2581", "<s>", "\n", "\u4e2d\u6587", "x" * 300, "\u00e9", "\x00", "10"])
GAPS = st.sampled_from([" ", "  ", "", " \n", "\u2581", "     "])


@given(st.lists(st.tuples(WORDS, GAPS), max_size=12), st.integers(0, 400))
def test_ids_of_long_texts_are_those_of_the_whole(bpe: Asset, parts: list[tuple[str, str]], repeat: int) -> None:
    text = "".join(word + gap for word, gap in parts) * repeat
    model = load_model(bpe)
    assert ids_of(model, text) == model.processor.encode(text)


@pytest.mark.parametrize(
    "text",
    [unit * 5_000 for unit in ("xx", "  ", "ab", "\u4e2d\u6587", "a ", " a", "a  ", " \n", "\u2581 ", "\u2581a ")],
    ids=lambda text: ascii(text[:3]),
)
def test_ids_of_monotone_texts_are_those_of_the_whole(bpe: Asset, text: str) -> None:
    model = load_model(bpe)
    assert ids_of(model, text) == model.processor.encode(text)
    assert ids_of(model, text + " ") == model.processor.encode(text + " ")


@pytest.mark.parametrize(
    ("options", "obstacle"),
    [
        ({}, None),
        ({"add_dummy_prefix": False}, None),
        ({"model_type": "unigram"}, "not a BPE model"),
        ({"byte_fallback": False}, "no byte fallback"),
        ({"remove_extra_whitespaces": True}, "its normalizer changes texts"),
        ({"normalization_rule_name": "nmt_nfkc_cf"}, "its normalizer changes texts"),
        ({"treat_whitespace_as_suffix": True}, "the sign for a space ends a word"),
        ({"user_defined_symbols": ["the\u2581patients"]}, "it has user-defined or unused pieces"),
        ({"split_by_whitespace": False, "vocab_size": 480}, "a piece has a sign for a space inside"),
        ({"control_symbols": ["q"]}, "a special piece is one character"),
    ],
)
def test_models_of_another_structure_go_through_the_library(
    tmp_path: Path, options: dict[str, Any], obstacle: str | None
) -> None:
    asset = train(tmp_path, **options)
    assert find_obstacle(describe(Path(asset.location).read_bytes())) == obstacle
    model = load_model(asset)
    assert (model.engine is None) == (obstacle is not None)
    for text in (
        "the patients  were treated " * 40,
        "THE DRUG",
        "\ufb01  \uff11 e\u0301 \u2026 " * 40,
        " \n \t a" * 40,
    ):
        assert ids_of(model, text) == model.processor.encode(text)


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(["the", " drug", " patients", MARK, "<s>", "</s>", "<0x0A>", "\n", "\x00", "10", "  "]),
        st.text(st.sampled_from("aehrt"), min_size=MAX_SHORT - 2, max_size=3 * MAX_SHORT),
    ),
    max_size=8,
).map("".join)


@given(st.lists(TEXTS, max_size=5))
def test_the_engine_is_equal_to_the_reference_and_the_library(bpe: Asset, texts: list[str]) -> None:
    model = load_model(bpe)
    assert model.engine is not None
    ids, starts = model.encode(pa.array(texts, pa.large_string()), 1, 2)
    found = [ids[first:end].tolist() for first, end in itertools.pairwise(starts)]
    assert found == [[1, *model.processor.encode(text), 2] for text in texts]
    described = describe(Path(bpe.location).read_bytes())
    assert found == [[1, *reference_encode(described, text), 2] for text in texts]


def test_an_engine_that_is_full_forgets_and_gives_the_same_ids(bpe: Asset) -> None:
    """Worn out (its memory is nearly used up) it begins anew, again and again."""
    engine = Engine(describe(Path(bpe.location).read_bytes()))
    texts = [f"{word} {number}{word}s" for number in range(40) for word in ("the", "drugs", "recovery")]
    expected = [library(bpe).encode(text) for text in texts]
    for room in (100, 20, 5, 1):
        engine._memory.used[1] = ARENA_WORDS - room
        ids, starts = engine.encode(pa.array(texts, pa.large_string()))
        assert [ids[first:end].tolist() for first, end in itertools.pairwise(starts)] == expected
    assert engine._memory.used[1] < ARENA_WORDS // 2


def test_an_engine_that_differs_on_a_probe_text_is_not_used(bpe: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.tokenize.PROBE", (*PROBE, "the patients"))
    serialized = Path(bpe.location).read_bytes()
    assert Model(serialized).engine is not None
    monkeypatch.setattr("stages.bpe_engine._ranks", lambda scores: list(range(len(scores)))[::-1])
    assert Model(serialized).engine is None


def test_texts_beyond_a_group_keep_their_places(bpe: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.bpe_engine.GROUP_BYTES", 50)
    texts = ["", "the drug", "x" * 200, "", "and the patients", "recovered 10 20", ""]
    stage = Tokenize(model=bpe)
    assert tokenize(stage, [*texts, None]) == [[1, *library(bpe).encode(text), 2] for text in texts] + [None]
