"""Chromium driven over a pipe, without any package: opens a file, asks the page, watches what it does."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = (
    "no Chromium: install it (Debian: apt-get install chromium fonts-noto-core fonts-noto-cjk), "
    "or name one in CHROMIUM"
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
)
ANSWER_SECONDS = 120.0


def found_chromium() -> str | None:
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class NoAnswer(Exception):
    """A browser that does not start, or died."""


class Browser:
    """One page. What it logs, throws and loads is kept."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._sent = 0
        self._left = b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], ANSWER_SECONDS)
            piece = os.read(self._read, 2**16) if ready else b""
            if not piece:
                raise NoAnswer("Chromium is silent or gone")
            self._left += piece
        message, self._left = self._left.split(b"\0", 1)
        return json.loads(message)

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Emulation.setEmulatedMedia", features=[theme])
        self.events.clear()
        self.ask("Page.navigate", url=path.absolute().as_uri())
        deadline = time.monotonic() + ANSWER_SECONDS
        while (
            self.evaluate("document.readyState") != "complete"
            or self.evaluate("location.protocol") != "file:"
        ):
            assert time.monotonic() < deadline, "the page does not load"

    def evaluate(self, script: str) -> Any:
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    @property
    def complaints(self) -> list[str]:
        """What a console would show in red, or at all."""
        self.evaluate("1")  # whatever came before it has come by then
        loud = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in loud]

    @property
    def loaded(self) -> list[str]:
        self.evaluate("1")
        requests = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in requests]

    def screenshot(self, path: Path, whole: bool = True) -> None:
        data = self.ask(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        path.write_bytes(base64.b64decode(data["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def pdf(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own under the folder."""
    command = found_chromium()
    assert command is not None, MISSING
    to_read, write = os.pipe()
    read, to_write = os.pipe()

    def as_expected() -> None:
        """Chromium reads commands from 3 and writes answers to 4."""
        os.dup2(to_read, 13)
        os.dup2(to_write, 14)
        os.dup2(13, 3)
        os.dup2(14, 4)

    process = subprocess.Popen(
        [command, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe", "about:blank"],
        preexec_fn=as_expected,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    try:
        yield Browser(write, read)
    finally:
        process.terminate()
        process.wait(timeout=30)
        os.close(read)
        os.close(write)
