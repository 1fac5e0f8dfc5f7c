"""Bands by threshold and by preset, against their S-curve computed apart."""

import pytest

from stages.bands import LEAST_FOUND, MAX_CHOSEN, PRESETS, Bands, choose_bands
from stages.dedup import MinHashDedup


@pytest.mark.parametrize(("threshold", "expected"), [(0.8, (21, 6)), (0.7, (23, 4)), (0.5, (47, 3)), (1.0, (1, 144))])
def test_bands_are_chosen_by_the_threshold(threshold: float, expected: tuple[int, int]) -> None:
    """datasketch#209: 9 bands of 13 values left 11 of 128 unused, and recall was not what the user thought."""
    assert choose_bands(threshold) == expected


@pytest.mark.parametrize("percent", [5, 10, 30, 55, 60, 75, 85, 90, 95, 99, 100])
def test_chosen_bands_find_what_they_promise(percent: int) -> None:
    chosen = choose_bands(percent / 100)
    assert chosen.probability(percent / 100) >= LEAST_FOUND
    assert chosen.num_values <= MAX_CHOSEN
    more_rows = Bands(MAX_CHOSEN // (chosen.rows + 1), chosen.rows + 1)
    assert chosen.rows == MAX_CHOSEN or more_rows.probability(percent / 100) < LEAST_FOUND


@pytest.mark.parametrize(
    ("preset", "similarity", "expected"),
    [
        ("fineweb", 0.7, 0.565),  # Penedo et al. 2024 state 56 %, 77 %, 92 % and 98.8 %
        ("fineweb", 0.75, 0.772),
        ("fineweb", 0.8, 0.924),
        ("fineweb", 0.85, 0.988),
        ("refinedweb", 0.75, 0.760),  # Penedo et al. 2023 state 76 % and 99.4 %
        ("refinedweb", 0.8, 0.995),
        ("nemo", 0.8, 0.677),
    ],
)
def test_presets_have_the_s_curve_that_their_authors_state(preset: str, similarity: float, expected: float) -> None:
    assert PRESETS[preset].probability(similarity) == pytest.approx(expected, abs=0.001)  # type: ignore[index]


def test_a_plan_tells_the_s_curve_and_the_bytes() -> None:
    told = MinHashDedup().forecast()
    assert told["bands_x_rows"] == "21 x 6"
    assert told["found_at_similarity"]["0.8"] == 0.9983 and told["found_at_similarity"]["0.5"] == 0.2816
    assert told["bytes_sent_a_document"] == 22 * (8 + 16 + 4 + 8 + 8 + 1)
    assert MinHashDedup(scope="source").forecast()["bytes_sent_a_document"] == 2 * told["bytes_sent_a_document"]
    assert told["bytes_sent_a_candidate"] > told["bytes_kept_at_home_a_document"] > 4 * 126
    assert told["bytes_in_memory_at_once"] < 1 << 29  # a quarter of a worker's default memory
