// Reads server-sent events with fetch. Unlike EventSource, it can send the key in a header, and it
// reports why a request was rejected.

const KEPT = "dijob-key";
const AGAIN_MS = 2000;
// The server sends something at least every 5 s.
const SILENT_MS = 16000;
let held = "";

/** Remove the key from the URL, so that it is not in the history or on the screen. Return whether there was one. */
export function takeKey() {
  const found = /^#token=([\w-]+)/.exec(location.hash);
  if (!found) return false;
  held = found[1];
  try {
    localStorage.setItem(KEPT, held);
  } catch {
    // Without storage, the key is valid for this tab only.
  }
  history.replaceState(null, "", "/#/");
  return true;
}

function key() {
  if (held) return held;
  try {
    return localStorage.getItem(KEPT) || "";
  } catch {
    return "";
  }
}

/** Request a path once, and return the response. */
export function load(path) {
  return fetch(path, { headers: { Authorization: `Bearer ${key()}` }, cache: "no-store" });
}

/**
 * Follow a stream until close() is called. `heard(event, data)` is called for each event, and
 * `link(state, sentence)` with the states live, lost and refused. The stream reconnects by itself,
 * unless it was refused, or `once` is set and it has ended.
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
    const headers = { Authorization: `Bearer ${key()}` };
    const answer = await fetch(path, { headers, signal: attempt.signal, cache: "no-store" });
    if (!answer.ok) {
      link("refused", await answer.text());
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
