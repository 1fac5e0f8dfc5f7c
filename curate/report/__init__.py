"""Answers about a finished run: report, why."""
