"""A stand-in for W&B's server on 127.0.0.1: it takes runs that are online, and those that `wandb sync` sends.

    with WandbServer() as server:
        with server.login(): ...            # this process, and those it starts, find it and have a key
        server.runs["id"].history

It answers the few GraphQL operations that wandb 0.31 asks for, and takes the streams of history, summary and console,
and files. A GraphQL operation that it does not know gets an empty answer.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import wandb
from wandb.sdk.lib import wbauth

KEY = "k" * 40
_OF_ITS_TIME = {"_timestamp", "_runtime", "_wandb"}


@dataclass
class ServerRun:
    """What the server has of a run."""

    id: str
    about: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None

    @property
    def config(self) -> dict[str, Any]:
        given = json.loads(self.about.get("config") or "{}")
        return {name: value["value"] for name, value in given.items() if name != "_wandb"}

    @property
    def axes(self) -> dict[str, str]:
        """Which figure is drawn against which, as `define_metric` said."""
        metrics = json.loads(self.about["config"])["_wandb"]["value"].get("m", [])
        # Protocol buffers by number: 1 is the name, 5 the place of the axis in the list, counted from 1.
        return {metric["1"]: metrics[metric["5"] - 1]["1"] for metric in metrics if "5" in metric}


def lasting(value: Any) -> Any:
    """A row or a summary without what is another each time it is logged."""
    if not isinstance(value, dict):
        return value
    return {name: lasting(part) for name, part in value.items() if name not in _OF_ITS_TIME}


class WandbServer:
    """status: what every request is answered with, 200 where all is well; `refuse` sets it for one operation alone."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.refuse: dict[str, tuple[int, str]] = {}
        self.runs: dict[str, ServerRun] = {}
        self.views: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self._lock = threading.RLock()
        self._http: ThreadingHTTPServer | None = None
        self.port = 0

    def __enter__(self) -> WandbServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, after a `stop` on the same port."""
        self._http = _Http(("127.0.0.1", self.port), _Handler)
        self._http.stand_in = self  # type: ignore[attr-defined]
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Go away: connections are cut, new ones refused."""
        if self._http is not None:
            http, self._http = self._http, None
            http.shutdown()
            http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def login(self) -> Iterator[None]:
        """Environment of one who has a key for it."""
        with account(self.url):
            yield

    # -- what wandb asks ---------------------------------------------------------------------------------------

    def answer(self, name: str, given: dict[str, Any]) -> Any:
        with self._lock:
            self.asked.append(name)
            reply = getattr(self, f"_{name}", None)
            return reply(given) if reply else {}

    def _Viewer(self, given: dict[str, Any]) -> Any:
        who = {
            "id": "1",
            "entity": "tester",
            "username": "tester",
            "email": "",
            "admin": False,
            "flags": "{}",
        }
        return {"viewer": {**who, "teams": {"edges": []}}}

    def _GetDefaultEntity(self, given: dict[str, Any]) -> Any:
        return {"viewer": {"entity": "tester", "id": "1", "defaultEntity": {"name": "tester"}}}

    def _UpsertBucket(self, given: dict[str, Any]) -> Any:
        new = given["name"] not in self.runs
        run = self.runs.setdefault(given["name"], ServerRun(given["name"]))
        run.about |= {key: value for key, value in given.items() if value is not None}
        project = {"id": "2", "name": given.get("project"), "entity": {"id": "3", "name": "tester"}}
        bucket = {
            "id": run.id,
            "name": run.id,
            "displayName": run.about.get("displayName"),
            "project": project,
        }
        bucket |= {"description": None, "config": run.about.get("config"), "sweepName": None}
        return {"upsertBucket": {"inserted": new, "bucket": {**bucket, "historyLineCount": 0}}}

    def _CreateRunFiles(self, given: dict[str, Any]) -> Any:
        urls = [
            {"name": name, "uploadUrl": f"{self.url}/put/{given['run']}/{name}"} for name in given["files"]
        ]
        return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": urls}}

    def _ServerFeaturesQuery(self, given: dict[str, Any]) -> Any:
        return {"serverInfo": {"features": []}}

    def _UpsertView2(self, given: dict[str, Any]) -> Any:
        self.views.append(given)
        project = {"id": "2", "name": given.get("projectName"), "entityName": given.get("entityName")}
        view = {"id": "4", "type": "project-view", "name": "view", "description": None, "project": project}
        view |= {"displayName": given.get("displayName"), "spec": given.get("spec")}
        view |= {"createdAt": "2026-01-01T00:00:00", "updatedAt": "2026-01-01T00:00:00"}
        return {"upsertView": {"inserted": True, "view": view}}

    def stream(self, run_id: str, content: dict[str, Any]) -> None:
        """Lines of a run's files, each at its place."""
        with self._lock:
            run = self.runs[run_id]
            for name, part in (content.get("files") or {}).items():
                lines, start = part["content"], part["offset"]
                if name == "wandb-summary.json":
                    run.summary = json.loads(lines[-1])
                elif name == "wandb-history.jsonl":
                    run.history[start : start + len(lines)] = map(json.loads, lines)
            if content.get("complete"):
                run.exit_code = content.get("exitcode")


