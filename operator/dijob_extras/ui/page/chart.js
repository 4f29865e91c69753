// The progress that the job reported while it was observed, as small curves and as a table.
// The table is for screen readers, and for exact values.

import { changes, clock, h, number, s } from "./dom.js";

const CURVES = [
  ["return", "Return"],
  ["iteration", "Iteration"],
  ["step", "Environment step"],
];
const HEIGHT = 92;
const MOST_ROWS = 50;

export class Progress {
  constructor() {
    this.curves = h("div", { class: "curves" });
    this.note = h("p", { class: "note" });
    this.table = h("tbody", {});
    const head = h("tr", {}, ...["Time", "Iteration", "Step", "Return"].map((text) => h("th", { scope: "col" }, text)));
    const table = h("table", { class: "plain" }, h("caption", { class: "unseen" }, "Progress"), h("thead", {}, head), this.table);
    this.details = h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Progress as a table" }, table));
    this.element = h("div", {}, this.curves, this.details, this.note);
    this.draw = changes((points, line, since) => this.redraw(points, line, since));
  }

  show(job) {
    this.draw(job.points, job.progress, job.since);
  }

  redraw(points, line, since) {
    const curves = CURVES.map(([name, title]) => curve(title, points.filter((one) => one[name] !== null), name));
    this.curves.replaceChildren(...curves.filter(Boolean));
    this.details.hidden = !points.length;
    const rows = points.slice(-MOST_ROWS).reverse();
    this.table.replaceChildren(
      ...rows.map((one) =>
        h("tr", {}, ...[clock(one.time), one.iteration, one.step, one.return].map((cell) => h("td", {}, cell === null ? "" : String(cell)))),
      ),
    );
    this.note.textContent = points.length
      ? `Recorded by this page since ${clock(since)}; not stored anywhere else.`
      : line || "The job has not reported progress. DI-engine's pipelines report it; other programs can call dijob_runtime.report.";
  }
}

function curve(title, points, name) {
  if (!points.length) return null;
  const values = points.map((one) => one[name]);
  const last = values[values.length - 1];
  const head = h("div", { class: "curve-head" }, h("span", {}, title), h("strong", {}, number(last)));
  if (points.length < 2) return h("div", { class: "curve" }, head);
  // The picture is stretched to its container, so this width only sets the scale of the
  // coordinates.
  const width = 300;
  const times = points.map((one) => Date.parse(one.time) || 0);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (at) => 4 + ((times[at] - times[0]) / (times[times.length - 1] - times[0] || 1)) * (width - 10);
  const y = (value) => HEIGHT - 6 - ((value - low) / (high - low || 1)) * (HEIGHT - 14);
  const path = values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const area = `${path}L${x(values.length - 1).toFixed(1)} ${HEIGHT}L4 ${HEIGHT}Z`;
  const words = `${title}: from ${number(values[0])} to ${number(last)}, lowest ${number(low)}, highest ${number(high)}`;
  const picture = s(
    "svg",
    { class: "line", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words, preserveAspectRatio: "none" },
    s("path", { class: "area", d: area }),
    s("path", { class: "stroke", d: path, "vector-effect": "non-scaling-stroke" }),
  );
  const foot = h("div", { class: "curve-foot" }, h("span", {}, clock(points[0].time)), h("span", {}, `${number(low)} to ${number(high)}`), h("span", {}, clock(points[points.length - 1].time)));
  return h("div", { class: "curve" }, head, picture, foot);
}
