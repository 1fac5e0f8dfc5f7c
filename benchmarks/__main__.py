"""Runs one benchmark; with --json the last line printed is an object with its figures."""

import argparse
import importlib
import json
from pathlib import Path


def names() -> list[str]:
    """The benchmarks there are."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def main() -> None:
    """Run the benchmark that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on the last line")
    arguments = parser.parse_args()
    benchmark = importlib.import_module(f"benchmarks.{arguments.name}")
    figures = benchmark.measure()
    print("\n".join(benchmark.lines(figures)))
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
