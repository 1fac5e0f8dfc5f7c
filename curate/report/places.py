"""Where a kept document stands in the rows."""

import pyarrow as pa
import pyarrow.compute as pc

from curate.report.records import table_of
from manifests.manifest import Dataset
from manifests.shape import Json

COLUMNS = ["row", "start", "length", "token_offset", "document_tokens"]


def place_of_document(dataset: Dataset, id: bytes, split: str, row: int) -> Json:
    """The shard of its first piece, which lies in `row`, and all pieces in order; later epochs repeat them."""
    shards = dataset.manifest["splits"][split]["shards"]
    rows_per_shard = dataset.manifest["format"]["rows_per_shard"]
    home = row // rows_per_shard
    wanted = pc.field("id") == pa.scalar(id, pa.binary(16))
    pieces: list[Json] = []
    document_tokens = None
    # Its other pieces are in the rows of its bucket, hence near, or among the tails at the end.
    for i in sorted(range(len(shards)), key=lambda i: (min(abs(i - home), len(shards) - 1 - i + 2), i)):
        for line in table_of(dataset, shards[i]["docs"], wanted, COLUMNS).to_pylist():
            document_tokens = line["document_tokens"]
            place = {"row": i * rows_per_shard + line["row"], "shard": dataset.key(shards[i]["rows"]["key"])}
            pieces.append(place | {name: line[name] for name in ("start", "length", "token_offset")})
        covered = {piece["token_offset"]: piece["length"] for piece in pieces}
        if document_tokens == sum(covered.values()):
            break
    pieces.sort(key=lambda piece: (piece["token_offset"], piece["row"]))
    return {"shard": dataset.key(shards[home]["rows"]["key"]), "document_tokens": document_tokens, "pieces": pieces}
