"""Are ids from the compiled engine those of sentencepiece, and how much faster do they come?

Cold: the first pass of a new engine over text it has not seen. Documents go in whole and cut at 2,000
words; engines alternate, each on one core and one document a call for the libraries, and the lower of the
two ratios is the one that is stated. The libraries get a part of the text, because they are slow; Hugging
Face's is measured where it is installed.
"""

import functools
import importlib.util
import itertools
import json
import lzma
import os
import random
import statistics
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import sentencepiece

from benchmarks import Figures
from stages.bpe_engine import Engine
from stages.model_proto import describe

DATA = Path(__file__).parents[2] / "shared" / "data"
MODELS = {"llama2": "llama2/tokenizer.model", "mistral_v1": "mistral_v1.tokenizer.model"}
TEXTS = ("books_public_domain", "state_of_the_union", "web_text_samples", "spdx_licence_texts", "udhr2_langid_gold")
ROUNDS = 5
NUM_ADVERSARIAL = 100_000
WORDS_OF_A_PART = 2_000
STRIDE = 20  # of the 2,438 articles every 20th: sentencepiece takes minutes for all
LIBRARY_BYTES = 4 << 20  # of text that a library gets each round
BATCH_BYTES = 16 << 20  # of text in one call of the engine


def measure() -> Figures:
    """Exactness over all real texts, recorded vectors and made-up strings; medians of cold and warm speeds."""
    if not DATA.exists():
        raise SystemExit(f"{DATA}: the real texts are not there")
    whole = list(_documents())
    parts = [part for text in whole for part in _parts(text)]
    exact = {
        name: _differences(name, (DATA / "tokenizers" / file).read_bytes(), whole) for name, file in MODELS.items()
    }
    llama2 = (DATA / "tokenizers" / MODELS["llama2"]).read_bytes()
    speeds = {"whole": _speeds(llama2, whole), "parts": _speeds(llama2, parts)}
    lower = min(speeds.values(), key=lambda one: float(one["ratio_vs_sentencepiece"]))
    return {
        "exact": not any(count for counts in exact.values() for count in counts.values()),
        "tokens_per_second": lower["tokens_per_second"],
        "ratio_vs_sentencepiece": lower["ratio_vs_sentencepiece"],
        "ratio_vs_hf_tokenizers": min(one["ratio_vs_hf_tokenizers"] for one in speeds.values()) if _has_hf() else None,
        "differing": exact,
        "cases": {"documents": len(whole), "bytes": sum(len(text.encode()) for text in whole)}
        | {"vectors": len(_vectors()), "adversarial": NUM_ADVERSARIAL},
        "speeds": speeds,
        "rounds": ROUNDS,
        "cores": len(os.sched_getaffinity(0)),
    }


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    cases = figures["cases"]
    text = [
        f"exact: {figures['exact']}, over {cases['documents']:,} documents ({cases['bytes']:,} bytes), "
        f"{cases['vectors']} recorded vectors and {cases['adversarial']:,} made-up strings, with {', '.join(MODELS)}"
    ]
    for name, one in figures["speeds"].items():
        text.append(
            f"documents {name}: {one['ratio_vs_sentencepiece']}x sentencepiece cold, {one['warm_ratio']}x warm"
            + (f", {one['ratio_vs_hf_tokenizers']}x Hugging Face tokenizers cold" if _has_hf() else "")
            + f" ({one['tokens_per_second']:,} tokens a second cold, {one['warm_tokens_per_second']:,} warm, "
            f"sentencepiece {one['sentencepiece_tokens_per_second']:,})"
        )
    return text


