"""`twin serve` in a real browser, as a newcomer would use it. Skipped where there is no browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streamtwin.browsing import Browser, Tab
from tests.streamtwin.serving import Served

DONE = "document.body?.dataset.done === 'true' && document.getElementById('state')?.textContent === 'up to date'"
SEE = "document.querySelector('#answer .verdict').innerText"


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def library(chrome: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("serve")) as found:
        yield found


def opened(chrome: Browser, served: Served, job: str, width: int = 1400, dark: bool = False) -> Tab:
    tab = chrome.tab(f"http://{served.host}/job/{job}?token={served.token}", width, dark=dark)
    tab.until(DONE)
    return tab


def changed(tab: Tab, count: int) -> None:
    """Waits until so many changes are listed and answered."""
    tab.until(f"document.querySelectorAll('#changes ol li').length === {count}")
    tab.until(DONE)


def test_the_walk_of_a_newcomer(chrome: Browser, library: Served) -> None:
    """A newcomer goes from the list to a job that falls behind, a slider, undo, and the place where it falls behind."""
    tab = chrome.tab(library.address)
    tab.until("document.querySelector('.jobs a')")
    tab.get("[...document.querySelectorAll('.jobs a')].find(each => each.innerText === 'rush-hour-scaling').click()")
    tab.until("location.pathname === '/job/rush-hour-scaling' && document.readyState === 'complete'")
    tab.until(DONE)
    assert "token" not in tab.get("location.href")
    alone = tab.get(SEE)
    assert "does not keep up" in alone and "operator match" in alone
    tab.get("document.getElementById('slide-subtasks match').focus()")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    changed(tab, 2)
    assert tab.get(SEE) != alone
    assert "significant" in tab.text("#beside")
    assert tab.get("document.activeElement.id") == "slide-subtasks match"
    tab.press("z", modifiers=2)
    changed(tab, 1)
    tab.click("#undo")
    tab.until("document.querySelectorAll('#changes ol li').length === 0")
    assert tab.mistakes() == []


@pytest.mark.slow  # a proof takes dozens of runs
def test_how_much_a_job_bears_is_told_and_proved(chrome: Browser, library: Served) -> None:
    tab = opened(chrome, library, "rush-hour-scaling")
    tab.get("document.querySelector('.decide form').requestSubmit()")
    tab.until("document.querySelector('#work .progress')?.innerText.includes('by rates')")
    tab.until("document.querySelector('#work .verdict')")
    told = tab.text("#work")
    assert "operator match" in told and "largest while not backpressured" in told
    assert tab.mistakes() == []


def test_every_knob_is_answered_and_two_tabs_see_the_same(chrome: Browser, library: Served) -> None:
    """Each control of a small job is answered; another tab, and a reload, show the same changes at once."""
    tab = opened(chrome, library, "edge-filter")
    names = tab.get("[...document.querySelectorAll('.knob input[type=text]')].map(each => each.dataset.control)")
    assert len(names) > 8
    own = {"load": "1.5", "horizon_s": "60", "warmup_s": "5", "seed": "7"}
    for count, name in enumerate(names, 1):
        tab.write(f"input[type=text][data-control='{name}']", own.get(name, "1" if "subtasks" in name else "120"))
        tab.until(f"document.querySelectorAll('#changes ol li').length === {count}")
        assert tab.text("#wrong") == "", name
    other = opened(chrome, library, "edge-filter", 390)
    tab.click("#undo")
    for page in (tab, other):
        changed(page, count - 1)
    assert other.text("#answer").splitlines()[0] == tab.text("#answer").splitlines()[0]
    tab.call("Page.reload")
    tab.until(DONE)
    assert tab.get("document.querySelectorAll('#changes ol li').length") == count - 1
    for page in (tab, other):
        assert page.get("document.documentElement.scrollWidth <= innerWidth")
        assert page.mistakes() == []


@pytest.mark.slow  # a play is watched in its own time
def test_a_failure_is_played_and_a_box_is_dragged(chrome: Browser, library: Served) -> None:
    tab = opened(chrome, library, "failover")
    tab.get("[...document.querySelectorAll('#events summary')].find(each => each.innerText === 'Kill a host').click()")
    tab.get("document.querySelector('#events form select[name=host]').value = 'worker-1'")
    tab.write("#events form input[name=at_s]", "30")
    tab.get("document.querySelector('#events form').requestSubmit()")
    changed(tab, 1)
    tab.until("!document.getElementById('play').disabled")
    last = int(tab.get("document.getElementById('moment').max"))
    assert last > 50
    whole = tab.get("document.getElementById('map').innerHTML")
    tab.write("#moment", str(round(last * 36 / 240)))
    tab.until("document.getElementById('moment-told').innerText.includes('failure of worker-1')")
    assert tab.get("document.querySelectorAll('#lines line.now').length") == 5
    tab.click("#play")
    tab.until(f"Number(document.getElementById('moment').value) > {round(last * 45 / 240)}")
    tab.click("#entire")
    assert tab.get("document.getElementById('map').innerHTML") == whole
    for count, (drag, host) in enumerate(((tab.drag, "worker-3"), (tab.drag_by_touch, "worker-2")), 2):
        drag(tab.middle("#map [data-box=parse]"), tab.middle(f'#map [data-lane="{host}"]'))
        changed(tab, count)
        assert f"plan.placement.parse={{{host}: 2}}" in tab.text("#changes")
    assert tab.mistakes() == []


@pytest.mark.slow  # a search and ten runs
def test_a_plan_is_found_compared_and_taken(chrome: Browser, library: Served) -> None:
    tab = opened(chrome, library, "smart-grid")
    tab.get("[...document.querySelectorAll('.decide form')][1].requestSubmit()")
    tab.until("document.querySelector('#work button.main')")
    tab.until("document.querySelector('#work').innerText.includes('significant')")
    tab.click("#work button.main")
    changed(tab, 1)
    assert "The job keeps up" in tab.get(SEE)
    assert tab.mistakes() == []


@pytest.mark.slow  # a server is started twice
def test_what_fails_and_what_is_lost_is_said(chrome: Browser, tmp_path: Path) -> None:
    """A wrong value is named, and a server that goes away comes back with its changes."""
    served = Served(tmp_path, "edge-filter", "--state", "kept")
    tab = opened(chrome, served, "edge-filter")
    tab.write("#any", "run.horizon=60")
    tab.get("document.getElementById('any').form.requestSubmit()")
    tab.until("document.getElementById('wrong').innerText.includes(\"did you mean 'horizon_s'\")")
    tab.write("#any", "run.horizon_s=60")
    tab.get("document.getElementById('any').form.requestSubmit()")
    changed(tab, 1)
    assert tab.text("#wrong") == ""
    served.process.kill()
    served.process.communicate()
    tab.until("document.getElementById('state').innerText.includes('no connection')")
    with Served(tmp_path, "edge-filter", "--state", "kept", "--port", str(served.port)):
        tab.until(DONE)
        assert tab.get("document.querySelectorAll('#changes ol li').length") == 1
