"""SentencePiece's BPE in plain Python: of all pairs that make a piece, merge the best one, of equals the first."""

import itertools

from stages.model_proto import BYTE, NORMAL, Description


def encode(model: Description, text: str) -> list[int]:
    """The ids of `text`, for a model whose normalizer keeps texts."""
    ids = {piece: i for i, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True)) if kind == NORMAL}
    special = {piece: i for i, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True)) if kind == BYTE}
    marked = text.replace(" ", "\u2581")
    symbols = list("\u2581" + marked if model.dummy_prefix and text else marked)
    while True:
        joined = ["".join(pair) for pair in itertools.pairwise(symbols)]
        places = [i for i, piece in enumerate(joined) if piece in ids]
        if not places:
            break
        best = max(places, key=lambda i: (model.scores[ids[joined[i]]], -i))
        symbols[best : best + 2] = [joined[best]]
    found = []
    for symbol in symbols:
        if symbol in ids:
            found.append(ids[symbol])
        else:
            found += [special[f"<0x{byte:02X}>"] for byte in symbol.encode()]
    return found
