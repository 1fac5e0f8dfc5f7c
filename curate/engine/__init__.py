"""Running a plan: units, attempts, receipts, phases."""
