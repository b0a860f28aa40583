// The start page and those of kept answers: a job that a person brings is read here and sent, so that the server reads
// no files for a page. What is being imported is shown as it goes on, also by pages that did not ask for it.

import { at, listen, post, say } from "./shared.js";

async function brought(form) {
  const found = {};
  for (const field of form.querySelectorAll("[name]")) {
    const files = await Promise.all([...field.files || []].map(async each => [each.name, await each.text()]));
    if (field.multiple) found.answers = Object.fromEntries(files);
    else if (field.type === "file") [[found.file, found.text]] = files;
    else found[field.name] = field.value;
  }
  return found;
}

async function refresh() {
  const answer = await fetch("/view").catch(() => null);
  if (!answer?.ok) return;
  for (const [id, html] of Object.entries(await answer.json())) {
    const region = at(id), next = document.createElement("div"), focus = document.activeElement.id;
    next.innerHTML = html;
    if (next.innerHTML === region.innerHTML) continue;
    region.replaceChildren(...next.childNodes);
    if (focus) at(focus)?.focus();
  }
}
const starts = Boolean(at("importing"));
if (starts) listen(name => { if (!name) refresh(); }, refresh, () => {});

document.addEventListener("submit", async event => {
  event.preventDefault();
  const form = event.target;
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  say(form.querySelector("[name=window]") ? "importing …" : "opening …");
  const found = await post("/open", await brought(form));
  form.ariaBusy = "false";
  say("");
  if (found?.address) location.href = found.address;
});
document.addEventListener("click", async event => {
  const path = event.target.closest("[data-post]")?.dataset.post, found = path && await post(path, {});
  if (found && !found.wrong) starts ? refresh() : location.reload();
});
