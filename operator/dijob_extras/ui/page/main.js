// Chooses the view from the URL, and passes the server's events to the view.

import { clock, mark, say } from "./dom.js";
import { JobView } from "./job.js";
import { List } from "./list.js";
import { Login } from "./login.js";
import { PastJob, PastList } from "./past.js";
import { place } from "./place.js";
import { auth, follow, keep, load, takeKey } from "./stream.js";
import { Totals } from "./totals.js";

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

function route() {
  // With a new key, all data is requested again.
  if (takeKey()) view = null;
  if (view instanceof Login || (location.hash && !location.hash.startsWith("#/"))) return;
  const at = place();
  if (!view || at.path !== shown) open(at);
  if (at.name && !at.past) view.openLog(at.rank);
}

function open(at) {
  exchange(makeView(at), at.path, at.name || (at.totals ? "GPU hours" : at.past ? "History" : ""));
  stream = follow(at.path, { heard, link });
}

function makeView(at) {
  if (at.past) return at.name ? new PastJob(at.namespace, at.name) : new PastList();
  if (at.totals) return new Totals();
  return at.name ? new JobView(at.namespace, at.name, announce) : new List(at.namespace);
}

/** Show another view. */
function exchange(made, path, title) {
  const first = !view;
  stream?.close();
  view?.close?.();
  shown = path;
  heardAt = null;
  troubles = { link: "", cluster: "" };
  view = made;
  content.replaceChildren(view.element);
  document.title = title ? `${title} – DIJobs` : "DIJobs";
  // After a link, screen readers should start at the heading of the new view.
  if (!first) view.title.focus();
}

function heard(event, data) {
  heardAt = new Date();
  if (event === "about") {
    say(byId("scope"), `${data.scope} of ${data.cluster.replace(/^https?:\/\//, "")}`);
    view.about?.(data);
  } else if (event === "trouble") troubles.cluster = data.sentence;
  else if (event === "gone") view.gone(data.sentence);
  else if (event === "spec") view.spec(data);
  else view.show(data);
  if (event === "job") document.title = `${data.phase}: ${data.name} – DIJobs`;
  tell();
}

const AWAY =
  auth === "key"
    ? "The command kubectl dijob ui does not respond: it has ended, or this machine was asleep. Start it again, and open the URL that it prints."
    : "The server of this page does not respond. The page tries to connect again.";

function link(state, sentence, status) {
  if (state === "refused" && status === 401 && auth === "token") return logIn(sentence);
  if (state === "refused" && view.refused) view.refused(sentence, status);
  troubles.link = { live: "", lost: AWAY, refused: sentence }[state];
  tell();
}

function tell() {
  const wrong = troubles.link || troubles.cluster;
  const box = byId("trouble");
  const old = heardAt && wrong ? ` The data is from ${clock(heardAt.toISOString())}.` : "";
  // The view itself explains why it is empty.
  box.hidden = !wrong || (wrong === troubles.link && view.refused && !heardAt);
  say(box, wrong ? `${wrong[0].toUpperCase()}${wrong.slice(1)}${/[.!?]$/.test(wrong) ? "" : "."}${old}` : "");
  mark(byId("link"), "data-state", wrong ? "off" : "live");
  say(byId("link-words"), wrong ? "not live" : "live");
  mark(document.body, "data-stale", wrong ? "" : null);
}

/** Show the form for a token. */
function logIn(why) {
  keep("");
  byId("user").hidden = true;
  say(byId("scope"), "");
  exchange(new Login(enter, why), "", "Log in");
  say(byId("link-words"), "not logged in");
  mark(byId("link"), "data-state", "off");
  byId("trouble").hidden = true;
  mark(document.body, "data-stale", null);
}

/** Show the page of a user. */
function enter(name) {
  byId("user").hidden = !name;
  byId("leave").hidden = auth !== "token";
  say(byId("user-name"), name);
  view = null;
  route();
}

/** Find out who the user is. The tab may still have a token, or a login proxy may name the user. */
async function start() {
  if (auth === "key") return route();
  const answer = await load("/api/me").catch(() => null);
  if (answer?.ok) return enter((await answer.json()).name);
  if (answer?.status === 401 && auth === "token") return logIn("");
  // Any other problem is reported by the first stream.
  return route();
}

byId("leave").addEventListener("click", () => logIn(""));
addEventListener("hashchange", route);
setInterval(() => view?.tick(), 1000);
start();
