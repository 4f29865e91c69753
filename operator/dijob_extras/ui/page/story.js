// Shows the history of a job: phases as a strip, and everything else as a list, newest first.

import { between, changes, clock, duration, h, say } from "./dom.js";

export class Story {
  constructor() {
    this.strip = h("ol", { class: "strip", "aria-label": "Phases" });
    this.list = h("ol", { class: "story", tabindex: 0, "aria-label": "History, newest first" });
    this.tell = changes((items) => this.retell(items));
    this.bars = changes((phases) => this.rebar(phases));
  }

  show(job) {
    this.job = job;
    this.bars(job.phases);
    this.tick();
    this.tell(job.story);
  }

  /** Update the durations: the current phase gets longer. */
  tick() {
    const { phases, ended } = this.job;
    const last = phases.length - 1;
    const over = Boolean(ended);
    const spans = phases.map((one, at) => between(one.time, at < last ? phases[at + 1].time : ended));
    phases.forEach((one, at) => {
      const bar = this.strip.children[at];
      const end = over && at === last;
      // Each bar gets a minimum width, so that short phases stay readable.
      bar.style.flexGrow = end ? "0" : String(Math.max(spans[at], 0.001) + spans.reduce((a, b) => a + b, 0) / 12);
      say(bar.querySelector("span"), end ? clock(one.time) : duration(spans[at]));
    });
  }

  rebar(phases) {
    this.strip.replaceChildren(
      ...phases.map((one) => h("li", { "data-phase": one.value, title: `since ${clock(one.time)}` }, h("b", {}, one.value), h("span", {}))),
    );
  }

  retell(items) {
    this.list.replaceChildren(
      ...[...items].reverse().map((one) =>
        h(
          "li",
          { "data-tone": one.tone },
          h("time", { datetime: one.time }, clock(one.time)),
          h("div", {}, h("b", {}, one.title), one.tone === "problem" ? h("span", { class: "unseen" }, " (a problem)") : null, one.text ? h("p", {}, one.text) : null),
        ),
      ),
    );
  }
}
