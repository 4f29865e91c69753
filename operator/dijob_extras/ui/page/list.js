// The list of jobs.

import { between, duration, h, keyed, mark, say } from "./dom.js";

const HEAD = ["Job", "Phase", "Ready", "Progress", "Age"];
const OVER = new Set(["Succeeded", "Failed"]);

export class List {
  constructor() {
    this.title = h("h1", { tabindex: -1 }, "Jobs");
    this.summary = h("p", { class: "lead" }, "Loading.");
    this.body = h("tbody", { role: "rowgroup" });
    const head = h("tr", { role: "row" }, ...HEAD.map((text) => h("th", { scope: "col", role: "columnheader" }, text)));
    // On a phone, CSS shows each row as a card (display: grid). That removes the roles of a table,
    // so they are set explicitly.
    this.table = h("table", { class: "jobs", role: "table", hidden: true }, h("caption", { class: "unseen" }, "Jobs, newest first"), h("thead", { role: "rowgroup" }, head), this.body);
    this.element = h("div", { class: "view list" }, this.title, this.summary, this.table);
    this.jobs = [];
  }

  show({ jobs, scope }) {
    this.jobs = [...jobs].sort((a, b) => OVER.has(a.phase) - OVER.has(b.phase) || (a.created < b.created ? 1 : -1));
    this.table.hidden = !jobs.length;
    mark(this.table, "data-one", scope.startsWith("namespace ") ? "" : null);
    say(this.summary, jobs.length ? summary(jobs) : `No jobs in ${scope}. Create one with kubectl dijob run or apply; it appears here automatically.`);
    keyed(this.body, this.jobs, (job) => `${job.namespace}/${job.name}`, make, update);
  }

  tick() {
    this.jobs.forEach((job, at) => say(this.body.children[at].querySelector(".age"), duration(between(job.created))));
  }
}

function summary(jobs) {
  const wrong = jobs.filter((job) => job.tone === "problem" && !OVER.has(job.phase)).length;
  const count = (phase) => jobs.filter((job) => job.phase === phase).length;
  const parts = ["Running", "Starting", "Pending", "Suspended", "Succeeded", "Failed"]
    .map((phase) => [count(phase), phase.toLowerCase()])
    .filter(([many]) => many)
    .map(([many, phase]) => `${many} ${phase}`);
  const trouble = wrong ? `; ${wrong} with a problem` : "";
  return `${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}: ${parts.join(", ")}${trouble}.`;
}

function make(job) {
  const cell = (name, ...children) => h("td", { class: name, role: "cell" }, ...children);
  const link = h("a", { href: `#/${job.namespace}/${job.name}` }, job.name);
  return h(
    "tr",
    { role: "row" },
    h("th", { scope: "row", role: "rowheader", class: "name" }, link, h("span", { class: "namespace" }, job.namespace), h("p", { class: "message" })),
    cell("phase", badge()),
    cell("ready", h("span", {}), h("span", { class: "meter", "aria-hidden": "true" }, h("i", {}))),
    cell("progress"),
    cell("age"),
  );
}

function update(row, job) {
  mark(row, "data-tone", job.tone);
  show(row.querySelector(".badge"), job);
  say(row.querySelector(".message"), job.tone === "good" && job.phase !== "Succeeded" ? "" : job.message);
  mark(row, "data-over", OVER.has(job.phase) ? "" : null);
  say(row.querySelector(".ready span"), OVER.has(job.phase) ? `${job.desired} ranks` : `${job.ready} of ${job.desired}`);
  row.querySelector(".meter i").style.width = `${job.desired ? Math.round((100 * job.ready) / job.desired) : 0}%`;
  say(row.querySelector(".progress"), job.progress);
  say(row.querySelector(".age"), duration(between(job.created)));
}

/** Create a badge, which shows a phase as a color, a shape and a word. */
export function badge() {
  return h("span", { class: "badge" }, h("i", { "aria-hidden": "true" }), h("b", {}));
}

/** Show a job's phase in a badge. */
export function show(element, job) {
  mark(element, "data-phase", job.phase);
  mark(element, "data-tone", job.tone);
  say(element.querySelector("b"), job.phase);
}
