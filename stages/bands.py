"""How many bands of how many values: which pairs they find, and what they cost.

A pair of similarity s agrees in all `rows` values of a band with probability s^rows, so that at least
one of `bands` bands finds it with 1 - (1 - s^rows)^bands: the S-curve.
Source: Broder 1997; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4.
"""

from typing import Literal, NamedTuple

LEAST_FOUND = 0.998  # of the pairs at the threshold, so that the threshold and not the bands decides
MAX_CHOSEN = 144  # values of a signature whose bands are chosen by the threshold


class Bands(NamedTuple):
    """Bands, and values in each."""

    bands: int
    rows: int

    @property
    def num_values(self) -> int:
        """Of a signature."""
        return self.bands * self.rows

    def probability(self, similarity: float) -> float:
        """That a pair of this similarity is found."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)


Preset = Literal["fineweb", "refinedweb", "nemo"]

PRESETS: dict[Preset, Bands] = {
    "fineweb": Bands(14, 8),  # Penedo et al. 2024, section 3.4: 112 values, found with 77 % at 0.75, 92 % at 0.8
    "refinedweb": Bands(450, 20),  # Penedo et al. 2023, appendix G.3.1: 9,000 values, 99.4 % at 0.8
    "nemo": Bands(20, 13),  # NeMo Curator's defaults (its shingles are 24 characters): 67 % at 0.8
}


def choose_bands(threshold: float) -> Bands:
    """The most selective bands within MAX_CHOSEN values that find LEAST_FOUND of the pairs at the threshold."""
    for rows in range(MAX_CHOSEN, 0, -1):
        least = next((bands for bands in range(1, MAX_CHOSEN // rows + 1) if _finds(bands, rows, threshold)), None)
        if least is not None:
            return Bands(least, rows)
    return Bands(MAX_CHOSEN, 1)  # below a threshold of 0.043: then fewer are found


def _finds(bands: int, rows: int, threshold: float) -> bool:
    return Bands(bands, rows).probability(threshold) >= LEAST_FOUND
