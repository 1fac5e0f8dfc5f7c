"""Run by a peer's own Python: signs the texts of a JSON file each time a line comes in, and answers with
the seconds that this process had a core.

Each peer is called as its documentation does, in the fastest way that starts from text: words, their 5-grams as
strings, 128 values. Words are `\\w+` of the lower-cased text, but for datatrove, which splits with spaCy itself.
"""

import json
import re
import sys
import time
from collections.abc import Callable

NGRAM, NUM_VALUES = 5, 128

Texts = list[str]


def shingles(text: str) -> list[str]:
    """Word 5-grams."""
    words = re.findall(r"\w+", text.lower())
    return [" ".join(words[start : start + NGRAM]) for start in range(max(1, len(words) - NGRAM + 1))]


def datasketch() -> Callable[[Texts], object]:
    """MinHash.update_batch with a hash as fast as there is."""
    import xxhash
    from datasketch import MinHash

    def hash_32(data: bytes) -> int:
        return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF

    def sign(texts: Texts) -> object:
        found = []
        for text in texts:
            one = MinHash(num_perm=NUM_VALUES, hashfunc=hash_32)
            one.update_batch([shingle.encode() for shingle in shingles(text)])
            found.append(one.hashvalues)
        return found

    return sign


def rensa() -> Callable[[Texts], object]:
    """RMinHash for many documents at once."""
    from rensa import RMinHash

    return lambda texts: RMinHash.digest_matrix_from_token_sets([shingles(text) for text in texts], NUM_VALUES, 1)


def datatrove() -> Callable[[Texts], object]:
    """What its first stage does with a document."""
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature

    stage = MinhashDedupSignature("/dev/null", MinhashConfig(n_grams=NGRAM, num_buckets=16, hashes_per_bucket=8))
    return lambda texts: [stage.get_signature(stage.get_shingles(text)) for text in texts]


PEERS = {"datasketch": datasketch, "rensa": rensa, "datatrove": datatrove}


def main() -> None:
    """Answer each line on standard input with the seconds that signing took."""
    name, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        texts = json.load(file)
    sign = PEERS[name]()
    sign(texts[:2])  # models and caches are loaded before time is taken
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        sign(texts)
        print(time.process_time() - start, flush=True)


main()
