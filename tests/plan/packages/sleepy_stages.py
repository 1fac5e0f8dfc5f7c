"""A module that takes its time, to be stopped in."""

import time

print("importing", flush=True)
time.sleep(600)
