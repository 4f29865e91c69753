// The page of one job.

import { between, changes, duration, h, keyed, mark, number, say } from "./dom.js";
import { Details } from "./details.js";
import { Failure } from "./failure.js";
import { Goodput } from "./goodput.js";
import { Graph } from "./graph.js";
import { Log } from "./log.js";
import { Progress } from "./chart.js";
import { Story } from "./story.js";
import { Tabs } from "./tabs.js";
import { badge, show } from "./list.js";
import { icon } from "./shapes.js";
import { listLink } from "./place.js";

const MOST_ROWS = 100;
const HEAD = ["Rank", "State", "Task", "Node", "Address", "Restarts", "Peer list", "Use"];
const RENEWALS = "Peer list renewals";
// If the job has taken less time than this, its goodput is not shown: times have a resolution of
// one second, so the percentage would be meaningless.
const SHORT_SECONDS = 10;
// What the terms mean, from the glossary.
const TITLES = {
  Failures: "How many failures the job has counted against backoffLimit. A rank that restarts with a new peer list is not a failure.",
  "Peer list": "The addresses of all ranks, in rank order. This is the revision that the pod has: a higher number is newer.",
  [RENEWALS]: "How often the peer list became stale, for example because a rank was lost. The lost ranks and those that dial them restarted; the docs call this a re-rendezvous.",
};

export class JobView {
  constructor(namespace, name, announce) {
    this.namespace = namespace;
    this.name = name;
    this.announce = announce;
    this.base = `#/${namespace}/${name}`;
    this.chosen = null;
    this.title = h("h1", { tabindex: -1 }, name);
    this.badge = badge();
    this.message = h("p", { class: "sentence" }, "Loading.");
    this.advice = h("p", { class: "remedy", hidden: true });
    this.failure = new Failure();
    this.figures = h("dl", { class: "figures" });
    this.drawFigures = changes((pairs) => this.figures.replaceChildren(...pairs.map(([label, value]) => h("div", {}, h("dt", { title: TITLES[label] }, label), h("dd", {}, value)))));
    this.graph = new Graph((rank) => this.graph.select(this.graph.selected === rank ? null : rank));
    this.progress = new Progress();
    this.goodput = new Goodput();
    this.story = new Story();
    this.details = new Details();
    this.log = new Log({ namespace, name }, (rank) => (location.hash = `${this.base}/log/${rank}`));
    this.rows = h("tbody", {});
    this.more = h("p", { class: "note" });
    this.rights = h("div", {});
    this.head = h("div", { class: "head" }, this.intro(), this.advice, this.failure.element, this.figures, this.story.strip);
    this.cards = this.body();
    this.element = h("div", { class: "view job" }, this.head, this.cards);
    // Hide the cards while they would be empty: until the first data arrives, or if there is no
    // such job.
    this.cards.hidden = this.figures.hidden = true;
    this.refuse = changes((sentences) => this.rights.replaceChildren(...sentences.map((text) => h("p", { class: "remedy" }, `Not shown: ${text}`))));
    this.kinds = new Map();
  }

  intro() {
    const back = h("p", { class: "back" }, h("a", { href: listLink() }, "All jobs"), ` / ${this.namespace}`);
    return h("div", { class: "intro" }, back, h("div", { class: "title" }, this.title, this.badge), this.message);
  }

  body() {
    const { program, commands, conditions, yamlTab } = this.details;
    const tabs = new Tabs("Details", [
      ["Ranks", "ranks", this.table()],
      ["History", "history", this.story.list],
      ["Conditions", "conditions", conditions],
      ["Program", "program", program],
      ["Commands", "commands", commands],
      ["YAML", "yaml", yamlTab],
    ]);
    const graph = card("Ranks and connections", "map", this.graph.element);
    return h(
      "div",
      { class: "cards" },
      h("div", { class: "side" }, this.log.element, tabs.element),
      h("div", { class: "side" }, graph, card("Progress", "curves-card", this.progress.element), card("Goodput", "spent-card", this.goodput.element)),
    );
  }

