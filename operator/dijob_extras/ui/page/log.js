// Shows the log of a rank, or of all ranks, as it is printed.

import { h, say } from "./dom.js";
import { follow } from "./stream.js";

// The browser would become slow with more elements.
const MOST_LINES = 3000;

export class Log {
  constructor(job, go) {
    this.job = job;
    this.rank = null;
    this.select = h("select", { id: "log-rank" });
    this.select.addEventListener("change", () => go(this.select.value));
    this.stick = h("input", { type: "checkbox", id: "log-follow", checked: true });
    this.stick.addEventListener("change", () => this.scroll());
    this.lines = h("div", { class: "lines", role: "log", "aria-live": "off", "aria-labelledby": "log-title", tabindex: 0 });
    this.lines.addEventListener("scroll", () => {
      // Scrolling up stops following, and scrolling to the end starts it again.
      const { scrollTop, scrollHeight, clientHeight } = this.lines;
      this.stick.checked = scrollTop + clientHeight >= scrollHeight - 24;
    });
    this.state = h("p", { class: "note", role: "status" });
    this.title = h("h2", { id: "log-title", tabindex: -1 }, "Log");
    const choice = h("div", { class: "choice" }, h("label", { for: "log-rank" }, "Rank"), this.select, h("label", { class: "check" }, this.stick, " Follow"));
    this.element = h("section", { class: "card log", "aria-labelledby": "log-title" }, h("div", { class: "card-head" }, this.title, choice), this.lines, this.state);
  }

  /** Offer the ranks in the list. */
  offer(ranks) {
    const names = ["", "all", ...ranks.map((one) => String(one.rank))];
    const known = [...this.select.options].map((one) => one.value);
    if (names.join() === known.join()) return;
    const words = (name) => ({ "": "none", all: "all ranks" })[name] || `rank ${name}`;
    this.select.replaceChildren(...names.map((name) => h("option", { value: name }, words(name))));
    this.select.value = this.rank === null ? "" : this.rank;
  }

  /** Show the log of a rank, of all ranks ("all"), or none (null). */
  open(rank) {
    this.stream?.close();
    this.rank = rank;
    this.lines.replaceChildren();
    this.lines.hidden = rank === null;
    this.select.value = rank === null ? "" : rank;
    say(this.title, rank === null ? "Log" : rank === "all" ? "Log of all ranks" : `Log of rank ${rank}`);
    say(this.state, rank === null ? "Choose a rank to see its log." : "The last 500 lines, and all new ones.");
    if (rank === null) return;
    const path = `/api/jobs/${this.job.namespace}/${this.job.name}/log${rank === "all" ? "" : `/${rank}`}`;
    this.stream = follow(path, {
      once: true,
      heard: (event, data) => (event === "lines" ? this.add(data) : say(this.state, sentence(data.sentence))),
      link: (state, words) => this.link(state, words),
    });
  }

  close() {
    this.stream?.close();
  }

  link(state, words) {
    if (state === "refused") say(this.state, sentence(words));
    // A new stream sends the last 500 lines again.
    else if (state === "live") this.lines.replaceChildren();
  }

  add(lines) {
    const mark = this.rank === "all";
    this.lines.append(
      ...lines.map((one) =>
        h("div", {}, h("time", { datetime: one.time }, one.time.slice(11, 19)), mark ? h("b", { "data-rank": one.rank % 6 }, `${one.rank}`) : null, h("span", {}, one.text)),
      ),
    );
    while (this.lines.children.length > MOST_LINES) this.lines.firstChild.remove();
    this.scroll();
  }

  scroll() {
    if (this.stick.checked) this.lines.scrollTop = this.lines.scrollHeight;
  }
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "";
}
