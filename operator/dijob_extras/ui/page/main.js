// Chooses the view by the URL, and passes the server's events to it.

import { clock, mark, say } from "./dom.js";
import { JobView } from "./job.js";
import { List } from "./list.js";
import { PAST, PastJob, PastList } from "./past.js";
import { follow, takeKey } from "./stream.js";

const byId = (id) => document.getElementById(id);
const content = byId("content");
let view = null;
let stream = null;
let shown = "";
let heardAt = null;
let troubles = { link: "", cluster: "" };

function announce(text) {
  say(byId("said"), text);
}

/**
 * Parse the URL's fragment: empty for the list, NAMESPACE/NAME with an optional /log/RANK for a job,
 * PAST for the history, and PAST/NAMESPACE/NAME/UID for a job of the history.
 */
function place() {
  const [namespace, name, log, rank] = location.hash.replace(/^#\/?/, "").split("/");
  if (namespace === PAST) return { past: true, namespace: name, name: log, uid: rank };
  return name ? { namespace, name, rank: log === "log" && rank ? rank : null } : null;
}

function route() {
  // With a new key, all data is requested again.
  if (takeKey()) view = null;
  if (location.hash && !location.hash.startsWith("#/")) return;
  const at = place();
  const wanted = at ? [at.past && PAST, at.namespace, at.name, at.uid].filter(Boolean).join("/") : "";
  if (!view || wanted !== shown) open(at, wanted);
  if (at && !at.past) view.openLog(at.rank);
}

function open(at, wanted) {
  const first = !view;
  stream?.close();
  view?.close?.();
  shown = wanted;
  troubles.cluster = "";
  view = makeView(at);
  content.replaceChildren(view.element);
  document.title = at?.name ? `${at.name} – DIJobs` : at ? "History – DIJobs" : "DIJobs";
  const path = at?.past ? wanted.replace(PAST, "history") : at ? `jobs/${wanted}` : "jobs";
  stream = follow(`/api/${path}`, { heard, link });
  // After a link, screen readers should start at the heading of the new view.
  if (!first) view.title.focus();
}

function makeView(at) {
  if (at?.past) return at.name ? new PastJob(at.namespace, at.name) : new PastList();
  return at ? new JobView(at.namespace, at.name, announce) : new List();
}

function heard(event, data) {
  heardAt = new Date();
  if (event === "about") say(byId("scope"), `${data.scope} of ${data.cluster.replace(/^https?:\/\//, "")}`);
  else if (event === "trouble") troubles.cluster = data.sentence;
  else if (event === "gone") view.gone(data.sentence);
  else if (event === "spec") view.spec(data);
  else view.show(data);
  if (event === "job") document.title = `${data.phase}: ${data.name} – DIJobs`;
  tell();
}

const AWAY = "The command kubectl dijob ui does not respond: it has ended, or this machine was asleep. Start it again, and open the URL that it prints.";

function link(state, sentence) {
  troubles.link = { live: "", lost: AWAY, refused: sentence }[state];
  tell();
}

function tell() {
  const wrong = troubles.link || troubles.cluster;
  const box = byId("trouble");
  const old = heardAt && wrong ? ` The data is from ${clock(heardAt.toISOString())}.` : "";
  box.hidden = !wrong;
  say(box, wrong ? `${wrong[0].toUpperCase()}${wrong.slice(1)}${/[.!?]$/.test(wrong) ? "" : "."}${old}` : "");
  mark(byId("link"), "data-state", wrong ? "off" : "live");
  say(byId("link-words"), wrong ? "not live" : "live");
  mark(document.body, "data-stale", wrong ? "" : null);
}

addEventListener("hashchange", route);
setInterval(() => view?.tick(), 1000);
route();
