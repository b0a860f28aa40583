"""`twin serve` by keyboard and for screen readers, in a real browser: what each page must keep to, in any colours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamtwin.report import run_page
from streamtwin.serve.keeping import KeptAnswers
from tests.scenarios.questions.jobs import shop
from tests.streamtwin.browsing import Browser, Tab
from tests.streamtwin.importers.flink_cluster import Cluster, serving
from tests.streamtwin.serving import JOB, Served
from twin.simulation import simulate

DONE = "document.body?.dataset.done === 'true' && document.getElementById('state')?.textContent === 'up to date'"
LEAST_PX = 24
"""Least height and width of what is pressed (WCAG 2.2, 2.5.8)."""
TAB = {"windowsVirtualKeyCode": 9}
ENTER = {"windowsVirtualKeyCode": 13, "text": "\r"}

STRUCTURE = """(() => {
  const shown = each => each.checkVisibility();
  const all = selector => [...document.querySelectorAll(selector)];
  const ids = all('[id]').map(each => each.id);
  return {
    levels: all('h1, h2, h3, h4, h5, h6').filter(shown).map(each => Number(each.tagName[1])),
    mains: all('main').length, language: document.documentElement.lang, title: document.title,
    twice: ids.filter((each, at) => ids.indexOf(each) !== at),
    pictures: all('img').filter(each => !each.hasAttribute('alt')).map(each => each.src),
    wide: document.documentElement.scrollWidth - innerWidth,
    small: all('button, select, input:not([type=hidden]), summary').filter(shown).filter(each => {
      const box = each.getBoundingClientRect();
      return box.width < LEAST || box.height < LEAST && each.tagName !== 'SUMMARY';
    }).map(each => each.outerHTML.slice(0, 120)),
  };
})()""".replace("LEAST", str(LEAST_PX))

CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [a * r + (1 - a) * x, a * g + (1 - a) * y, a * b + (1 - a) * z, 1];
  const light = colour => {
    const linear = each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4;
    const [r, g, b] = colour.map(each => linear(each / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + .05) / (low + .05);
  };
  const below = each => rgba(getComputedStyle(each).backgroundColor);
  const ground = each => each ? over(below(each), ground(each.parentElement)) : [255, 255, 255, 1];
  const found = [];
  const look = (each, style, words) => {
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const below = ground(each), is = ratio(over(rgba(style.color), below), below);
    if (is < (large ? 3 : 4.5)) found.push(`${is.toFixed(2)} ${words.trim().slice(0, 40)}`);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const each = node.parentElement;
    if (!node.data.trim() || !each.checkVisibility() || each.closest('svg, :disabled, option')) continue;
    look(each, getComputedStyle(each), node.data);
  }
  for (const each of document.querySelectorAll('input, select')) {
    if (!each.checkVisibility() || each.disabled) continue;
    look(each, getComputedStyle(each), each.value || 'field');
    if (each.placeholder) look(each, getComputedStyle(each, '::placeholder'), each.placeholder);
    const edge = getComputedStyle(each);
    if (each.type !== 'range' && parseFloat(edge.borderTopWidth)) {
      const below = ground(each.parentElement), is = ratio(over(rgba(edge.borderTopColor), below), below);
      if (is < 3) found.push(`${is.toFixed(2)} edge of ${each.name || each.id}`);
    }
  }
  return found;
})()"""

