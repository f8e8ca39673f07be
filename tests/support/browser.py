"""A headless Chromium, driven over a pipe by the DevTools protocol: no port, no package, no network.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = (
    "chromium",
    "chromium-headless-shell",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39}

_START = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 10) for number in sys.argv[1:3]]  # out of each other's way
for number, wanted in zip(high, (3, 4)):
    os.dup2(number, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from descriptor 3 and answers on 4."""


def find_browser() -> str | None:
    """The program, or None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab. Events that have come in are kept in `events`, as (method, parameters)."""

    def __init__(self, program: str, profile: Path, *, width: int = 1400, height: int = 900) -> None:
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
            "--disable-component-update", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
            f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(commands), str(answers), program, *options],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._number, self._read, self._session = 0, b"", ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the browser; again is harmless."""
        if self._process.poll() is None:
            # The whole group: the program may be a script that starts the browser and waits for it.
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            os.close(self._out)
            os.close(self._in)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer. Raises RuntimeError for a refusal, TimeoutError after 30 s of silence."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._next(30)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._read:
            if not select.select([self._in], [], [], seconds)[0]:
                raise TimeoutError(f"the browser said nothing for {seconds} s")
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._read += part
        text, _, self._read = self._read.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message.get("params", {})))
        return message

    def open(self, address: str) -> None:
        """Goes to `address` and waits for the load event."""
        seen = len(self.events)
        same = self.send("Page.navigate", url=address).get("loaderId") is None  # only the fragment is another
        while not same and not any(method == "Page.loadEventFired" for method, _ in self.events[seen:]):
            self._next(30)

    def reload(self) -> None:
        seen = len(self.events)
        self.send("Page.reload")
        while not any(method == "Page.loadEventFired" for method, _ in self.events[seen:]):
            self._next(30)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited. Raises RuntimeError where it throws."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 10) -> Any:
        """The first true value of `expression`. Raises AssertionError if it stays false."""
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"still not true after {seconds} s: {expression}"
            time.sleep(0.03)
        return value

    def press(self, key: str) -> None:
        """One key, as from a keyboard, to whatever has the focus."""
        about = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def size(self, width: int, height: int = 900, *, mobile: bool = False) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def media(self, **features: str) -> None:
        """``prefers_color_scheme="dark"``."""
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()],
        )

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """A PNG of the window, or of the whole page."""
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))
        return path

    @property
    def requests(self) -> list[str]:
        """The addresses of everything that was asked for."""
        return [p["request"]["url"] for method, p in self.events if method == "Network.requestWillBeSent"]

    @property
    def complaints(self) -> list[str]:
        """Exceptions, console errors and warnings, and what the content security policy refused."""
        said = []
        for method, p in self.events:
            if method == "Runtime.exceptionThrown":
                details = p["exceptionDetails"]
                said.append(details.get("exception", {}).get("description") or details["text"])
            if method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                said.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
            if method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                said.append(p["entry"]["text"])
        return said
