"""Reference lists taken out of an article's bytes before it is parsed: they are a third of them."""

_OPEN, _CLOSE = b"<ref-list", b"</ref-list>"


def without_references(data: bytes) -> bytes:
    """`data` without its ref-list elements.

    Unchanged where a tag might be no tag, as there is a comment, CDATA section or instruction in or between
    lists, or one that is open before the first; and where a list holds another.
    """
    start, stop = data.find(_OPEN), data.rfind(_CLOSE)
    if start < 0 or stop < start or not _is_markup(data, start, stop):
        return data
    kept, position = [], 0
    while start >= 0:
        end = data.find(_CLOSE, start)
        following = data.find(_OPEN, start + 1)
        if end < 0 or 0 <= following < end or data[start + len(_OPEN)] not in b" \t\r\n>":
            return data
        kept.append(data[position:start])
        position, start = end + len(_CLOSE), following
    return b"".join([*kept, data[position:]])


def _is_markup(data: bytes, start: int, stop: int) -> bool:
    hidden = any(data.find(sign, start, stop) >= 0 for sign in (b"<!", b"<?"))
    pairs = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"))
    return not hidden and all(data.rfind(sign, 0, start) <= data.rfind(end, 0, start) for sign, end in pairs)
