"""Text from data, made fit for a terminal: no control character of a page may move its cursor or color it."""

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """`text` with control characters, but for line ends and tabs, escaped."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