TABBABLE = """(() => {
  const fields = 'button:not(:disabled), input:not([type=hidden]):not(:disabled), select, summary';
  const wanted = `a[href], [tabindex="0"], ${fields}`;
  const listed = [...document.querySelectorAll(wanted)].filter(each => each.checkVisibility() && !each.closest('svg'));
  listed.forEach((each, at) => { each.dataset.stop = at; });
  return listed.map(each => each.outerHTML.slice(0, 100));
})()"""
FOCUSED = """(() => {
  const each = document.activeElement;
  if (!each || each === document.body) return null;
  const style = getComputedStyle(each), box = each.getBoundingClientRect();
  const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  const bar = document.querySelector('header').getBoundingClientRect().bottom;
  const inside = each.closest('header') || (box.bottom > bar && box.top < innerHeight);
  return { stop: each.dataset.stop ?? null, seen, inside: Boolean(inside), what: each.outerHTML.slice(0, 100) };
})()"""


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of the library, with a job that was asked about, two kept answers, and a change that does not run."""
    found = Served(tmp_path_factory.mktemp("serve"), "--state", "kept")
    for name, rate in (("as it is", "800"), ("half", "400")):
        assert found.act(act="set", text=f"workload.arrivals.sensors.rate_per_s={rate}")[0] == 200
        found.settled()
        assert found.act(act="keep", what="run", name=name)[0] == 200
    assert found.act(act="event", kind="slow-down", host="edge-1", at_s="30", factor="2")[0] == 200
    found.settled()
    yield found
    found.process.kill()
    found.process.communicate()


def pages(served: Served) -> dict[str, str]:
    """Paths of a page of each kind."""
    first, second = KeptAnswers(served.state)
    return {"start": "/", "job": f"/job/{JOB}", "kept": f"/kept/{first}", "beside": f"/kept/{first}/{second}"}


def opened(chrome: Browser, served: Served, page: str, width: int = 1300, dark: bool = False) -> Tab:
    """Page with all that is folded opened."""
    tab = chrome.tab(f"http://{served.host}{pages(served)[page]}?token={served.token}", width, dark=dark)
    tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
    if page == "job":
        tab.until(DONE)
    tab.get("for (const each of document.querySelectorAll('details')) each.open = true")
    return tab


PAGES = ("start", "job", "kept", "beside")


def nodes(tab: Tab) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields what a screen reader is given: role, name and properties of each part that is not ignored."""
    tab.call("Accessibility.enable")
    for node in tab.call("Accessibility.getFullAXTree")["nodes"]:
        if not node["ignored"]:
            properties = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
            yield node["role"]["value"], node.get("name", {}).get("value", "").strip(), properties


@pytest.mark.parametrize("page", PAGES)
def test_a_screen_reader_says_what_each_control_is(chrome: Browser, served: Served, page: str) -> None:
    tab = opened(chrome, served, page)
    listed = list(nodes(tab))
    used = [(role, name) for role, name, about in listed if about.get("focusable") and role != "RootWebArea"]
    assert len(used) > 3
    assert not [role for role, name in used if not name or role in ("generic", "none")]
    alone = [name for role, name in used if role in ("button", "textbox", "spinbutton", "combobox")]
    assert not [name for name in alone if name in ("×", "Go", "")]
    assert tab.mistakes() == []


@pytest.mark.parametrize("width", [1300, 400])
@pytest.mark.parametrize("page", PAGES)
def test_headings_are_in_order_and_nothing_is_too_small_or_beside_the_page(
    chrome: Browser, served: Served, page: str, width: int
) -> None:
    found = opened(chrome, served, page, width).get(STRUCTURE)
    levels = found["levels"]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert found["mains"] == 1 and found["language"] == "en" and found["title"]
    assert found["twice"] == found["pictures"] == found["small"] == []
    assert found["wide"] <= 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_words_and_edges_stand_out_from_what_is_below_them(
    chrome: Browser, served: Served, page: str, dark: bool
) -> None:
    assert opened(chrome, served, page, dark=dark).get(CONTRAST) == []


def test_what_would_not_stand_out_is_found(chrome: Browser, served: Served) -> None:
    tab = opened(chrome, served, "start")
    tab.get("document.querySelector('h1').style.color = '#bbb'")
    assert any("What would" in each for each in tab.get(CONTRAST))


@pytest.mark.parametrize("page", PAGES)
def test_all_is_reached_by_tab_and_the_place_is_seen(chrome: Browser, served: Served, page: str) -> None:
    tab = opened(chrome, served, page)
    wanted = tab.get(TABBABLE)
    reached = set()
    for _ in range(2 * len(wanted) + 10):
        tab.press("Tab", **TAB)
        found = tab.get(FOCUSED)
        if found is None or found["stop"] in reached:
            if reached:
                break
            continue
        assert found["seen"] and found["inside"], found["what"]
        if found["stop"] is not None:
            reached.add(found["stop"])
    assert not [what for number, what in enumerate(wanted) if str(number) not in reached]


def test_an_answer_is_kept_and_forgotten_by_keyboard(chrome: Browser, served: Served) -> None:
    tab = opened(chrome, served, "job")
    tab.get("document.getElementById('keep-run').focus()")
    tab.call("Input.insertText", text="by hand")
    tab.press("Enter", **ENTER)
    kept = "[...document.querySelectorAll('#kept li a')].some(each => each.innerText === 'by hand')"
    tab.until(kept)
    tab.get("document.querySelector('[aria-label=\"forget by hand\"]').focus()")
    tab.press("Enter", **ENTER)
    tab.until(f"!{kept}")
    assert tab.mistakes() == []


