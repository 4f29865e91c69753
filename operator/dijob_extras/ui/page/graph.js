// Draws the ranks and their connections. The table of ranks has the same information as text, for
// screen readers and for jobs that are too large to draw.

import { changes, h, s, say } from "./dom.js";
import { KINDS, icon, shape } from "./shapes.js";

const SERVER = -1;
const MOST = 48;

export class Graph {
  constructor(chosen) {
    this.chosen = chosen;
    this.title = s("title", { id: "graph-title" });
    this.svg = s("svg", { class: "graph", role: "img", "aria-labelledby": "graph-title" }, this.title);
    this.caption = h("div", { class: "caption" });
    this.legend = h("ul", { class: "legend", "aria-label": "Ranks by state" });
    this.element = h("div", {}, this.svg, this.legend, this.caption);
    this.selected = null;
    this.nodes = new Map();
    this.lines = [];
    this.layout = changes((...given) => this.place(...given));
    this.words = changes((...given) => this.describe(...given));
    this.observer = new ResizeObserver(() => this.job && this.show(this.job));
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  show(job) {
    this.job = job;
    const width = Math.max(260, Math.round(this.element.clientWidth || 600));
    const { ranks, graph } = job;
    const pairs = graph.edges.map(([from, to, count]) => [from, to, count]);
    this.layout(width, ranks.map((one) => [one.rank, one.task]), graph.shape, pairs);
    for (const one of ranks) this.paint(one);
    graph.edges.forEach((edge, at) => this.lines[at]?.classList.toggle("up", edge[3]));
    this.light();
    this.words(ranks, graph, this.selected, job.phase);
  }

  /** Show the connections of one rank, and which ranks restart with it. */
  select(rank) {
    this.selected = rank;
    if (this.job) this.show(this.job);
  }

  place(width, ranks, kind, pairs) {
    this.nodes.clear();
    this.lines = [];
    this.svg.replaceChildren(this.title);
    // Without connections, a grid shows as much as a ring, and is smaller.
    if (ranks.length > MOST || !pairs.length) this.grid(width, ranks);
    else this.ring(width, ranks, kind, pairs);
  }

  ring(width, ranks, kind, pairs) {
    const height = Math.min(340, 130 + 24 * ranks.length, Math.max(200, width * 0.7));
    const middle = [width / 2, height / 2];
    const hub = kind === "redis" ? SERVER : kind === "star" || kind === "torch" ? 0 : null;
    // In a star, the hub is in the middle. It has no place on the ring.
    const around = ranks.filter(([rank]) => rank !== hub || ranks.length === 1);
    const far = [width / 2 - 62, height / 2 - 52];
    const near = Math.min(...far);
    // A hub needs space for the lines to the ranks around it.
    const r = Math.max(9, Math.min(25, (Math.PI * near) / Math.max(around.length, 1) / 1.25, hub === null ? Infinity : near / 2.6));
    // Two ranks are next to the hub, because the picture is wider than it is high.
    const start = around.length === 2 && hub !== null ? Math.PI : -Math.PI / 2;
    const at = new Map(hub === null ? [] : [[hub, middle]]);
    around.forEach(([rank], index) => {
      const angle = (2 * Math.PI * index) / around.length + start;
      const alone = around.length === 1 && hub === null;
      at.set(rank, alone ? middle : [middle[0] + far[0] * Math.cos(angle), middle[1] + far[1] * Math.sin(angle)]);
    });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.lines = pairs.map(([from, to, count]) => this.line(from, to, count, at));
    this.svg.append(...this.lines);
    if (hub === SERVER) this.svg.append(server(middle));
    for (const [rank, task] of ranks) this.node(rank, task, at.get(rank), r);
  }

  line(from, to, count, at) {
    const [a, b] = [at.get(from), at.get(to)];
    // The width grows slowly, because a pair can have hundreds of connections.
    const more = { "data-from": from, "data-to": to, "stroke-width": (1 + Math.log2(count) / 2).toFixed(1) };
    if (from === to || !a || !b) return s("g", more);
    return s("line", { class: "edge", x1: a[0], y1: a[1], x2: b[0], y2: b[1], ...more });
  }

  grid(width, ranks) {
    const cell = ranks.length > 400 ? 16 : ranks.length > MOST ? 26 : 44;
    const columns = Math.max(1, Math.floor((width - 8) / cell));
    const height = Math.ceil(ranks.length / columns) * cell + 8;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    ranks.forEach(([rank, task], index) => {
      const place = [4 + cell * ((index % columns) + 0.5), 4 + cell * (Math.floor(index / columns) + 0.5)];
      this.node(rank, cell > 20 ? "" : null, place, cell * 0.34);
    });
  }

  node(rank, task, [x, y], r) {
    const group = s("g", { class: "node", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
    const shapes = s("g", {});
    const label = r >= 8 && task !== null ? s("text", { class: "number", "font-size": Math.min(14, r * 0.95) }, String(rank)) : null;
    const name = task ? s("text", { class: "name", y: r + 19 }, task) : null;
    const title = s("title", {});
    group.append(...[title, s("circle", { class: "halo", r: r + 8 }), shapes, label, name].filter(Boolean));
    group.addEventListener("click", () => this.chosen(rank));
    this.svg.append(group);
    this.nodes.set(rank, { group, shapes, title, r, kind: "" });
  }

  paint(one) {
    const node = this.nodes.get(one.rank);
    if (!node) return;
    const { kind } = one;
    say(node.title, `rank ${one.rank}: ${one.state}`);
    if (node.kind === kind) return;
    node.kind = kind;
    node.group.setAttribute("class", `node ${kind}`);
    node.group.dataset.rank = one.rank;
    node.group.dataset.kind = kind;
    node.shapes.replaceChildren(shape(kind, node.r));
  }

  light() {
    const focus = this.selected;
    this.svg.classList.toggle("focused", focus !== null);
    for (const line of this.lines) {
      const ends = [Number(line.dataset.from), Number(line.dataset.to)];
      line.classList.toggle("lit", focus !== null && ends.includes(focus));
    }
    for (const [rank, node] of this.nodes) node.group.classList.toggle("chosen", rank === focus);
  }

  describe(ranks, graph, selected, phase) {
    const counts = Object.keys(KINDS).map((kind) => [kind, ranks.filter((one) => one.kind === kind).length]);
    const shown = counts.filter(([, count]) => count);
    const summary = shown.map(([kind, count]) => `${count} ${KINDS[kind]}`).join(", ");
    say(this.title, `${ranks.length} ranks: ${summary || "none yet"}`);
    this.legend.replaceChildren(
      ...shown.map(([kind, count]) => h("li", {}, icon(kind), ` ${count} ${KINDS[kind]}`)),
    );
    this.caption.replaceChildren(...sentences(ranks, graph, selected).map((text) => h("p", {}, text)));
  }
}

function sentences(ranks, graph, selected) {
  const said = [];
  const chosen = ranks.find((one) => one.rank === selected);
  if (chosen) {
    const where = [chosen.node && `on ${chosen.node}`, chosen.ip].filter(Boolean).join(", ");
    said.push(`Rank ${chosen.rank}${chosen.task ? ` (${chosen.task})` : ""}: ${chosen.state}${where ? ` (${where})` : ""}.`);
    if (chosen.again) said.push(`If its pod is lost, ${chosen.again}.`);
  }
  const bad = ranks.filter((one) => one.kind === "failed" && one.rank !== selected);
  for (const one of bad.slice(0, 5)) said.push(`Rank ${one.rank}: ${one.state}.`);
  if (bad.length > 5) said.push(`And ${bad.length - 5} more.`);
  const renewed = ranks.filter((one) => one.kind === "renewing").map((one) => one.rank);
  if (renewed.length) said.push(`${renewed.length === 1 ? "Rank" : "Ranks"} ${renewed.join(", ")}: restarting with the next peer list.`);
  if (graph.total) said.push(`${graph.up} of ${graph.atLeast ? "at least " : ""}${graph.total} connections (${graph.shape}), estimated from Ready ranks.`);
  if (graph.note) said.push(`${graph.note[0].toUpperCase()}${graph.note.slice(1)}.`);
  return said;
}

function server([x, y]) {
  return s(
    "g",
    { class: "node server", transform: `translate(${x} ${y})` },
    s("rect", { x: -32, y: -17, width: 64, height: 34, rx: 8 }),
    s("text", { class: "number", "font-size": 13 }, "redis"),
  );
}
