"""Servers of object stores: moto, which the tests bring along, and those that people run, where they are installed.

Nothing is downloaded. `OMNIGRAPH_MINIO`, `OMNIGRAPH_FAKE_GCS` and `OMNIGRAPH_AZURITE` name programs that are not on the
path.
"""

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from email.utils import formatdate

from tests.stores import BUCKET, Options, moto_server

_PATIENCE = 60.0
_AZURE_ACCOUNT = "devstoreaccount1"
# Every installation of Azurite has this account and key.
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class NotInstalled(Exception):
    """A server that is not there; says what is missing."""


@dataclass(frozen=True, slots=True)
class Store:
    """A store that answers: what graphs in it begin with, the options that reach it, how wrong a clock it accepts."""

    prefix: str
    options: Options
    skew: int = 3600

    def new_uri(self) -> str:
        """A place in it that nobody else knows."""
        return f"{self.prefix}/{uuid.uuid4().hex}"


@contextmanager
def moto() -> Iterator[Store]:
    """The S3-compatible server that is one of the tests' dependencies."""
    with moto_server() as options:
        yield Store(f"s3://{BUCKET}", options)


@contextmanager
def minio() -> Iterator[Store]:
    """MinIO, which refuses requests whose time is more than a quarter of an hour off."""
    user, secret = "omnigraph", "omnigraph-secret"
    environment = {"MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": secret, "MINIO_UPDATE": "off"}
    program = _program("minio", "OMNIGRAPH_MINIO")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/{BUCKET}")  # noqa: PTH102 - a folder of its disk is a bucket
        with _served(
            lambda port: [program, "server", folder, "--address", f"127.0.0.1:{port}", "--quiet"],
            "/minio/health/ready",
            environment,
        ) as endpoint:
            options = {
                "aws_endpoint": endpoint,
                "allow_http": "true",
                "aws_region": "us-east-1",
                "aws_access_key_id": user,
                "aws_secret_access_key": secret,
            }
            yield Store(f"s3://{BUCKET}", options, skew=600)


@contextmanager
def fake_gcs() -> Iterator[Store]:
    """fake-gcs-server, in place of Google Cloud Storage."""
    program = _program("fake-gcs-server", "OMNIGRAPH_FAKE_GCS")
    with _served(
        lambda port: [
            program,
            *("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"),
            *("-public-host", f"127.0.0.1:{port}", "-external-url", f"http://127.0.0.1:{port}", "-log-level", "error"),
        ],
        "/storage/v1/b",
        {},
    ) as endpoint:
        body = json.dumps({"name": BUCKET}).encode()
        _ask(f"{endpoint}/storage/v1/b?project=tests", "POST", body, {"Content-Type": "application/json"})
        key = {
            "gcs_base_url": endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        yield Store(f"gs://{BUCKET}", {"google_service_account_key": json.dumps(key), "allow_http": "true"})


@contextmanager
def azurite() -> Iterator[Store]:
    """Azurite, in place of Azure Blob Storage."""
    program = _program("azurite-blob", "OMNIGRAPH_AZURITE")
    with (
        tempfile.TemporaryDirectory() as folder,
        _served(
            lambda port: [
                program,
                *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder),
                *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
            ],
            f"/{_AZURE_ACCOUNT}?comp=list",
            {},
        ) as endpoint,
    ):
        _create_container(endpoint)
        options = {
            "azure_storage_account_name": _AZURE_ACCOUNT,
            "azure_storage_account_key": _AZURE_KEY,
            "azure_endpoint": f"{endpoint}/{_AZURE_ACCOUNT}",
            "allow_http": "true",
        }
        yield Store(f"az://{BUCKET}", options)


SERVERS: dict[str, Callable[[], AbstractContextManager[Store]]] = {
    "moto": moto,
    "minio": minio,
    "fake-gcs": fake_gcs,
    "azurite": azurite,
}


def _program(name: str, variable: str) -> str:
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        raise NotInstalled(f"{name} is not installed: it is not on the path, and {variable} does not name it")
    return found


@contextmanager
def _served(command: Callable[[int], list[str]], ready: str, environment: dict[str, str]) -> Iterator[str]:
    """Where a server answers; it is ended at the end of the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command(port),
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            deadline = time.monotonic() + _PATIENCE
            while not _answers(f"{endpoint}{ready}"):
                assert server.poll() is None, f"the server ended with {server.returncode}"
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.1)
            yield endpoint
        finally:
            server.terminate()


def _answers(url: str) -> bool:
    """Whether something answers there; that it refuses an unsigned request is an answer too."""
    try:
        _ask(url, "GET")
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True


def _ask(url: str, method: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> None:
    request = urllib.request.Request(url, body, headers or {}, method=method)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310
        pass


def _create_container(endpoint: str) -> None:
    """A container, through a request that is signed as Azure wants it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    resource = f"/{_AZURE_ACCOUNT}/{_AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + named + resource
    signed = hmac.new(base64.b64decode(_AZURE_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {_AZURE_ACCOUNT}:{base64.b64encode(signed).decode()}"
    _ask(f"{endpoint}/{_AZURE_ACCOUNT}/{BUCKET}?restype=container", "PUT", None, headers)
