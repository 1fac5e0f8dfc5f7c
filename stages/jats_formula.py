"""One line of text for a formula: TeX where the article has it, else MathML written flat."""

import re
from collections.abc import Callable
from typing import Any

from stages.xml import local_name

MAX_BRACKET = 2  # letters of a bracket, such as ||
MAX_LEVELS = 64  # of nested MathML; what lies deeper is kept as plain text

_TEX_BODY = re.compile(r"\\begin\s*\{document\}(.*?)(?:\\end\s*\{document\}|\Z)", re.DOTALL)
_TEX_PREAMBLE = re.compile(
    r"\\(?:documentclass|usepackage|setlength|pagestyle)\s*(?:\[[^\]]{0,200}\])?(?:\{[^{}]{0,200}\})*"
)
_LATEX_ANNOTATIONS = ("application/x-tex", "latex", "tex")


def tex(element: Any) -> str:
    """A tex-math element as `$...$`, without the preamble that publishers put before it."""
    source = "".join(element.itertext())
    body = _TEX_BODY.search(source)
    inner = _TEX_PREAMBLE.sub(" ", body[1] if body else source).strip()
    return inner if not inner or "$" in inner or inner.startswith("\\begin") else f"${inner}$"


def mathml(element: Any) -> str:
    """A MathML element on one line: x_1, m^2, (a + b)/(c), sqrt(x)."""
    for annotation in element.iter("{*}annotation"):
        if (annotation.get("encoding") or "").lower() in _LATEX_ANNOTATIONS:
            return tex(annotation)
    return _flat(element, MAX_LEVELS)


def _flat(element: Any, levels: int) -> str:
    if levels == 0:
        return " ".join(text for part in element.itertext() if (text := part.strip()))
    name = local_name(element)
    if name in _WITHOUT_TEXT:
        return " " if name == "mspace" else ""
    parts = [_flat(child, levels - 1) for child in element]
    own: str = " ".join((element.text or "").split())
    if not parts:
        return own
    return _WRITERS[name](parts, element) if name in _WRITERS else _row([own, *parts])


_WITHOUT_TEXT = frozenset({"annotation", "annotation-xml", "maligngroup", "malignmark", "mphantom", "mspace", "none"})


def _row(parts: list[str]) -> str:
    """Parts side by side, with a space where two letters or digits would become one word."""
    written = ""
    for part in parts:
        glued = written[-1:].isalnum() and part[:1].isalnum()
        written += f" {part}" if glued else part
    return written


def _group(part: str) -> str:
    """`part` in parentheses where it is more than one word."""
    return part if part.isalnum() else f"({part})"


def _scripts(parts: list[str], signs: str) -> str:
    scripts = [sign + _group(part) for sign, part in zip(signs, parts[1:], strict=False) if part.strip()]
    rest = parts[1 + len(signs) :]
    return _row([parts[0] + "".join(scripts), *rest])


def _accent(parts: list[str], element: Any) -> str:
    """An accent (a bar, a hat) follows its base; a limit is written as a superscript."""
    is_accent = len(parts) == 2 and len(parts[1]) == 1 and not parts[1].isalnum()
    return "".join(parts) if is_accent else _scripts(parts, "^")


def _fenced(parts: list[str], element: Any) -> str:
    """Brackets are attributes; one that is longer is damage, such as a line feed and `x007B;` in an article of PLoS."""
    separator = (element.get("separators") or ",")[:1]
    stated = ((element.get(name, sign).strip(), sign) for name, sign in (("open", "("), ("close", ")")))
    opening, closing = (bracket if len(bracket) <= MAX_BRACKET else sign for bracket, sign in stated)
    return f"{opening}{separator.join(parts)}{closing}"


def _fraction(parts: list[str], element: Any) -> str:
    return "/".join(map(_group, parts))


_Writer = Callable[[list[str], Any], str]
_WRITERS: dict[str, _Writer] = {
    "mfrac": _fraction,
    "msup": lambda parts, _: _scripts(parts, "^"),
    "msub": lambda parts, _: _scripts(parts, "_"),
    "msubsup": lambda parts, _: _scripts(parts, "_^"),
    "munder": lambda parts, _: _scripts(parts, "_"),
    "munderover": lambda parts, _: _scripts(parts, "_^"),
    "mover": _accent,
    "msqrt": lambda parts, _: f"sqrt({_row(parts)})",
    "mroot": lambda parts, _: f"root({', '.join(parts)})",
    "mfenced": _fenced,
    "mtable": lambda parts, _: "; ".join(parts),
    "mtr": lambda parts, _: " ".join(parts),
}
