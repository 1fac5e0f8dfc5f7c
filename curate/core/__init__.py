"""The vocabulary everything else is written in: schema, stages, errors, storage, hashes."""
