"""How much of 2,438 real articles does ExtractJats keep, how well does it agree with CRAFT, and how fast is it?

Data: the JATS archives under CURATE_DATA (default ../shared/data). Fidelity is judged by `benchmarks/_text_nodes.py`,
which shares no code with the extractor. Speed is compared with pubmed_parser's article, paragraph, caption and table
functions on the same files, alternately; its interpreter is named by PUBMED_PARSER_PYTHON (a virtual environment of
its own), and without one the peer's figures are null.
"""

import json
import os
import re
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import Figures
from benchmarks._text_nodes import CITATIONS, NOT_WANTED, OWN_WORDS, check
from curate.core.errors import DataError
from stages.jats import ExtractJats
from stages.jats_front import read_front

DATA = Path(os.environ.get("CURATE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "pubmed" / "jats"
PEER = os.environ.get("PUBMED_PARSER_PYTHON")
ROUNDS = 5
TIMED = 16  # every so manyth article is timed
BATCH = 16
AS_GOLD = ExtractJats(acknowledgments="keep", funding="keep")  # as the curators of CRAFT kept them
_WORD = re.compile(r"\w+")


def measure() -> Figures:
    """Fidelity over all articles, agreement with the 78 of CRAFT, speed against the peer."""
    articles = dict(_articles())
    gold = {name: text.decode() for name, text in articles.items() if name.endswith(".txt")}
    articles = {name: data for name, data in articles.items() if name not in gold}
    texts = {name: _text(data, ExtractJats()) for name, data in articles.items()}
    as_gold = {name: _text(data, AS_GOLD) for name, data in articles.items() if name.startswith("jats_craft")}
    return {
        "articles": len(articles),
        **_fidelity(articles, texts),
        **_agreement(as_gold, gold),
        **_speed([articles[name] for name in sorted(articles)[::TIMED]]),
    }


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    peer = f"{figures['ratio']}x pubmed_parser" if figures["ratio"] else "no peer: set PUBMED_PARSER_PYTHON"
    return [
        f"{peer}; {figures['articles_per_second']} articles/s ({ROUNDS} alternating rounds)",
        f"CRAFT, {figures['craft_articles']} articles: F1 {figures['craft_f1']} (worst {figures['craft_worst_f1']}), "
        f"precision {figures['craft_precision']}, recall {figures['craft_recall']}",
        f"coverage of {figures['articles_with_text']} articles: median {figures['coverage_median']}, "
        f"1st percentile {figures['coverage_p01']}, worst {figures['coverage_worst']}",
        f"{figures['glued_words']} glued, {figures['invented_words']} invented words, {figures['failed']} failed, "
        f"{figures['repeated_letters']} letters twice",
        f"not wanted: {figures['not_wanted']}",
    ]


def _articles() -> Iterator[tuple[str, bytes]]:
    for archive in sorted(DATA.glob("jats_*.tar.xz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None and member.name.endswith((".xml", ".nxml", ".txt")):
                    yield f"{archive.name}/{member.name}", file.read()


def _text(data: bytes, stage: ExtractJats) -> str | None:
    batch = pa.RecordBatch.from_pydict({"content": pa.array([data], pa.large_binary())})
    try:
        text: str = stage.open()(batch).column("text")[0].as_py()
    except DataError:
        return None
    return text


def _fidelity(articles: dict[str, bytes], texts: dict[str, str | None]) -> dict[str, Any]:
    coverage, findings = [], {}
    for name, text in texts.items():
        if text:
            findings[name] = check(articles[name], text)
            coverage.append(findings[name].coverage)
    coverage.sort()
    glued = sorted({f"{name}: {word}" for name, found in findings.items() for word in found.glued})
    invented = sorted({f"{name}: {word}" for name, found in findings.items() for word in found.invented})
    lost = Counter(word for found in findings.values() for word in found.lost)
    return {
        "articles_with_text": len(coverage),
        "without_text": sum(text == "" for text in texts.values()),
        "failed": sum(text is None for text in texts.values()),
        "coverage_median": round(statistics.median(coverage), 5),
        "coverage_p01": round(coverage[len(coverage) // 100], 5),
        "coverage_worst": round(coverage[0], 5),
        "glued_words": len(glued),
        "glued_examples": glued[:10],
        "invented_words": len(invented),
        "invented_examples": invented[:10],
        "own_words": sorted(OWN_WORDS),
        "repeated_letters": sum(found.repeated_letters for found in findings.values()),
        "most_lost_words": dict(lost.most_common(12)),
        "not_wanted": sorted({*NOT_WANTED, *(f"xref[ref-type={kind}]" for kind in CITATIONS)}),
    }


def _agreement(texts: dict[str, str | None], gold: dict[str, str]) -> dict[str, Any]:
    """Bags of words, a mean over articles, as SOURCES.md of the data defines the figure of a plain dump."""
    scores = []
    for name, wanted in gold.items():
        found = Counter(_WORD.findall(texts[name.replace("gold_txt/", "nxml/").replace(".txt", ".nxml")] or ""))
        right = Counter(_WORD.findall(wanted))
        common = (found & right).total()
        precision, recall = common / max(1, found.total()), common / right.total()
        scores.append((2 * common / (found.total() + right.total()), precision, recall))
    f1, precision, recall = (round(statistics.mean(score[i] for score in scores), 4) for i in range(3))
    worst = round(min(score[0] for score in scores), 4)
    return {
        "craft_articles": len(scores),
        "craft_f1": f1,
        "craft_precision": precision,
        "craft_recall": recall,
        "craft_worst_f1": worst,
    }


def _speed(sample: list[bytes]) -> dict[str, Any]:
    """Ours is all that a run does with an article: metadata, license and text."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.nxml" for number in range(len(sample))]
        for path, data in zip(paths, sample, strict=True):
            path.write_bytes(data)
        peer = _peer() if PEER else None
        ours, theirs, failures = [], [], 0
        for _ in range(ROUNDS):
            ours.append(_seconds(paths))
            if peer:
                answer = _ask(peer, paths)
                theirs.append(answer["seconds"])
                failures = int(answer["failures"])
        if peer and peer.stdin:
            peer.stdin.close()
            peer.wait()
    ratios = [peer_seconds / seconds for peer_seconds, seconds in zip(theirs, ours, strict=False)]
    return {
        "timed_articles": len(sample),
        "rounds": ROUNDS,
        "articles_per_second": round(len(sample) / statistics.median(ours), 1),
        "peer_articles_per_second": round(len(sample) / statistics.median(theirs), 1) if theirs else None,
        "peer_failed_calls": failures if theirs else None,
        "ratio": round(statistics.median(ratios), 2) if ratios else None,
    }


def _seconds(paths: list[Path]) -> float:
    extract = ExtractJats().open()
    start = time.perf_counter()
    for first in range(0, len(paths), BATCH):
        batch = [path.read_bytes() for path in paths[first : first + BATCH]]
        for data in batch:
            read_front(data)
        extract(pa.RecordBatch.from_pydict({"content": pa.array(batch, pa.large_binary())}))
    return time.perf_counter() - start


def _peer() -> "subprocess.Popen[str]":
    script = Path(__file__).with_name("_pubmed_parser.py")
    return subprocess.Popen([str(PEER), "-I", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(peer: "subprocess.Popen[str]", paths: list[Path]) -> dict[str, float]:
    if peer.stdin is None or peer.stdout is None:
        raise SystemExit("the peer has no pipes")
    peer.stdin.write(json.dumps([str(path) for path in paths]) + "\n")
    peer.stdin.flush()
    line = peer.stdout.readline()
    if not line:
        raise SystemExit(f"{PEER} ended: is pubmed_parser installed there?")
    answer: dict[str, float] = json.loads(line)
    return answer
