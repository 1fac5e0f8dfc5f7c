"""Which near-duplicates are found, and is what is removed one? On two sets whose pairs are all known exactly.

Recall: of the pairs with a Jaccard index of at least the threshold, those of which at most one document is kept.
Precision: of the removed documents, those whose named, kept document has at least that index. Peers name none, so their
figures count any kept document. Presets are held to their own S-curve: what they find is at least what it says.
"""

from collections.abc import Callable
from typing import Any

from benchmarks import Figures
from benchmarks._dedup_sets import DocumentSet, license_texts, web_texts
from stages.bands import PRESETS, Bands
from stages.dedup import MinHashDedup
from tests.oracle import Outcome, documents_of, run_exchange

THRESHOLDS = (0.5, 0.7, 0.8)
SETS: dict[str, Callable[[], DocumentSet]] = {"spdx": license_texts, "web": web_texts}

# Of datatrove 0.10.1 (14 x 8), text-dedup 0.4.0 and py-data-juicer 1.6.1 (25 x 10) on the same texts: removed
# documents; pairs at 0.8 of which at most one is kept; removed documents with any kept one of at least 0.8. Measured
# once, apart.
PEERS = {
    "spdx": {
        "datatrove": (217, 0.998, 0.553),
        "text-dedup": (194, 0.985, 0.619),
        "data-juicer": (177, 0.977, 0.655),
        "exact greedy": (142, 1.0, 1.0),
    },
    "web": {
        "datatrove": (111, 1.0, 0.946),
        "text-dedup": (105, 0.998, 0.971),
        "data-juicer": (104, 0.992, 0.962),
        "exact greedy": (105, 1.0, 1.0),
    },
}


def measure() -> Figures:
    """Recall and precision at each threshold, and of the presets at 0.8."""
    figures: dict[str, Any] = {}
    for name, load in SETS.items():
        documents = load()
        figures[f"{name}_documents"], figures[f"{name}_megabytes"] = len(documents.texts), round(documents.megabytes, 2)
        for threshold in THRESHOLDS:
            found = _judge(documents, MinHashDedup(threshold=threshold), threshold)
            figures |= {f"{name}_{key}_at_{threshold}": value for key, value in found.items()}
        for preset, bands in PRESETS.items():
            found = _judge(documents, MinHashDedup(preset=preset), 0.8)
            figures[f"{name}_{preset}_recall_at_0.8"] = found["recall"]
            figures[f"{name}_{preset}_precision_at_0.8"] = found["precision"]
            figures[f"{name}_{preset}_s_curve_at_0.8"] = round(_expected(documents, bands, 0.8), 4)
    for key in ("recall_at_0.8", "precision_at_0.8"):
        figures[key] = min(figures[f"{name}_{key}"] for name in SETS)
    return figures


def _judge(documents: DocumentSet, stage: MinHashDedup, threshold: float) -> dict[str, Any]:
    outcome = run_exchange(stage, documents_of(documents.texts))
    removed, named = outcome.removed(), _named(outcome)
    pairs = [pair for pair, index in documents.jaccard.items() if index >= threshold]
    similar = [one for one, kept in named.items() if documents.similarity(one, kept) >= threshold]
    kept = [number for number in range(len(documents.texts)) if number not in removed]
    with_any = [one for one in removed if any(documents.similarity(one, other) >= threshold for other in kept)]
    return {
        "pairs": len(pairs),
        "removed": len(removed),
        "removed_by_exact_greedy": len(greedy(documents, threshold)),
        "recall": round(sum(not removed.isdisjoint(pair) for pair in pairs) / len(pairs), 4),
        "precision": round(len(similar) / len(removed), 4),
        "precision_any_kept": round(len(with_any) / len(removed), 4),
        "kept_ones_that_were_removed": len(removed & set(named.values())),
    }


def _named(outcome: Outcome) -> dict[int, int]:
    merged = {number: line for number, line in outcome.verdicts.items() if line["fate"] == "merged"}
    return {number: int.from_bytes(line["kept_id"], "big") for number, line in merged.items()}


def greedy(documents: DocumentSet, threshold: float) -> set[int]:
    """What exact indices remove: the longest texts first, each that is similar to a kept one."""
    order = sorted(range(len(documents.texts)), key=lambda one: (-len(documents.texts[one].encode()), one))
    kept: list[int] = []
    removed: set[int] = set()
    for one in order:
        if any(documents.similarity(one, other) >= threshold for other in kept):
            removed.add(one)
        else:
            kept.append(one)
    return removed


def _expected(documents: DocumentSet, bands: Bands, threshold: float) -> float:
    """The share of the pairs that the S-curve promises."""
    found = [bands.probability(index) for index in documents.jaccard.values() if index >= threshold]
    return sum(found) / len(found)


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    text = [
        f"recall {figures['recall_at_0.8']}, precision {figures['precision_at_0.8']} at 0.8, the lower of both sets"
    ]
    for name, peers in PEERS.items():
        text += ["", f"{name}: {figures[f'{name}_documents']} documents, {figures[f'{name}_megabytes']} MB"]
        text.append("                          pairs  removed  recall  precision  (any kept)")
        for threshold in THRESHOLDS:
            keys = ("pairs", "removed", "recall", "precision", "precision_any_kept")
            row = [figures[f"{name}_{key}_at_{threshold}"] for key in keys]
            text.append(f"  curate at {threshold}           {row[0]:6} {row[1]:8}  {row[2]:6}  {row[3]:9}  {row[4]:6}")
        for preset in PRESETS:
            row = [figures[f"{name}_{preset}_{key}_at_0.8"] for key in ("recall", "s_curve", "precision")]
            text.append(f"  {preset:10} at 0.8: recall {row[0]}, its S-curve {row[1]}, precision {row[2]}")
        for peer, (removed, recall, precision) in peers.items():
            text.append(f"  {peer:12} at 0.8: removed {removed}, recall {recall}, precision {precision} (any kept)")
    return text
