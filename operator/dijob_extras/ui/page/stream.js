// Reads server-sent events with fetch. Unlike EventSource, it can send the key in a header, and it
// reports why a request was rejected.

// How the user authenticates: with the key of `kubectl dijob ui`, or in a cluster, with a token of the
// cluster or through a login proxy.
export const auth = document.body.dataset.auth;
const KEPT = "dijob-key";
const AGAIN_MS = 2000;
// The server sends something at least every 5 s.
const SILENT_MS = 16000;
let held = "";

/** Remove the key from the URL, so that it is not in the history or on the screen. Return whether there was one. */
export function takeKey() {
  // In a cluster, a link must not log a user in as a different user.
  const found = auth === "key" && /^#token=([\w-]+)/.exec(location.hash);
  if (!found) return false;
  keep(found[1]);
  history.replaceState(null, "", "/#/");
  return true;
}

/** A user's token is kept only for this tab. The key is kept for all tabs, because it becomes invalid when the command exits. */
function storage() {
  return auth === "token" ? sessionStorage : localStorage;
}

/** Keep the key or the token, or forget it (""). */
export function keep(secret) {
  held = secret;
  try {
    if (secret) storage().setItem(KEPT, secret);
    else storage().removeItem(KEPT);
  } catch {
    // If the browser allows no storage, the secret is kept until the tab is reloaded.
  }
}

function headers() {
  try {
    held ||= storage().getItem(KEPT) || "";
  } catch {
    // The browser allows no storage.
  }
  return held ? { Authorization: `Bearer ${held}` } : {};
}

/** Request a path once, and return the response. */
export function load(path) {
  return fetch(path, { headers: headers(), cache: "no-store" });
}

/**
 * Follow a stream until close() is called. `heard(event, data)` is called for each event, and
 * `link(state, sentence, status)` with the states live, lost and refused. The stream reconnects by
 * itself. It does not reconnect if it was refused, or if `once` is set and it has ended.
 */
export function follow(path, { heard, link, once = false }) {
  const whole = new AbortController();
  run(path, whole.signal, { heard, link, once });
  return { close: () => whole.abort() };
}

async function run(path, signal, { heard, link, once }) {
  while (!signal.aborted) {
    try {
      const ended = await read(path, signal, heard, link);
      if (ended === "refused" || (once && ended === "whole")) return;
    } catch {
      if (signal.aborted) return;
    }
    link("lost", "");
    await new Promise((next) => setTimeout(next, AGAIN_MS));
  }
}

async function read(path, signal, heard, link) {
  const attempt = new AbortController();
  const stop = () => attempt.abort();
  signal.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENT_MS);
  try {
    const answer = await fetch(path, { headers: headers(), signal: attempt.signal, cache: "no-store" });
    if (!answer.ok) {
      link("refused", await answer.text(), answer.status);
      return "refused";
    }
    link("live", "");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let left = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "whole";
      clearTimeout(timer);
      timer = setTimeout(stop, SILENT_MS);
      const frames = (left + value).split("\n\n");
      left = frames.pop();
      for (const frame of frames) take(frame, heard);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

function take(frame, heard) {
  const found = /^event: (\w+)\ndata: (.*)$/.exec(frame);
  if (found) heard(found[1], JSON.parse(found[2]));
}
