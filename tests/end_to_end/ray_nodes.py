"""A Ray cluster on loopback with nodes of one CPU, for as long as stdin is open.

Argument: a folder for its files, with a short path. Prints the cluster's address. Then the line `add`
adds a node, `pids` looks at it, `kill` kills it; each is answered with the ids of its processes.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # 127.0.0.1
os.environ["RAY_TMPDIR"] = sys.argv[1]  # else Ray writes its address where every user's "auto" finds it

from ray.cluster_utils import Cluster

HEALTH = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 300, "health_check_failure_threshold": 2}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


def descendants(pid: int) -> list[int]:
    """The process ids of a process and of all that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in descendants(int(child)))]


def main() -> None:
    """See the module."""
    cluster = Cluster(initialize_head=True, shutdown_at_exit=True, head_node_args=NODE | {"_system_config": HEALTH})
    print(cluster.address, flush=True)
    added: Any = None
    for line in sys.stdin:
        if line == "add\n":
            added = cluster.add_node(**NODE)
        pids = descendants(added.all_processes["raylet"][0].process.pid)
        if line == "kill\n":
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        print(*pids, flush=True)


if __name__ == "__main__":
    main()