def _documents() -> Iterator[str]:
    """Real texts, and articles as they stand in their files, markup and all."""
    for name in TEXTS:
        with lzma.open(DATA / "text" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
            yield from (json.loads(line)["text"] for line in file)
    for path in sorted((DATA / "pubmed" / "jats").rglob("*")):
        if path.suffix in {".xml", ".nxml"}:
            yield path.read_text("utf-8", errors="replace")
        elif path.name.endswith((".tar.gz", ".tar.xz")):
            with tarfile.open(path) as archive:
                articles = [member for member in archive if member.name.endswith("xml")]
                for member in articles[::STRIDE]:
                    found = archive.extractfile(member)
                    if found is not None:
                        yield found.read().decode("utf-8", errors="replace")


def _parts(text: str) -> list[str]:
    words = text.split(" ")
    return [" ".join(words[at : at + WORDS_OF_A_PART]) for at in range(0, len(words), WORDS_OF_A_PART)]


def _vectors() -> list[dict[str, Any]]:
    with (DATA / "tokenizers" / "test_vectors.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _adversarial(pieces: Sequence[str]) -> list[str]:
    """Strings of what engines have differed on, from a fixed seed."""
    chance = random.Random(7)
    odd = [
        "\u2581",
        " ",
        "  ",
        "\n",
        "\t",
        "\x00",
        "\r\n",
        "<s>",
        "</s>",
        "<unk>",
        "<0x0A>",
        "\u00a0",
        "\ufeff",
        "\u200d",
    ]
    odd += [
        "e\u0301",
        "\ufb01",
        "\U0001f680",
        "\u4e2d\u6587",
        "\u0e20\u0e32",
        "1234567890",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ]

    def string() -> str:
        kinds = [
            lambda: chance.choice(odd),
            lambda: chance.choice(pieces),
            lambda: chr(chance.choice([*range(0x20, 0x7F), *range(0xA0, 0xD800), *range(0xE000, 0x11000)])),
        ]
        return "".join(chance.choice(kinds)() for _ in range(chance.randrange(1, 40)))

    return [string() for _ in range(NUM_ADVERSARIAL)]


def _differences(name: str, serialized: bytes, whole: list[str]) -> dict[str, int]:
    """How many texts of each kind get other ids than sentencepiece's, or than those recorded."""
    library = sentencepiece.SentencePieceProcessor(model_proto=serialized)
    engine = Engine(describe(serialized))
    adversarial = _adversarial([piece for piece in describe(serialized).pieces if len(piece) > 1])
    vectors = _vectors()
    recorded = _encode(engine, [vector["text"] for vector in vectors])
    return {
        "documents": _num_unequal(engine, library, whole),
        "adversarial": _num_unequal(engine, library, adversarial),
        "vectors": sum(found != vector[name] for found, vector in zip(recorded, vectors, strict=True)),
    }


def _num_unequal(engine: Engine, library: Any, texts: list[str]) -> int:
    unequal = 0
    for batch in _batches(texts):
        unequal += sum(one != other for one, other in zip(_encode(engine, batch), library.encode(batch), strict=True))
    return unequal


def _encode(engine: Engine, texts: list[str]) -> list[list[int]]:
    ids, starts = engine.encode(pa.array(texts, pa.large_string()))
    return [ids[first:end].tolist() for first, end in itertools.pairwise(starts)]


def _batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _speeds(serialized: bytes, texts: list[str]) -> Figures:
    """Medians over alternating rounds, in tokens a second."""
    random.Random(1).shuffle(texts)
    few = list(itertools.takewhile(_within(LIBRARY_BYTES), texts))
    arrays = [pa.array(batch, pa.large_string()) for batch in _batches(texts)]
    description = describe(serialized)
    library = sentencepiece.SentencePieceProcessor(model_proto=serialized)
    hugging_face = _hf_encoder() if _has_hf() else None
    speeds: dict[str, list[float]] = {"cold": [], "warm": [], "sentencepiece": [], "hf": []}
    for _ in range(ROUNDS):
        engine = Engine(description)
        for name in ("cold", "warm"):
            speeds[name].append(_speed(functools.partial(_num_ids, engine, arrays)))
        speeds["sentencepiece"].append(_speed(lambda: sum(len(library.encode(text)) for text in few)))
        if hugging_face is not None:
            speeds["hf"].append(_speed(lambda: sum(hugging_face(text) for text in few)))
    cold, warm, slow = (statistics.median(speeds[name]) for name in ("cold", "warm", "sentencepiece"))
    figures: Figures = {
        "tokens_per_second": round(cold),
        "warm_tokens_per_second": round(warm),
        "sentencepiece_tokens_per_second": round(slow),
        "ratio_vs_sentencepiece": round(cold / slow, 1),
        "warm_ratio": round(warm / slow, 1),
    }
    if not speeds["hf"]:
        return figures
    return {**figures, "ratio_vs_hf_tokenizers": round(cold / statistics.median(speeds["hf"]), 1)}


def _num_ids(engine: Engine, arrays: list[pa.Array]) -> int:
    return sum(len(engine.encode(array)[0]) for array in arrays)


def _within(max_bytes: int) -> Callable[[str], bool]:
    """Whether the texts so far, this one included, have no more bytes."""
    seen = 0

    def fits(text: str) -> bool:
        nonlocal seen
        seen += len(text.encode())
        return seen <= max_bytes

    return fits


def _speed(encode: Callable[[], int]) -> float:
    start = time.perf_counter()
    count = encode()
    return count / (time.perf_counter() - start)


def _has_hf() -> bool:
    return importlib.util.find_spec("tokenizers") is not None


def _hf_encoder() -> Callable[[str], int]:
    """Number of ids that Hugging Face's library gives, with its form of the Llama vocabulary."""
    from tokenizers import Tokenizer  # a peer: not among our dependencies

    with lzma.open(DATA / "tokenizers" / "llama2" / "dolma_llama_tokenizer.json.xz", "rt", encoding="utf-8") as file:
        tokenizer = Tokenizer.from_str(file.read())
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
