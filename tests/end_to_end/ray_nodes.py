"""A Ray cluster of two nodes on loopback, one CPU each, for as long as stdin is open; a line kills the second node.

Prints the address of the cluster and the second node's process ids before and after that.
"""

import os
import signal
import sys
from pathlib import Path

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # 127.0.0.1
os.environ["RAY_TMPDIR"] = sys.argv[1]  # else Ray writes its address where every user's "auto" finds it

from ray.cluster_utils import Cluster  # noqa: E402

HEALTH = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 300, "health_check_failure_threshold": 2}
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


def descendants(pid: int) -> list[int]:
    """The process ids of a process and all that it started."""
    children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [pid, *(one for child in children for one in descendants(int(child)))]


def main() -> None:
    """See the module."""
    cluster = Cluster(initialize_head=True, shutdown_at_exit=True, head_node_args=NODE | {"_system_config": HEALTH})
    second = cluster.add_node(**NODE)
    print(cluster.address, flush=True)
    for _ in sys.stdin:
        for process in second.all_processes["raylet"]:
            for pid in descendants(process.process.pid):
                os.kill(pid, signal.SIGKILL)
        print("killed", flush=True)


if __name__ == "__main__":
    main()
