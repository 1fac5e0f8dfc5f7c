"""What stages.kernels.trees does, in plain Python."""

import math

from stages.kernels.trees import Trees


def probability(trees: Trees, values: list[float]) -> float:
    total = 0.0
    for root in trees.roots.tolist():
        node = root
        while trees.features[node] >= 0:
            below = values[trees.features[node]] <= float(trees.thresholds[node])
            node = int(trees.left[node] if below else trees.right[node])
        total += float(trees.thresholds[node])
    return 1 / (1 + math.exp(-total))


def surroundings(chars: list[float], groups: list[list[int]], answers: list[float]) -> list[list[float]]:
    weights = [min(size, 600.0) + 1 for size in chars]
    num = len(answers)

    def total(numbers: list[int]) -> float:
        return sum(answers[number] * weights[number] for number in numbers)

    def mean(numbers: list[int], least: float = 0.0) -> float:
        return total(numbers) / max(least, sum(weights[number] for number in numbers))

    rows = []
    everything = list(range(num))
    kept = sum(answer > 0.5 for answer in answers)
    for row in range(num):
        beside = [answers[row + k] if 0 <= row + k < num else -0.1 for k in (-3, -2, -1, 1, 2, 3)]
        near = [mean(list(range(max(0, row - reach), min(num, row + reach + 1)))) for reach in (2, 5, 12, 30)]
        above, below = everything[:row], everything[row + 1 :]
        alike = [[other for other in everything if groups[other][k] == groups[row][k]] for k in range(4)]
        rows.append(
            [
                answers[row],
                *beside,
                *near,
                total(above) / max(1.0, total(everything)),
                mean(everything),
                total(everything),
                max(answers),
                mean(above, least=1.0),
                mean(below, least=1.0),
                *map(mean, alike),
                total(everything) / max(1, kept),
            ]
        )
    return rows
