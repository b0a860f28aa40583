// The start page and those of kept answers: a job that a person brings is read here and sent, so that the server reads
// no files for a page.

import { post, say } from "./shared.js";

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

document.addEventListener("submit", async event => {
  event.preventDefault();
  const form = event.target;
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  say(form.querySelector("[name=window]") ? "importing: the job is watched for a while …" : "opening …");
  const found = await post("/open", await brought(form));
  form.ariaBusy = "false";
  say("");
  if (found?.address) location.href = found.address;
});
document.addEventListener("click", async event => {
  const path = event.target.closest("[data-post]")?.dataset.post, found = path && await post(path, {});
  if (found && !found.wrong) location.reload();
});
