"""Writes what the code knows into the reference pages: python -m docs.reference.make_reference (make reference).

stages.md is made whole. In pipeline.md the text is written by hand, and each table of keys stands between
`<!-- keys: CLASS -->` and `<!-- end -->`.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from curate.plan import grammar
from curate.plan import plan as plan_module
from curate.plan.catalog import Description, Option, least_yaml, options_of, shipped
from curate.report.stages import FAMILIES, adds_words

HERE = Path(__file__).parent
TABLE = re.compile(r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LABEL = re.compile(
    r"^((?:Reads|Adds|Removes|Drops|Merges|Quarantines|Gives|Source|Raises)\b[^:.]{0,40}):", re.MULTILINE
)


def pages() -> dict[Path, str]:
    """Each page as the code would have it."""
    written = HERE / "pipeline.md"
    return {HERE / "stages.md": stages_page(shipped()), written: pipeline_page(written.read_text("utf-8"))}


def pipeline_page(text: str) -> str:
    """The page with its tables made anew."""
    return TABLE.sub(lambda match: match[1] + _table(options_of(_class(match[2]))) + match[3], text)


def stages_page(found: list[Description]) -> str:
    """All stages, by family."""
    lines = [
        "# Stages",
        "",
        "Made from the classes by `make reference`; `curate stages NAME` prints the same. A stage of your own is named",
        "in the same way: `docs/own-stage.md`.",
        "",
    ]
    for family, heading in FAMILIES.items():
        members = [one for one in found if one.family == family]
        lines += [f"- {heading}: " + ", ".join(f"[{_name(one)}](#{_name(one).lower()})" for one in members)]
    for one in found:
        lines += ["", *_stage(one)]
    return "\n".join(lines) + "\n"


def _stage(one: Description) -> Iterator[str]:
    yield f"## {_name(one)}"
    yield ""
    yield f"`{one.use}`, a {one.family}, version {one.version}, `{one.file}`"
    yield ""
    yield _prose(one.doc)
    yield ""
    yield from ["```yaml", least_yaml(one), "```"]
    if one.options:
        yield from ["", _table(one.options).rstrip("\n")]
    facts = {"Reads": one.reads, "Adds": adds_words(one), "Removes": one.removes, "Reasons": one.reasons}
    listed = [f"{name}: {', '.join(f'`{word}`' for word in words)}" for name, words in facts.items() if words]
    if listed:
        yield from ["", "Columns and reasons, as declared. " + ". ".join(listed) + "."]


def _prose(doc: str) -> str:
    """A docstring as Markdown: labels begin lines, indented lines stay as they are."""
    parts: list[str] = []
    for block in LABEL.sub(r"\n\n**\1**:", doc).split("\n\n"):
        lines = block.strip("\n").split("\n")
        first = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
        text, kept = lines[:first], lines[first:]
        parts += [_escaped("\n".join(text))] if any(text) else []
        parts += ["```text\n" + "\n".join(kept) + "\n```"] if kept else []
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """Angle brackets and stars outside of backticks are no markup."""
    pieces = re.split(r"(`[^`]*`|\*\*[A-Z][^*]*\*\*)", text)
    return "".join(re.sub(r"([<*])", r"\\\1", piece) if i % 2 == 0 else piece for i, piece in enumerate(pieces))


def _table(options: Iterable[Option]) -> str:
    lines = ["| key | value | default | |", "|---|---|---|---|"]
    for option in options:
        default = "required" if option.required else f"`{option.default}`" if option.default is not None else ""
        lines.append(f"| `{option.name}` | {option.type} | {default} | {option.comment.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def _class(name: str) -> type:
    cls: type = getattr(grammar, name, None) or getattr(plan_module, name)
    return cls


def _name(one: Description) -> str:
    return one.use.rpartition(".")[2]


if __name__ == "__main__":
    for path, content in pages().items():
        path.write_text(content, "utf-8")
