"""Compiled loops over the buffers of Arrow columns."""
