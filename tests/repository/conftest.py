import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh-golden", action="store_true", help="store the stages' outputs anew (make golden)")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """The files that are, or would be, committed: relative to the root, in order."""
    if not (root / ".git").exists():
        pytest.skip("not a git work tree: which files are committed is unknown")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(Path(name) for name in names.split("\0") if name and (root / name).is_file())
