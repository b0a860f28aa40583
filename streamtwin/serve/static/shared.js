// What all pages share: requests, news from the server, words for the person, and buttons that copy.

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

// News from the server: names of jobs that have something new to see, or "" for the start page. One tab listens for
// all: a browser keeps few connections to a server open.
export function listen(news, opened, lost) {
  const channel = new BroadcastChannel("twin serve");
  channel.onmessage = message => news(message.data);
  function hear() {
    const source = new EventSource("/events");
    source.onmessage = message => { const name = JSON.parse(message.data); channel.postMessage(name); news(name); };
    source.onopen = opened;
    source.onerror = lost;
    return new Promise(() => {});
  }
  if (navigator.locks) navigator.locks.request("twin serve", hear); else hear();
}

document.addEventListener("click", async event => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const said = button.dataset.said ??= button.textContent; // a second press finds "Copied" there
  try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
  catch (error) { button.parentElement.querySelector("details").open = true; }
  setTimeout(() => { button.textContent = said; }, 1200);
});