def test_a_button_that_is_pressed_twice_has_its_words_again(chrome: Browser, served: Served) -> None:
    tab, button = opened(chrome, served, "job"), "document.querySelector('[data-copy]')"
    tab.get("navigator.clipboard.writeText = async () => {}; window.later = []; setTimeout = act => later.push(act)")
    said = tab.get(f"{button}.textContent")
    for count in (1, 2):
        tab.get(f"{button}.click()")
        tab.until(f"{button}.textContent === 'Copied' && later.length >= {count}")
    tab.get("later.forEach(act => act())")
    assert tab.get(f"{button}.textContent") == said


def test_a_file_is_opened_in_the_browser_and_a_wrong_one_is_named(
    chrome: Browser, served: Served, tmp_path: Path
) -> None:
    tab = chrome.tab(served.address)
    good, wrong = tmp_path / "my job.yaml", tmp_path / "wrong.yaml"
    good.write_bytes(served_text(served))
    wrong.write_text("name: x\nquery: 3\n")
    named = "document.getElementById('wrong').innerText.includes('query')"
    for file, wanted in ((wrong, named), (good, "document.querySelector('h1')?.innerText === 'my-job'")):
        root = tab.call("DOM.getDocument")["root"]["nodeId"]
        node = tab.call("DOM.querySelector", nodeId=root, selector="input[name=file]")["nodeId"]
        tab.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])
        tab.get("document.querySelector('input[name=file]').form.requestSubmit()")
        tab.until(wanted)


def test_an_import_is_watched_and_stopped_by_keyboard(chrome: Browser, served: Served) -> None:
    """Its lines come by themselves, also to a page that did not ask for it, and take nobody's place away."""
    tab, other = opened(chrome, served, "start"), opened(chrome, served, "start")
    lines = "document.querySelector('#importing pre')?.innerText"
    with serving(Cluster()) as url:
        tab.get(
            "const form = document.querySelector('[name=window]').form; form.elements.window.value = 60;"
            f"form.elements.url.value = '{url}'; form.requestSubmit()"
        )
        other.until("document.querySelector('#importing button')")
        other.get("document.querySelector('#importing button').focus()")
        other.until(f"{lines}?.includes('watching') && {lines}.includes('of 120 answers')")
        assert other.get(CONTRAST) == [] and other.get(STRUCTURE)["small"] == []
        assert other.get("document.activeElement.innerText") == "Stop"
        other.press("Enter", **ENTER)
        tab.until("document.getElementById('wrong').innerText.includes('nothing of it is kept')")
        for each in (tab, other):
            each.until("document.getElementById('importing').innerText === ''")
        assert other.mistakes() == []


def served_text(served: Served) -> bytes:
    """A scenario file, as a person has it."""
    assert served.act(act="save", file="mine.yaml")[0] == 200
    return (served.state.parent / "mine.yaml").read_bytes()


@pytest.mark.parametrize("page", PAGES)
def test_paper_is_white_whatever_the_screen_is(chrome: Browser, served: Served, page: str) -> None:
    tab = opened(chrome, served, page, dark=True)
    assert tab.get("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.call("Emulation.setEmulatedMedia", media="print", features=dark)
    assert tab.get("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.get("[...document.querySelectorAll('svg, img')].every(each => getComputedStyle(each).filter === 'none')")
    assert not tab.get("[...document.querySelectorAll('button, form, header')].some(each => each.checkVisibility())")
    assert tab.get(CONTRAST) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_reports_keep_to_the_same(chrome: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    job = shop()
    file = tmp_path / "report.html"
    file.write_text(run_page(job.name, job, simulate(job)))
    tab = chrome.tab(file.as_uri(), width, dark=dark)
    found = tab.get(STRUCTURE)
    assert found["levels"][0] == 1 and set(found["levels"][1:]) == {2} and found["mains"] == 1
    assert found["twice"] == found["pictures"] == found["small"] == [] and found["wide"] <= 0
    assert tab.get(CONTRAST) == []
    assert all(name for _, name, about in nodes(tab) if about.get("focusable"))
