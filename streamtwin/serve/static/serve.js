// The page's own part: sends what a person does, shows what the server says, plays the run. All numbers and drawings
// come from the server; what was changed is kept there, so a reload or another tab loses nothing.

import { at, listen, post, say } from "./shared.js";

const job = document.body.dataset.job;
const base = `/job/${encodeURIComponent(job)}`;

// what the server says -----------------------------------------------------------------------------------------------

const shown = new Map();
let film = { of: "", ends_s: [] }, asking = false, again = false, stroke = "", heard = true;

function replace(region, html) {
  const opened = new Map([...region.querySelectorAll("details")].map(each => [title(each), each.open]));
  const written = new Map([...region.querySelectorAll("form [name]")].map(each => [key(each), each]));
  const focus = region.contains(document.activeElement) ? document.activeElement.id : "";
  region.innerHTML = html;
  for (const each of region.querySelectorAll("details")) {
    if (opened.has(title(each))) each.open = opened.get(title(each));
  }
  for (const each of region.querySelectorAll("form [name]")) {
    const old = written.get(key(each));
    if (old && each.type === "checkbox") each.checked = old.checked;
    else if (old && each.type !== "hidden" && (each.tagName !== "SELECT" || [...each.options].some(o => o.value === old.value))) each.value = old.value;
  }
  if (focus && at(focus)) at(focus).focus();
}
const title = details => details.querySelector("summary").textContent;
const key = field => [...field.form.querySelectorAll("[type=hidden]")].map(each => each.value).join() + field.form.dataset.act + field.name;

function show(regions) {
  const next = JSON.parse(regions.film || "{}");
  if (next.of !== film.of) entire();
  film = { ends_s: [], ...next };
  at("moment").max = Math.max(0, film.ends_s.length - 1);
  at("moment").disabled = at("play").disabled = !film.ends_s.length;
  for (const [id, html] of Object.entries(regions)) {
    const region = at(id);
    if (!region || shown.get(id) === html || (id === "controls" && stroke)) continue;
    shown.set(id, html);
    if (id === "map" && moment !== null) continue;
    replace(region, html);
    if (id === "map") roomy();
  }
  cursor();
}

// A picture that would not fit beside the knobs gets the whole width.
function roomy() {
  const drawn = document.querySelector("#map svg"), columns = document.querySelector(".columns");
  if (drawn) columns.classList.toggle("wide", parseFloat(drawn.style.minWidth) > columns.clientWidth - 27 * 16);
}
addEventListener("resize", roomy);

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    do {
      again = false;
      const answer = await fetch(`${base}/view`);
      if (!answer.ok) throw new Error(await answer.text());
      const found = await answer.json();
      show(found.regions);
      connected(true);
      say(found.working ? "working …" : found.done < found.of ? `run ${found.done} of ${found.of} …` : "up to date");
      document.body.dataset.version = found.version;
      document.body.dataset.done = found.done === found.of;
    } while (again);
  } catch (error) {
    connected(false);
  } finally {
    asking = false;
  }
}

// What is shown is not up to date from the moment on that something is changed.
function pending() {
  say("asking …");
  document.body.dataset.done = false;
}

function connected(yes) {
  if (!yes) {
    say("no connection; trying again …");
    setTimeout(refresh, 1000);
  }
  heard = yes;
  document.body.classList.toggle("lost", !yes);
}

listen(name => { if (name === job) refresh(); }, () => { if (!heard) refresh(); }, () => connected(false));

// what a person does -------------------------------------------------------------------------------------------------

async function act(asked) {
  pending();
  const found = await post(`${base}/act`, asked);
  if (!found) connected(false);
  else if (found.wrong) shown.delete("controls");
  await refresh();
}

function valueOf(slider) {
  const low = Number(slider.dataset.low), high = Number(slider.dataset.high), share = slider.value / slider.max;
  if (slider.dataset.whole) return String(Math.round(low + share * (high - low)));
  const value = slider.dataset.log ? low * Math.pow(high / low, share) : low + share * (high - low);
  return String(Number(value.toPrecision(3)));
}

let later = 0;
function turn(slider, now) {
  const value = valueOf(slider);
  slider.parentElement.querySelector("input[type=text]").value = value;
  slider.setAttribute("aria-valuetext", value);
  clearTimeout(later);
  pending();
  stroke = stroke || Math.random().toString(36).slice(2);
  const send = { act: "knob", control: slider.dataset.control, value, stroke };
  if (now) { stroke = ""; act(send); } else later = setTimeout(() => act(send), 120);
}

