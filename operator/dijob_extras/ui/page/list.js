// The list of jobs, with search, filters and an order.

import { between, changes, duration, h, keyed, mark, say } from "./dom.js";
import { TOTALS } from "./place.js";
import { auth } from "./stream.js";

const HEAD = ["Job", "Phase", "Ready", "Progress", "Age"];
const PHASES = ["Running", "Starting", "Pending", "Suspended", "Succeeded", "Failed"];
const OVER = new Set(["Succeeded", "Failed"]);
// More rows would not help a reader, and would be slow.
const MOST_ROWS = 200;
const PROBLEM = "problem";
const MOST_NAMED = 3;
const newer = (a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0);
const ORDERS = {
  active: ["Active first", (a, b) => OVER.has(a.phase) - OVER.has(b.phase) || newer(a, b)],
  newest: ["Newest first", newer],
  name: ["Name", (a, b) => a.name.localeCompare(b.name) || a.namespace.localeCompare(b.namespace)],
  phase: ["Phase", (a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase) || newer(a, b)],
  restarts: ["Most failures", (a, b) => b.restarts - a.restarts || newer(a, b)],
  size: ["Largest", (a, b) => b.gpus - a.gpus || b.desired - a.desired || newer(a, b)],
};
// The choices are kept when the user opens a job and comes back.
const wish = { text: "", phase: "", namespace: "", owner: "", order: "active" };

export class List {
  /** Create the list of the jobs in a namespace; "" means those that the server shows. */
  constructor(namespace) {
    this.title = h("h1", { tabindex: -1 }, "Jobs");
    this.summary = h("p", { class: "lead", role: "status" }, "Loading.");
    this.body = h("tbody", { role: "rowgroup" });
    const head = h("tr", { role: "row" }, ...HEAD.map((text) => h("th", { scope: "col", role: "columnheader" }, text)));
    // On a phone, CSS shows each row as a card (display: grid). That removes the roles of a table,
    // so they are set explicitly.
    this.table = h("table", { class: "jobs", role: "table", hidden: true }, h("caption", { class: "unseen" }, "Jobs"), h("thead", { role: "rowgroup" }, head), this.body);
    this.search = h("input", { type: "search", placeholder: "Search names, commands, images, messages", "aria-label": "Search jobs" });
    this.search.value = wish.text;
    this.search.addEventListener("input", () => this.wish("text", this.search.value));
    this.selects = Object.fromEntries(["phase", "namespace", "owner", "order"].map((name) => [name, this.choice(name)]));
    this.tools = h("div", { class: "tools", role: "search" }, this.search, ...Object.values(this.selects));
    this.offer(this.selects.order, Object.entries(ORDERS).map(([name, [words]]) => [name, words]), "order");
    this.totals = h("p", { class: "lead", hidden: true }, h("a", { href: `#/${TOTALS}` }, "GPU hours and goodput by namespace"));
    const place = auth === "key" ? null : namespaceForm(namespace);
    this.element = h("div", { class: "view list" }, h("div", { class: "list-head" }, this.title, this.tools), place, this.summary, this.totals, this.table);
    this.options = changes((phases, namespaces, owners) => this.offerAll(phases, namespaces, owners));
    this.jobs = null; // until the first data arrives
    this.shown = [];
  }

  about({ everywhere }) {
    this.totals.hidden = !everywhere;
  }

  /** Say why the jobs are not shown. */
  refused(sentence, status) {
    const more = status === 403 ? " If you may list the jobs of a namespace, enter its name." : "";
    say(this.summary, `${sentence[0].toUpperCase()}${sentence.slice(1)}${/[.!?]$/.test(sentence) ? "" : "."}${more}`);
  }

  choice(name) {
    const select = h("select", { "aria-label": { phase: "Phase", namespace: "Namespace", owner: "Owner", order: "Order" }[name] });
    select.addEventListener("change", () => this.wish(name, select.value));
    return select;
  }

  wish(name, value) {
    wish[name] = value;
    this.draw();
  }

  show({ jobs, scope }) {
    this.jobs = jobs;
    this.scope = scope;
    const several = (key) => [...new Set(jobs.map((job) => job[key]))].filter(Boolean).sort();
    this.options(PHASES.filter((phase) => jobs.some((job) => job.phase === phase)), several("namespace"), several("owner"));
    this.draw();
  }

  offerAll(phases, namespaces, owners) {
    this.offer(this.selects.phase, [["", "All phases"], [PROBLEM, "With a problem"], ...phases.map((one) => [one, one])], "phase");
    this.offer(this.selects.namespace, [["", "All namespaces"], ...namespaces.map((one) => [one, one])], "namespace");
    this.offer(this.selects.owner, [["", "All owners"], ...owners.map((one) => [one, one])], "owner");
    this.selects.namespace.hidden = namespaces.length < 2;
    this.selects.owner.hidden = !owners.length;
  }

  offer(select, options, name) {
    select.replaceChildren(...options.map(([value, words]) => h("option", { value }, words)));
    // A choice whose jobs are gone no longer applies.
    if (!options.some(([value]) => value === wish[name])) wish[name] = "";
    select.value = wish[name];
  }

