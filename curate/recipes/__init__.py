"""Pipelines to begin with, one YAML file each; a file beside this one is a recipe, and its first line says what for."""

from importlib.resources import files
from pathlib import Path

from curate.core.errors import PlanError, suggestion

NAME = "pipeline.yaml"  # of the file that a person gets


def recipes() -> dict[str, str]:
    """What each recipe is for, by name."""
    found = sorted(item.name for item in files(__name__).iterdir() if item.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): _text(name).partition("\n")[0].lstrip("# ") for name in found}


def write_recipe(folder: str, name: str | None) -> Path:
    """Write the recipe as a new `pipeline.yaml` in `folder`, which may be new. Raises: PlanError."""
    known = recipes()
    if name not in known:
        what = (
            "--recipe is missing"
            if name is None
            else f"there is no recipe {name!r}{suggestion(name, known).rstrip('?')}"
        )
        listed = "".join(f"\n  --recipe {one.ljust(max(map(len, known)))}  {purpose}" for one, purpose in known.items())
        raise PlanError(f"curate init: {what}. There are{listed}")
    if "://" in folder:
        raise PlanError(f"curate init: {folder!r} is no folder of this machine; paths inside the pipeline may be s3://")
    path = Path(folder, NAME)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_text(f"{name}.yaml"))
    except FileExistsError:
        what = "is there already, and is not overwritten" if path.parent.is_dir() else "is in no folder"
        raise PlanError(f"curate init: {path} {what}; name another folder") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise PlanError(f"curate init: {path} cannot be written: {error}") from None
    return path


def _text(file: str) -> str:
    return files(__name__).joinpath(file).read_text("utf-8")
