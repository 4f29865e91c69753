// Shows why a job has failed: the exception first, then the rest of the output, warnings last.

import { changes, clock, h } from "./dom.js";

const PARTS = [
  ["traceback", "Traceback"],
  ["other", "Output before the failure"],
  ["warnings", "Warnings of libraries"],
];

export class Failure {
  constructor() {
    this.element = h("section", { class: "failure", "aria-labelledby": "failure-title", hidden: true });
    this.show = changes((failure, message) => this.draw(failure, message));
  }

  draw(failure, message) {
    this.element.hidden = !failure;
    if (!failure) return;
    const parts = PARTS.filter(([name]) => failure[name]);
    // If there is no exception, the last output is the best explanation.
    const open = failure.exception ? "" : "other";
    this.element.replaceChildren(
      h("h2", { id: "failure-title" }, failure.title),
      h("p", { class: "note" }, `First failure: ${failure.where}${failure.time ? `, ${clock(failure.time)}` : ""}`),
      failure.exception ? h("pre", { class: "exception", tabindex: 0, "aria-label": "Exception" }, failure.exception) : "",
      ...parts.map(([name, title]) =>
        h("details", { open: name === open }, h("summary", {}, title, h("span", { class: "count" }, ` (${lines(failure[name])})`)), h("pre", { tabindex: 0, "aria-label": title }, failure[name])),
      ),
      h("p", { class: "note" }, message),
    );
  }
}

function lines(text) {
  const count = text.split("\n").length;
  return `${count} ${count === 1 ? "line" : "lines"}`;
}
