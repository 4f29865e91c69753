// The page of one job.

import { between, changes, duration, h, keyed, mark, say } from "./dom.js";
import { Goodput } from "./goodput.js";
import { Graph } from "./graph.js";
import { Log } from "./log.js";
import { Progress } from "./chart.js";
import { Story } from "./story.js";
import { badge, show } from "./list.js";
import { icon } from "./shapes.js";

const MOST_ROWS = 100;
const FIGURES = ["Ready", "Connections", "Revision", "Restarts", "Re-rendezvous", "Elapsed"];
const HEAD = ["Rank", "State", "Task", "Node", "Address", "Restarts", "Revision"];

export class JobView {
  constructor(namespace, name, announce) {
    this.namespace = namespace;
    this.name = name;
    this.announce = announce;
    this.base = `#/${namespace}/${name}`;
    this.title = h("h1", { tabindex: -1 }, name);
    this.badge = badge();
    this.message = h("p", { class: "sentence" }, "Loading.");
    this.remedy = h("p", { class: "remedy", hidden: true });
    this.figures = new Map(FIGURES.map((label) => [label, h("dd", {}, "–")]));
    this.graph = new Graph((rank) => this.graph.select(this.graph.selected === rank ? null : rank));
    this.progress = new Progress();
    this.goodput = new Goodput();
    this.story = new Story();
    this.log = new Log({ namespace, name }, (rank) => (location.hash = this.base + (rank && `/log/${rank}`)));
    this.rows = h("tbody", {});
    this.more = h("p", { class: "note" });
    this.rights = h("div", {});
    this.element = h("div", { class: "view job" }, this.head(), this.body());
    this.refuse = changes((sentences) => this.rights.replaceChildren(...sentences.map((text) => h("p", { class: "remedy" }, `Not shown: ${text}`))));
    this.kinds = new Map();
  }

  head() {
    const figures = [...this.figures].map(([label, value]) => h("div", {}, h("dt", {}, label), value));
    return h(
      "div",
      { class: "head" },
      h("p", { class: "back" }, h("a", { href: "#/" }, "All jobs"), ` / ${this.namespace}`),
      h("div", { class: "title" }, this.title, this.badge),
      this.message,
      this.remedy,
      h("dl", { class: "figures" }, ...figures),
    );
  }

  body() {
    const head = h("tr", {}, ...HEAD.map((text) => h("th", { scope: "col" }, text)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Log")));
    const table = h("table", { class: "plain ranks" }, h("caption", { class: "unseen" }, "The job's ranks"), h("thead", {}, head), this.rows);
    const scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of ranks" }, table);
    return h(
      "div",
      { class: "cards" },
      h("div", { class: "side" }, card("Ranks and connections", "map", this.graph.element), card("Ranks", "table", this.rights, scroll, this.more), this.log.element),
      h("div", { class: "side" }, card("Progress", "curves-card", this.progress.element), card("Goodput", "spent-card", this.goodput.element), card("History", "told", this.story.element)),
    );
  }

  show(job) {
    const first = !this.job;
    this.job = job;
    mark(this.element, "data-gone", null);
    show(this.badge, job);
    say(this.message, job.message);
    const advice = job.phase === "Failed" ? job.failure : job.remedy;
    this.remedy.hidden = !advice;
    say(this.remedy, advice ? `${job.phase === "Failed" ? "" : "What to do: "}${advice}` : "");
    this.figure("Ready", `${job.ready} of ${job.desired}`);
    this.figure("Connections", job.graph.total ? `${job.graph.up} of ${job.graph.total}` : "–");
    this.figure("Revision", String(job.list || "–"));
    this.figure("Restarts", String(job.restarts));
    this.figure("Re-rendezvous", String(job.renewals));
    this.graph.show(job);
    this.progress.show(job);
    this.goodput.show(job);
    this.story.show(job);
    this.log.offer(job.ranks);
    this.refuse(job.unseen);
    this.table(job.ranks);
    this.tick();
    this.news(job, first);
  }

  figure(label, text) {
    say(this.figures.get(label), text);
  }

  table(ranks) {
    // Of a large job, the ranks with problems come first.
    const order = (one) => ["failed", "renewing", "waiting", "absent", "ready", "done"].indexOf(one.kind);
    const shown = ranks.length > MOST_ROWS ? [...ranks].sort((a, b) => order(a) - order(b) || a.rank - b.rank).slice(0, MOST_ROWS) : ranks;
    keyed(this.rows, shown, (one) => one.rank, () => this.row(), (row, one) => this.fill(row, one));
    mark(this.element, "data-tasks", ranks.some((one) => one.task) ? "" : null);
    say(this.more, shown.length < ranks.length ? `Not listed: ${ranks.length - shown.length} ranks without a more urgent problem.` : "");
  }

  row() {
    const link = h("a", { class: "button" }, "Log");
    const cells = ["state", "task", "node", "address", "restarts", "list"].map((name) => h("td", { class: name }));
    return h("tr", {}, h("th", { scope: "row" }), ...cells, h("td", {}, link));
  }

  fill(row, one) {
    const [rank, state, task, node, address, restarts, list, log] = row.children;
    say(rank, String(one.rank));
    if (row.dataset.kind !== one.kind) state.replaceChildren(icon(one.kind), h("span", {}));
    mark(row, "data-kind", one.kind);
    say(state.lastChild, one.state);
    say(task, one.task);
    say(node, one.node);
    say(address, one.ip);
    say(restarts, String(one.restarts));
    say(list, String(one.list || ""));
    mark(log.firstChild, "href", `${this.base}/log/${one.rank}`);
    mark(log.firstChild, "aria-label", `Log of rank ${one.rank}`);
  }

  /** Announce changes to screen readers. */
  news(job, first) {
    const said = [];
    if (first || this.phase !== job.phase) said.push(`${job.name} is ${job.phase}. ${job.message}`);
    this.phase = job.phase;
    for (const one of job.ranks) {
      const before = this.kinds.get(one.rank);
      const turned = before && before !== one.kind && [before, one.kind].includes("failed");
      if (turned && said.length < 4) said.push(`Rank ${one.rank}: ${one.state}.`);
      this.kinds.set(one.rank, one.kind);
    }
    if (said.length) this.announce(said.join(" "));
  }

  gone(sentence) {
    mark(this.element, "data-gone", "");
    say(this.message, `${sentence[0].toUpperCase()}${sentence.slice(1)}.`);
  }

  tick() {
    if (!this.job) return;
    this.figure("Elapsed", duration(between(this.job.started, this.job.ended)));
    this.story.tick();
  }

  openLog(rank) {
    if (this.log.rank !== rank) this.log.open(rank);
    // If the user moves through the ranks with the arrow keys, the focus stays on the list of
    // ranks.
    if (rank === null || document.activeElement === this.log.select) return;
    this.log.title.focus({ preventScroll: true });
    this.log.element.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.log.close();
    this.graph.close();
  }
}

function card(title, name, ...children) {
  const id = `${name}-title`;
  return h("section", { class: `card ${name}`, "aria-labelledby": id }, h("h2", { id }, title), ...children);
}
