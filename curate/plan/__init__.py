"""From pipeline.yaml to a plan: load, build, explain."""
