"""The rows of a dataset in the formats that trainers open."""
