#!/bin/sh
# The peers of the de-duplication benchmarks, each in an environment of its own below $CURATE_PEERS, outside the tree.
set -eu
folder=${CURATE_PEERS:-$HOME/.cache/curate-peers}
install() {
    name=$1
    shift
    [ -e "$folder/$name/.ready" ] && return
    python3 -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    touch "$folder/$name/.ready"
}
install datasketch datasketch==2.0.0 xxhash
install rensa rensa==0.5.0 numpy
install datatrove "datatrove[processing]==0.10.1" spacy==3.8.18
install data-juicer py-data-juicer==1.6.1 aiohttp # imported, and missing from its requirements