  table() {
    const head = h("tr", {}, ...HEAD.map((text) => h("th", { scope: "col", title: TITLES[text] }, text)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Log")));
    const table = h("table", { class: "plain ranks" }, h("caption", { class: "unseen" }, "The job's ranks"), h("thead", {}, head), this.rows);
    const scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of ranks" }, table);
    return h("div", {}, this.rights, scroll, this.more);
  }

  show(job) {
    const first = !this.job;
    this.job = job;
    this.cards.hidden = this.figures.hidden = false;
    mark(this.element, "data-gone", null);
    mark(this.element, "data-tone", job.tone);
    show(this.badge, job);
    say(this.message, job.message);
    // The operator's message repeats the failure, so the message is shown after the failure.
    this.failure.show(job.failure, job.message);
    this.message.hidden = Boolean(job.failure);
    this.advice.hidden = !job.advice || Boolean(job.failure);
    say(this.advice, job.advice);
    this.graph.show(job);
    this.progress.show(job);
    this.goodput.show(job);
    this.story.show(job);
    this.details.show(job);
    this.log.offer(job.ranks);
    this.refuse(job.unseen);
    this.fillTable(job.ranks);
    this.tick();
    this.news(job, first);
    // If the user has not chosen a log, show the log of the failed rank, or else the log of rank 0.
    if (this.chosen === null && this.log.rank !== String(job.logRank)) this.log.open(String(job.logRank));
  }

  spec(data) {
    this.details.showSpec(data);
  }

  /** Return labels with values that show the job's progress and cost. */
  counted() {
    const { job } = this;
    const ranks = job.phase === "Succeeded" ? ["Completed", `${job.done} of ${job.desired}`] : ["Ready", `${job.ready} of ${job.desired}`];
    const elapsed = duration(between(job.started, job.ended));
    return [
      job.phase === "Failed" ? ["Ranks", String(job.desired)] : ranks,
      ["Elapsed", job.deadline ? `${elapsed} of ${duration(job.deadline)}` : elapsed],
      ...job.figures.map(([label, value]) => [label, number(value)]),
      // A job that has ended, or has not started, makes no progress, so nothing is missing.
      job.phase === "Running" && !job.figures.length ? ["Progress", "not reported"] : null,
      Number.isFinite(job.goodput?.goodput) && job.goodput.totalSeconds >= SHORT_SECONDS ? ["Goodput", `${Math.round(100 * job.goodput.goodput)} %`] : null,
      ["Failures", String(job.restarts)],
      [RENEWALS, String(job.renewals)],
    ].filter(Boolean);
  }

  fillTable(ranks) {
    // In a large job, the ranks with problems come first.
    const order = (one) => ["failed", "renewing", "waiting", "absent", "stopped", "ready", "done"].indexOf(one.kind);
    const shown = ranks.length > MOST_ROWS ? [...ranks].sort((a, b) => order(a) - order(b) || a.rank - b.rank).slice(0, MOST_ROWS) : ranks;
    keyed(this.rows, shown, (one) => one.rank, () => this.row(), (row, one) => this.fill(row, one));
    mark(this.element, "data-tasks", ranks.some((one) => one.task));
    mark(this.element, "data-lists", ranks.some((one) => one.list));
    mark(this.element, "data-uses", ranks.some((one) => one.use));
    say(this.more, shown.length < ranks.length ? `Not listed: ${ranks.length - shown.length} ranks without a more urgent problem.` : "");
  }

  row() {
    const link = h("a", { class: "button" }, "Log");
    const cells = ["state", "task", "node", "address", "restarts", "list", "use"].map((name) => h("td", { class: name }));
    return h("tr", {}, h("th", { scope: "row" }), ...cells, h("td", {}, link));
  }

  fill(row, one) {
    const [rank, state, task, node, address, restarts, list, use, log] = row.children;
    say(rank, String(one.rank));
    if (row.dataset.kind !== one.kind) state.replaceChildren(icon(one.kind), h("span", {}));
    mark(row, "data-kind", one.kind);
    say(state.lastChild, one.state);
    say(task, one.task);
    say(node, one.node);
    say(address, one.ip);
    say(restarts, String(one.restarts));
    say(list, String(one.list || ""));
    say(use, one.use);
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
    this.drawFigures(this.counted());
    this.story.tick();
  }

  /** Open the log of a rank, of all ranks ("all"), or the one that is useful now (null). */
  openLog(rank) {
    this.chosen = rank;
    const wanted = rank ?? (this.job && String(this.job.logRank));
    if (wanted && this.log.rank !== wanted) this.log.open(wanted);
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