@contextlib.contextmanager
def account(url: str, key: str | None = KEY) -> Iterator[None]:
    """The environment of one whose W&B server is at `url`, with a key for it or, None, without."""
    _forget()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            patch.delenv(name)
        patch.setenv("WANDB_BASE_URL", url)
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        for name in ("WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "NETRC"):
            patch.setenv(name, f"{home}/{name.lower()}")
        patch.setenv("NO_PROXY", "127.0.0.1")
        if key is not None:
            patch.setenv("WANDB_API_KEY", key)
        yield
        _forget()


def _forget() -> None:
    """What wandb keeps of its environment from one run of a process to the next."""
    wandb.teardown()
    wbauth.unauthenticate_session(update_settings=False)


@contextlib.contextmanager
def silent_port() -> Iterator[str]:
    """The address of a server that lets one connect and never says a word."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def closed_port() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def sync(folder: Path, *options: str) -> str:
    """`wandb sync` of a folder; what it said."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "wandb", "sync", *options, str(folder)],
        cwd=folder,  # its own log goes there
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


RUNNING: list[WandbServer] = []
STOP = "+callbacks.stop._target_=support.wandb_server.StopServer"


class StopServer(pl.Callback):
    """Takes the server in `RUNNING` away, after the second step of the run with the seed 1; for a second, with 2."""

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == 2 and pl_module.init_seed in (1, 2):
            RUNNING[0].stop()
            if pl_module.init_seed == 2:
                threading.Timer(1.0, RUNNING[0].start).start()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._open: list[socket.socket] = []
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.append(request)
        super().process_request(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a connection that was cut


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def stand_in(self) -> WandbServer:
        return self.server.stand_in  # type: ignore[attr-defined]

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._reply(404, {})

    def do_PUT(self) -> None:
        content = self._content()
        if found := re.fullmatch(r"/put/([^/]+)/(.+)", self.path):
            self.stand_in.runs[found[1]].files[found[2]] = content
        self._reply(200, {})

    def do_POST(self) -> None:
        content, stand_in = json.loads(self._content() or b"{}"), self.stand_in
        if stand_in.status != 200:
            self._reply(stand_in.status, {"errors": [{"message": "user is not logged in"}]})
        elif self.path == "/graphql":
            name = re.search(r"(?:query|mutation)\s+(\w+)", content["query"])[1]  # type: ignore[index]
            if name in stand_in.refuse:
                status, message = stand_in.refuse[name]
                self._reply(status, {"errors": [{"message": message}]})
            else:
                self._reply(200, {"data": stand_in.answer(name, content.get("variables") or {})})
        elif found := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            stand_in.stream(found[1], content)
            self._reply(200, {"exitcode": None, "limits": {}})
        else:
            self._reply(404, {})

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content

    def _reply(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
