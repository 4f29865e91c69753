// The GPU hours and the goodput of each namespace, for administrators.

import { changes, h, number, say } from "./dom.js";
import { listLink } from "./place.js";

const COLUMNS = [
  ["Namespace", (row) => row.namespace],
  ["Jobs", (row) => String(row.jobs)],
  ["Active", (row) => String(row.active)],
  ["GPUs now", (row) => String(row.gpus)],
  ["GPU hours", (row) => number(row.gpuHours)],
  ["Productive GPU hours", (row) => number(row.productiveHours)],
  ["Goodput", (row) => (row.goodput === null ? "unknown" : `${Math.round(100 * row.goodput)} %`)],
];
const NOTE =
  "Computed from the jobs that exist now: deleted jobs are not included. GPU hours: the number of GPUs that a job requests now, multiplied by the time during which the job had nodes. " +
  "Productive: all ranks were Ready, and no iteration was repeated. Goodput: the productive share of each job's total time, including waiting; the average over the jobs is weighted by their ranks.";

export class Totals {
  constructor() {
    this.title = h("h1", { tabindex: -1 }, "GPU hours by namespace");
    this.summary = h("p", { class: "lead", role: "status" }, "Loading.");
    this.body = h("tbody", {});
    this.foot = h("tfoot", {});
    const head = h("tr", {}, ...COLUMNS.map(([title]) => h("th", { scope: "col" }, title)));
    this.table = h("table", { class: "plain totals" }, h("caption", { class: "unseen" }, "GPU hours and goodput by namespace"), h("thead", {}, head), this.body, this.foot);
    this.card = h("section", { class: "card", hidden: true }, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of namespaces" }, this.table), h("p", { class: "note" }, NOTE));
    const back = h("p", { class: "back" }, h("a", { href: listLink() }, "All jobs"));
    this.element = h("div", { class: "view" }, back, this.title, this.summary, this.card);
    this.draw = changes((rows, total) => {
      this.body.replaceChildren(...rows.map(line));
      this.foot.replaceChildren(line({ ...total, namespace: "All" }));
    });
  }

  show({ rows, total }) {
    this.card.hidden = !rows.length;
    const unknown = total.uncounted ? ` The time of ${total.uncounted} of them is unknown.` : "";
    say(this.summary, rows.length ? `${total.jobs} jobs in ${rows.length} ${rows.length === 1 ? "namespace" : "namespaces"}.${unknown}` : "There are no jobs.");
    this.draw(rows, total);
  }

  refused(sentence) {
    say(this.summary, `${sentence[0].toUpperCase()}${sentence.slice(1)}${/[.!?]$/.test(sentence) ? "" : "."}`);
  }

  tick() {}
}

function line(row) {
  const [name, ...rest] = COLUMNS.map(([, value]) => value(row));
  return h("tr", {}, h("th", { scope: "row" }, name), ...rest.map((text) => h("td", {}, text)));
}
