"""Checks of every page: well-formed, self-contained, readable in a browser at any width."""

from __future__ import annotations

import base64
import functools
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from html import escape
from pathlib import Path

import pytest

NEVER = ("script", "link", "iframe", "object", "embed", "base")
SVG = "http://www.w3.org/2000/svg"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")
FRAME = '<iframe width="{width}" height="800" srcdoc="{page}"></iframe>'
MEASURE = """
<script>
function look(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  const right = each => each.getBoundingClientRect().right;
  const free = [...page.querySelectorAll("body *")].filter(each => !each.closest(".scroll") && !each.closest("pre"));
  const words = [...page.querySelectorAll("svg text")];
  return {
    wide: root.scrollWidth, room: root.clientWidth, shown: page.body.innerText.length,
    outside: free.filter(each => right(each) > root.clientWidth + 1).map(each => each.outerHTML.slice(0, 90)),
    cut: words.filter(each => {
      const mine = each.getBoundingClientRect(), all = each.ownerSVGElement.getBoundingClientRect();
      return mine.right > all.right + 1 || mine.left < all.left - 1 || mine.top < all.top - 1;
    }).map(each => each.textContent),
    map: (page.querySelector(".map svg") || root).getBoundingClientRect().width,
    small: words.filter(each => each.getBoundingClientRect().height < 9).map(each => each.textContent),
    drawn: page.querySelectorAll("svg").length,
    loaded: frame.contentWindow.performance.getEntriesByType("resource").length,
  };
}
onload = () => {
  const found = JSON.stringify([...document.querySelectorAll("iframe")].map(look));
  document.body.innerHTML = "<pre id=found>" + btoa(unescape(encodeURIComponent(found))) + "</pre>";
};
</script>
"""


def whole(html: str) -> ET.Element:
    """Page, parsed strictly; asserts that nothing in it is fetched from elsewhere."""
    root = ET.fromstring(html)
    assert not [each.tag for each in root.iter() if each.tag.rpartition("}")[2] in NEVER]
    for each in root.iter():
        for name, value in each.attrib.items():
            assert name.rpartition("}")[2] not in ("href", "srcset", "action"), (each.tag, name)
            assert name != "src" or value.startswith("data:"), value[:80]
            assert not name.startswith("on")
    assert "@import" not in html and "url(" not in html
    assert set(re.findall(r"https?://[^\s\"<]+", html)) <= {SVG}
    return root


def words(root: ET.Element) -> str:
    """Text of a page that can be read."""
    return " ".join("".join(each.itertext()) for each in root.iter() if each.tag in ("body",))


@functools.cache
def browser() -> str:
    """Headless browser. Skips the test, saying so, where there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no headless browser on this machine (Debian, Ubuntu: apt install chromium)")
    return found


def measured(pages: Sequence[tuple[str, int]], folder: Path) -> list[dict]:
    """Sizes of each page as a browser lays it out at a width."""
    frames = (FRAME.format(width=width, page=escape(html)) for html, width in pages)
    harness = folder / "harness.html"
    harness.write_text(f"{''.join(frames)}{MEASURE}", encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000")
    command = [browser(), *flags, f"--user-data-dir={folder}/profile", "--dump-dom", harness.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    coded = re.search(r'<pre id="found">([^<]*)</pre>', done.stdout)
    assert coded, done.stdout[-500:]
    return json.loads(base64.b64decode(coded[1]))