document.addEventListener("input", event => {
  if (event.target.matches("[type=range][data-control]")) turn(event.target, false);
  if (event.target === at("moment")) { stop(); see(Number(event.target.value)); }
});
document.addEventListener("change", event => {
  const it = event.target;
  if (it.matches("[type=range][data-control]")) turn(it, true);
  else if (it.matches("[data-control]")) act({ act: "knob", control: it.dataset.control, value: it.value });
  else if (it.matches("select[data-act]")) act({ act: it.dataset.act, value: it.value });
});
document.addEventListener("submit", event => {
  event.preventDefault();
  const form = event.target;
  if (form.id === "go") { location.href = `/job/${encodeURIComponent(at("jobs").value)}`; return; }
  act({ act: form.dataset.act, ...Object.fromEntries(new FormData(form)) });
  if (["set", "keep"].includes(form.dataset.act)) form.reset();
});
document.addEventListener("click", async event => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.id === "play") return timer ? stop() : play();
  if (button.id === "entire") return entire(true);
  if (button.dataset.post) {
    await post(button.dataset.post, {});
    refresh();
  } else if (button.type === "button" && button.dataset.act) {
    act({ act: button.dataset.act, ...(button.dataset.at ? { at: button.dataset.at } : {}) });
  }
});
document.addEventListener("keydown", event => {
  const writing = event.target.matches("input:not([type=range]), textarea");
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && !writing) { event.preventDefault(); at("undo")?.click(); }
});

// dragging an operator to another host -------------------------------------------------------------------------------

let drag = null;
const laneAt = (x, y) => document.elementsFromPoint(x, y).map(each => each.closest("[data-lane]")).find(Boolean);
document.addEventListener("pointerdown", event => {
  const box = event.target.closest("#map [data-box]");
  if (!box || event.button) return;
  event.preventDefault();
  drag = { box, x: event.clientX, y: event.clientY, scale: box.ownerSVGElement.getScreenCTM().a };
});
document.addEventListener("touchstart", event => { // or a finger would scroll
  if (event.target.closest("#map [data-box]")) event.preventDefault();
}, { passive: false });
document.addEventListener("pointermove", event => {
  if (!drag) return;
  const by = [(event.clientX - drag.x) / drag.scale, (event.clientY - drag.y) / drag.scale];
  drag.box.setAttribute("transform", `translate(${by})`);
  for (const each of document.querySelectorAll("#map .over")) each.classList.remove("over");
  laneAt(event.clientX, event.clientY)?.classList.add("over");
});
function dropped() {
  const { box } = drag;
  drag = null;
  box.removeAttribute("transform");
  for (const each of document.querySelectorAll("#map .over")) each.classList.remove("over");
  return box;
}
document.addEventListener("pointercancel", () => { if (drag) dropped(); });
document.addEventListener("pointerup", event => {
  if (!drag) return;
  const box = dropped(), lane = laneAt(event.clientX, event.clientY)?.dataset.lane;
  if (lane && lane !== box.dataset.in) act({ act: "move", operators: box.dataset.box, start: box.dataset.in, end: lane });
});

// playing the run ----------------------------------------------------------------------------------------------------

const AHEAD = 6, STEP_MS = 100;
let moment = null, timer = null;
const pictures = new Map();

function picture(number) {
  const name = `${film.of}/${number}`;
  if (!pictures.has(name)) {
    if (pictures.size > 400) pictures.clear();
    const found = fetch(`${base}/moment/${number}?of=${encodeURIComponent(film.of)}`).then(answer => {
      if (!answer.ok) throw new Error(answer.statusText);
      return answer.json();
    });
    found.catch(() => pictures.delete(name));
    pictures.set(name, found);
  }
  return pictures.get(name);
}

async function see(number) {
  moment = number;
  at("moment").value = number;
  try {
    const found = await picture(number);
    if (moment !== number) return;
    at("map").innerHTML = found.picture;
    at("owned").innerHTML = found.owned;
    at("moment-told").textContent = found.told;
    at("moment").setAttribute("aria-valuetext", found.told);
    for (const each of document.querySelectorAll("input.moment")) each.value = Number(film.ends_s[number].toPrecision(4));
    cursor();
    for (let next = number + 1; next <= number + AHEAD && next < film.ends_s.length; next++) picture(next).catch(() => {});
  } catch (error) {
    entire(true);
  }
}

function cursor() {
  for (const each of document.querySelectorAll("#lines line.now")) each.remove();
  if (moment === null || !film.ends_s.length) return;
  const x = film.left + film.wide * Math.min(1, film.ends_s[moment] / film.end_s);
  for (const svg of document.querySelectorAll("#lines svg")) {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line"), foot = svg.viewBox.baseVal.height - film.foot;
    const places = { class: "now", x1: x, x2: x, y1: foot - film.high, y2: foot };
    for (const [name, value] of Object.entries(places)) line.setAttribute(name, value);
    svg.append(line);
  }
}

function entire(back) {
  stop();
  moment = null;
  at("owned").innerHTML = "";
  at("moment-told").textContent = "the means of the whole run";
  at("moment").value = 0;
  if (back && shown.has("map")) at("map").innerHTML = shown.get("map");
  cursor();
}

async function play() {
  const mine = timer = Symbol("playing");
  at("play").textContent = "❚❚ Pause";
  const first = moment === null || moment >= film.ends_s.length - 1 ? 0 : moment;
  for (let number = first; timer === mine && number < film.ends_s.length; number++) {
    await Promise.all([see(number), new Promise(done => setTimeout(done, STEP_MS))]);
  }
  if (timer === mine) stop();
}

function stop() {
  timer = null;
  if (at("play")) at("play").textContent = "▶ Play";
}

refresh();