  draw() {
    const { jobs, scope } = this;
    // A user may search while the list is loading. The search applies when the data arrives.
    if (!jobs) return;
    const found = jobs.filter(matches).sort(ORDERS[wish.order][1]);
    this.shown = found.slice(0, MOST_ROWS);
    this.table.hidden = !found.length;
    this.tools.hidden = !jobs.length;
    mark(this.table, "data-one", scope.startsWith("namespace ") ? "" : null);
    const none = `No jobs in ${scope}. Create one with kubectl dijob run or apply; it appears here automatically.`;
    say(this.summary, jobs.length ? summary(jobs, found) : none);
    keyed(this.body, this.shown, (job) => `${job.namespace}/${job.name}`, make, update);
  }

  tick() {
    this.shown.forEach((job, at) => say(this.body.children[at].querySelector(".age"), age(job)));
  }
}

/** Create the form with which a user chooses the namespace of the list. */
function namespaceForm(namespace) {
  const input = h("input", { id: "namespace", autocomplete: "off", spellcheck: "false", placeholder: "all namespaces" });
  input.value = namespace;
  const form = h("form", { class: "place", "aria-label": "Namespace of the list" }, h("label", { for: "namespace" }, "Jobs of namespace"), input, h("button", { class: "button" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/${encodeURIComponent(input.value.trim())}`;
  });
  return form;
}

function matches(job) {
  if (wish.phase && (wish.phase === PROBLEM ? !["problem", "recovering"].includes(job.tone) : job.phase !== wish.phase)) return false;
  if (wish.namespace && job.namespace !== wish.namespace) return false;
  if (wish.owner && job.owner !== wish.owner) return false;
  const text = [job.name, job.namespace, job.owner, job.image, job.command, job.cause, job.message, job.progress].join(" ").toLowerCase();
  return wish.text.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function summary(jobs, found) {
  if (found.length < jobs.length) {
    const cut = found.length > MOST_ROWS ? `, of which the first ${MOST_ROWS} are listed` : "";
    return `${found.length} of ${count(jobs.length, "job")}${cut}.`;
  }
  const parts = PHASES.map((phase) => [phase, jobs.filter((job) => job.phase === phase)])
    .filter(([, those]) => those.length)
    .map(([phase, those]) => (phase === "Failed" ? failed(those) : `${those.length} ${phase.toLowerCase()}`));
  const wrong = jobs.filter((job) => job.tone === PROBLEM && !OVER.has(job.phase));
  const heal = jobs.filter((job) => job.tone === "recovering").length;
  const cut = jobs.length > MOST_ROWS ? ` The first ${MOST_ROWS} are listed.` : "";
  return `${count(jobs.length, "job")}: ${parts.join(", ")}${wrong.length ? `; ${troubled(wrong)}` : ""}${heal ? `; ${heal} recovering` : ""}.${cut}`;
}

/** Format the number of failed jobs, with their names if there are few. */
export function failed(jobs) {
  return `${jobs.length} failed${named(jobs)}`;
}

/** Format the number of active jobs with a problem, with their names if there are few. */
export function troubled(jobs) {
  return `${jobs.length} with a problem${named(jobs)}`;
}

/** Format the names of a few jobs, such as " (a, b)". On a phone, their rows are out of sight. */
function named(jobs) {
  return jobs.length > MOST_NAMED ? "" : ` (${jobs.map((job) => job.name).join(", ")})`;
}

/** Format a number with its noun, such as "2 ranks". */
export function count(many, noun) {
  return `${many} ${noun}${many === 1 ? "" : "s"}`;
}

function make(job) {
  const cell = (name, ...children) => h("td", { class: name, role: "cell" }, ...children);
  const link = h("a", { href: `#/${job.namespace}/${job.name}` }, job.name);
  return h(
    "tr",
    { role: "row" },
    h("th", { scope: "row", role: "rowheader", class: "name" }, link, h("span", { class: "namespace" }, job.namespace), h("p", { class: "facts" }), h("p", { class: "message" })),
    cell("phase", badge()),
    cell("ready", h("span", {}), h("span", { class: "meter", "aria-hidden": "true" }, h("i", {}))),
    cell("progress"),
    cell("age"),
  );
}

function update(row, job) {
  mark(row, "data-tone", job.tone);
  show(row.querySelector(".badge"), job);
  const facts = [job.owner, job.image, job.gpus && count(job.gpus, "GPU"), job.restarts && count(job.restarts, "failure")];
  say(row.querySelector(".facts"), facts.filter(Boolean).join(" · "));
  // The search also covers the command.
  mark(row.querySelector(".facts"), "title", job.command || null);
  say(row.querySelector(".message"), job.tone === "good" ? "" : job.cause || job.message);
  mark(row, "data-over", OVER.has(job.phase) ? "" : null);
  say(row.querySelector(".ready span"), OVER.has(job.phase) ? `${job.desired} ranks` : `${job.ready} of ${job.desired}`);
  row.querySelector(".meter i").style.width = `${job.desired ? Math.round((100 * job.ready) / job.desired) : 0}%`;
  say(row.querySelector(".progress"), job.progress);
  say(row.querySelector(".age"), age(job));
}

function age(job) {
  const old = duration(between(job.created));
  return job.ended ? `${old}, ran ${duration(between(job.created, job.ended))}` : old;
}

/** Create a badge, which shows a phase as a color, a shape and a word. */
export function badge() {
  return h("span", { class: "badge" }, h("i", { "aria-hidden": "true" }), h("b", {}));
}

/** Show a job's phase in a badge. */
export function show(element, job) {
  mark(element, "data-phase", job.phase);
  mark(element, "data-tone", job.tone);
  say(element.querySelector("b"), job.tone === "recovering" ? "Recovering" : job.phase);
}
