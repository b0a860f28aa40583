"""How long somebody waits for the page of `twin serve`: its first paint, and the answer to a slider.

Run: python -m benchmarks.served [NAME ...] [--picture FILE]. For each job of the library, in a headless browser: from
the navigation to the first contentful paint, and from the moment a slider of the rates is let go until the page shows
the run at the new rates. Where the machine does other work meanwhile, its load says how much. --picture: instead, a
screenshot of `failover` while a host is down, for docs/serve.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.simulator_speed import limit
from benchmarks.table import print_table
from scenarios.files import registry
from tests.streamtwin.browsing import Browser, Tab
from tests.streamtwin.serving import Served

PAINT_S, ANSWER_S = 1.5, 1.0
MOST_S = 60.0
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
ANSWERED = "document.querySelector('#answer .cost')"
SLIDE = """new Promise(done => {
  const slider = document.getElementById("slide-load"), before = Number(document.body.dataset.version);
  const cost = () => document.querySelector("#answer .cost");
  slider.value = Number(slider.value) - 3;
  const began = performance.now();
  for (const each of ["input", "change"]) slider.dispatchEvent(new Event(each, {bubbles: true}));
  const look = setInterval(() => {
    const waited = performance.now() - began;
    if ((Number(document.body.dataset.version) > before && cost()) || waited > 60000) {
      clearInterval(look);
      done(waited);
    }
  }, 5);
})"""


def seconds(tab: Tab) -> tuple[float, float]:
    """Time until the first paint, and until the answer to a slider [s]."""
    tab.until(f"({PAINTED}) && {ANSWERED}", MOST_S * 5)
    return tab.get(PAINTED) / 1000, tab.get(SLIDE) / 1000


def picture(browser: Browser, served: Served, file: Path) -> None:
    """Writes a screenshot of the page while a host is down, and of a change beside the run before."""
    assert served.act("failover", act="knob", control="subtasks per-page", value="6")[0] == 200
    tab = browser.tab(f"http://{served.host}/job/failover?token={served.token}", 1300, 860)
    tab.until("document.body.dataset.done === 'true' && !document.getElementById('play').disabled")
    tab.write("#moment", str(round(int(tab.get("document.getElementById('moment').max")) * 72 / 240)))
    tab.until("document.getElementById('moment-told').innerText.includes('failure')")
    tab.picture(file, whole=False)


def main() -> None:
    """Prints a line for each job, and the medians beside the limits."""
    asked = argparse.ArgumentParser()
    asked.add_argument("names", nargs="*", default=list(registry.names()))
    asked.add_argument("--picture", type=Path)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder))
        try:
            with Browser(Path(folder) / "browser") as browser:
                if given.picture is not None:
                    picture(browser, served, given.picture)
                    return
                rows = []
                for name in given.names:
                    tab = browser.tab(f"http://{served.host}/job/{name}?token={served.token}")
                    rows.append((name, *seconds(tab), os.getloadavg()[0]))
                    tab.call("Page.close")
        finally:
            served.process.kill()
    print_table("Waiting for the page", ("job", "first paint [s]", "answer [s]", "load"), rows)
    paints, answers = (np.array([row[column] for row in rows]) for column in (1, 2))
    limit("first paint, longest [s]", float(paints.max()), PAINT_S)
    limit("answer to a slider, median [s]", float(np.median(answers)), ANSWER_S)


if __name__ == "__main__":
    main()
