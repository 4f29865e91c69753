// How the job has spent its time: a sentence, and one bar per rank. The sentence is for screen readers,
// too.

import { changes, duration, h, s, say } from "./dom.js";

const WIDTH = 600;
const KINDS = ["running", "repeated", "lost", "starting", "waiting"];

export class Goodput {
  constructor() {
    this.sentence = h("p", { class: "share" });
    this.bars = h("div", { class: "bars", tabindex: 0, role: "group", "aria-label": "Time of each rank" });
    const legend = KINDS.map((kind) => h("span", {}, swatch(kind), ` ${kind}`));
    this.legend = h("p", { class: "kinds", "aria-hidden": "true" }, ...legend);
    this.note = h("p", { class: "note" });
    this.element = h("div", {}, patterns(), this.sentence, this.bars, this.legend, this.note);
    this.draw = changes((ranks, total) => this.bars.replaceChildren(...ranks.map((one) => bar(one, total))));
  }

  show(job) {
    const known = job.goodput;
    this.legend.hidden = !known;
    say(this.sentence, known ? known.sentence : "The operator has not counted the time of this job.");
    const left = known ? job.desired - known.ranks.length : 0;
    const more = left > 0 ? ` ${left} more ranks are not shown.` : "";
    say(this.note, known ? `Counted since ${known.since}.${more}` : "");
    this.draw(known ? known.ranks : [], known ? known.totalSeconds : 0);
  }
}

function bar(one, total) {
  let x = 0;
  const shapes = one.parts.map((part) => {
    const width = total ? (part.seconds / total) * WIDTH : 0;
    const shape = s("rect", { class: part.kind, x, width, height: 12 }, s("title", {}, `${duration(part.seconds)} ${part.label}`));
    x += width;
    return width ? shape : null;
  });
  const words = one.parts.filter((part) => part.seconds).map((part) => `${duration(part.seconds)} ${part.label}`);
  const picture = s(
    "svg",
    { class: "spent", viewBox: `0 0 ${WIDTH} 12`, role: "img", "aria-label": `Rank ${one.rank}: ${words.join(", ")}`, preserveAspectRatio: "none" },
    ...shapes,
  );
  return h("div", { class: "rank-bar" }, h("span", {}, String(one.rank)), picture);
}

function swatch(kind) {
  return s("svg", { class: "spent swatch", viewBox: "0 0 12 12", "aria-hidden": "true" }, s("rect", { class: kind, width: 12, height: 12 }));
}

/** Create the patterns that distinguish two kinds without color. */
function patterns() {
  const stripes = s("pattern", { id: "lost", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { class: "blank", width: 6, height: 6 }), s("rect", { class: "stripe", width: 3, height: 6 }));
  const dots = s("pattern", { id: "repeated", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("rect", { class: "blank", width: 6, height: 6 }), s("circle", { class: "dot", cx: 3, cy: 3, r: 2 }));
  return s("svg", { class: "spent patterns", width: 0, height: 0, "aria-hidden": "true" }, s("defs", {}, stripes, dots));
}
