// The history: the list of recorded jobs, and the page of one of them.

import { Progress } from "./chart.js";
import { copyButton } from "./details.js";
import { between, changes, clock, duration, h, keyed, mark, say } from "./dom.js";
import { badge, count, failed, show, troubled } from "./list.js";
import { PAST, listLink } from "./place.js";

const HEAD = ["Job", "Outcome", "Ran", "Progress", "Ended"];

export class PastList {
  constructor() {
    this.title = h("h1", { tabindex: -1 }, "History");
    this.summary = h("p", { class: "lead", role: "status" }, "Loading.");
    this.search = h("input", { type: "search", placeholder: "Search names, owners, outcomes, messages", "aria-label": "Search the history" });
    this.search.addEventListener("input", () => this.draw());
    this.tools = h("div", { class: "tools", role: "search" }, this.search);
    this.body = h("tbody", { role: "rowgroup" });
    const head = h("tr", { role: "row" }, ...HEAD.map((text) => h("th", { scope: "col", role: "columnheader" }, text)));
    this.table = h("table", { class: "jobs", role: "table", hidden: true }, h("caption", { class: "unseen" }, "Recorded jobs"), h("thead", { role: "rowgroup" }, head), this.body);
    const back = h("p", { class: "back" }, h("a", { href: listLink() }, "All jobs"));
    this.element = h("div", { class: "view list" }, back, h("div", { class: "list-head" }, this.title, this.tools), this.summary, this.table);
    this.jobs = null; // until the first data arrives
  }

  show({ jobs, sentence }) {
    this.jobs = jobs;
    this.sentence = sentence;
    this.draw();
  }

  draw() {
    // A user may search while the list is loading. The search applies when the data arrives.
    if (!this.jobs) return;
    const wanted = this.search.value.toLowerCase().split(/\s+/);
    const found = this.jobs.filter((job) => {
      const text = [job.name, job.namespace, job.owner, job.phase, job.message, job.progress].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
    this.table.hidden = !found.length;
    this.tools.hidden = !this.jobs.length;
    const many = found.length === this.jobs.length ? `The newest ${this.jobs.length}` : `${found.length} of ${this.jobs.length}`;
    const ended = found.filter((job) => job.phase === "Failed");
    const active = found.filter((job) => job.tone === "problem" && !job.over);
    const parts = [`${many} recorded jobs, including those that still exist`, ended.length && failed(ended), active.length && troubled(active)];
    const words = `${parts.filter(Boolean).join("; ")}.`;
    say(this.summary, this.sentence || (this.jobs.length ? words : "No jobs have been recorded yet."));
    keyed(this.body, found, (job) => job.uid, makeRow, updateRow);
  }

  tick() {
    for (const row of this.body.children) say(row.querySelector(".age"), row.over ? `${duration(between(row.over))} ago` : "");
  }
}

function makeRow(job) {
  const cell = (name, ...children) => h("td", { class: name, role: "cell" }, ...children);
  const link = h("a", { href: `#/${PAST}/${job.namespace}/${job.name}/${job.uid}` }, job.name);
  const name = h("th", { scope: "row", role: "rowheader", class: "name" }, link, h("span", { class: "namespace" }, job.namespace), h("p", { class: "facts" }), h("p", { class: "message" }));
  return h("tr", { role: "row" }, name, cell("phase", badge()), cell("ready"), cell("progress"), cell("age"));
}

function updateRow(row, job) {
  row.over = job.over;
  mark(row, "data-tone", job.tone);
  show(row.querySelector(".badge"), job);
  const facts = [job.owner, job.replicas && count(job.replicas, "rank"), job.restarts && count(job.restarts, "failure")];
  say(row.querySelector(".facts"), facts.filter(Boolean).join(" · "));
  say(row.querySelector(".message"), job.tone === "good" ? "" : job.message);
  say(row.querySelector(".ready"), job.over ? duration(between(job.created, job.over)) : "");
  say(row.querySelector(".progress"), job.progress);
  say(row.querySelector(".age"), job.over ? `${duration(between(job.over))} ago` : "");
}

export class PastJob {
  constructor(namespace, name) {
    this.title = h("h1", { tabindex: -1 }, name);
    this.badge = badge();
    this.message = h("p", { class: "sentence" }, "Loading.");
    this.facts = h("dl", { class: "figures" });
    this.progress = new Progress();
    this.logs = h("div", { class: "past-logs" });
    this.phases = h("ul", { class: "conditions" });
    this.commands = h("ul", { class: "commands" });
    this.yaml = h("pre", { class: "yaml", tabindex: 0, "aria-label": "The job as YAML" });
    const back = h("p", { class: "back" }, h("a", { href: `#/${PAST}` }, "History"), ` / ${namespace}`);
    const head = h("div", { class: "head" }, h("div", { class: "intro" }, back, h("div", { class: "title" }, this.title, this.badge), this.message), this.facts);
    const logs = card("Ends of the logs", this.logs);
    this.cards = h("div", { class: "cards" }, h("div", { class: "side" }, logs, card("Commands", this.commands), card("YAML", this.yaml)), h("div", { class: "side" }, card("Progress", this.progress.element), card("Phases", this.phases)));
    this.cards.hidden = true;
    this.element = h("div", { class: "view job" }, head, this.cards);
    this.draw = changes((record) => this.redraw(record));
  }

  show(record) {
    this.draw(record);
  }

  redraw(record) {
    this.cards.hidden = false;
    mark(this.element, "data-tone", record.tone);
    show(this.badge, record);
    say(this.message, record.failure || record.message);
    const facts = [
      ["Created", clock(record.created)],
      ["Ended", record.over ? clock(record.over) : "not over"],
      ["Ran", record.over ? duration(between(record.created, record.over)) : ""],
      ["Ranks", record.replicas],
      ["Failures", record.restarts],
      ["Goodput", record.goodput === null ? "" : `${record.goodput} %`],
      ["Deleted", record.deleted ? clock(record.deleted) : "no"],
      ["Owner", record.owner],
      ["Reason", record.reason],
    ].filter(([, value]) => value !== "");
    this.facts.replaceChildren(...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
    this.progress.show({ points: record.points, progress: record.progress || "The job reported no progress.", since: record.created });
    if (record.points.length) say(this.progress.note, "From the history: at most 200 points of the whole run.");
    this.phases.replaceChildren(...record.phases.map((one) => h("li", {}, h("b", {}, one.phase), h("time", { datetime: one.time }, clock(one.time)))));
    this.commands.replaceChildren(...record.commands.map(([title, text]) => h("li", {}, h("span", {}, title), h("code", {}, text), copyButton(title, () => text))));
    say(this.yaml, record.yaml);
    this.drawLogs(record);
  }

  drawLogs({ logs, unseen }) {
    // The log of a failed rank is opened, or else the log of the first rank.
    const open = Math.max(0, logs.findIndex((one) => one.failed));
    const none = unseen ? `Not shown: ${unseen}` : "The history has no logs of this job.";
    const parts = logs.map((one, at) => h("details", { open: at === open }, h("summary", {}, one.title), h("pre", { tabindex: 0, "aria-label": one.title }, one.text || "(empty)")));
    this.logs.replaceChildren(...(parts.length ? parts : [h("p", { class: "note" }, none)]));
  }

  gone(sentence) {
    say(this.message, sentence);
  }

  tick() {}
}

function card(title, content) {
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), content);
}
