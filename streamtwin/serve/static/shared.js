// What all pages share: requests, words for the person, and buttons that copy.

export const at = id => document.getElementById(id);
export function say(words) { at("state").textContent = words; }
history.replaceState(null, "", location.pathname); // the token is in a cookie now

// Sends what a person does, and shows what the server says of it. The answer is null if it did not reach the server.
export async function post(path, asked) {
  let found = null;
  try {
    const answer = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked),
    });
    found = answer.headers.get("content-type").startsWith("application/json") ? await answer.json() : { wrong: await answer.text() };
  } catch (error) { /* null */ }
  const box = at("wrong");
  box.textContent = found ? found.wrong || found.said || "" : "This did not reach the server; is twin serve still running?";
  box.classList.toggle("said", Boolean(found && !found.wrong && found.said));
  if (found?.wrong) box.scrollIntoView({ block: "nearest" });
  return found;
}

document.addEventListener("click", async event => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const said = button.dataset.said ??= button.textContent; // a second press finds "Copied" there
  try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
  catch (error) { button.parentElement.querySelector("details").open = true; }
  setTimeout(() => { button.textContent = said; }, 1200);
});
