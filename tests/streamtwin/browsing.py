"""Real browser, headless, driven by its own protocol over two pipes; needs nothing but the browser."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.streamtwin.report_checks import browser

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--mute-audio",
)  # fmt: skip
PATIENCE_S = 60.0


class Browser:
    """Browser with tabs, a context manager."""

    def __init__(self, folder: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def wired() -> None:
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        command = [browser(), *FLAGS, f"--user-data-dir={folder}"]
        quiet = subprocess.DEVNULL
        self._folder = folder
        self._process = subprocess.Popen(
            command, preexec_fn=wired, pass_fds=(3, 4), stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers, self._rest = itertools.count(1), b""
        self.heard: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Result of a command of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                return found["result"]
            self.heard.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser is gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def tab(self, address: str, width: int = 1400, height: int = 1000, dark: bool = False) -> Tab:
        """New tab that has loaded the address."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        tab.call("Emulation.setEmulatedMedia", features=scheme)
        tab.call("Page.navigate", url=address)
        tab.until("document.readyState === 'complete' && location.href !== 'about:blank'")
        return tab

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)


class Tab:
    """Page in a browser."""

    def __init__(self, whole: Browser, session: str) -> None:
        self._browser, self._session = whole, session

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def get(self, expression: str) -> Any:
        """Value of an expression."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, patience_s: float = PATIENCE_S) -> Any:
        """Waits until an expression is true."""
        ends_s = time.monotonic() + patience_s
        while not (found := self.get(f"Boolean({expression})")):
            assert time.monotonic() < ends_s, (
                f"not within {patience_s} s: {expression}; page: {self.text('body')[:2000]}"
            )
            time.sleep(0.02)
        return found

    def text(self, selector: str) -> str:
        return str(self.get(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Clicks on an element, which must be there."""
        self.get(f"document.querySelector({json.dumps(selector)}).click()")

    def write(self, selector: str, value: str) -> None:
        """Writes into a field, then leaves it."""
        self.get(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.value = {json.dumps(value)};"
            "for (const each of ['input', 'change']) it.dispatchEvent(new Event(each, {bubbles: true})); })()"
        )

    def press(self, key: str, **more: Any) -> None:
        """Sends a key, as a keyboard does."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)

    def middle(self, selector: str) -> tuple[float, float]:
        """Middle of an element, in the window."""
        found = f"document.querySelector({json.dumps(selector)})"
        x, y = self.get(
            f"(() => {{ {found}.scrollIntoView({{block: 'nearest'}}); const box = {found}.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return float(x), float(y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags with the mouse."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            buttons = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=1, **buttons)

    def drag_by_touch(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags with a finger."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        between = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        for kind, points in (("touchStart", [start]), ("touchMove", [between]), ("touchMove", [end]), ("touchEnd", [])):
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in points])

    def picture(self, file: Path, whole: bool = True) -> None:
        """Writes a screenshot."""
        coded = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            coded = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        file.write_bytes(base64.b64decode(coded))

    def mistakes(self) -> list[str]:
        """Complaints of the browser: exceptions, refusals by the content security policy, failed loads."""
        heard = [each for each in self._browser.heard if each.get("sessionId") == self._session]
        found = [
            str(each["params"]["exceptionDetails"]) for each in heard if each["method"] == "Runtime.exceptionThrown"
        ]
        entries = [each["params"]["entry"] for each in heard if each["method"] == "Log.entryAdded"]
        return found + [f"{each['text']} {each.get('url', '')}" for each in entries if each["level"] == "error"]
