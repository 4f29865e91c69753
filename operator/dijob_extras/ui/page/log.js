// Shows the log of a rank, or of all ranks, as it is printed.

import { h, mark, say } from "./dom.js";
import { follow, load } from "./stream.js";

// The browser would become slow with more elements.
const MOST_LINES = 3000;
// A log that has sent no line within this time has no output yet.
const LOADING_MS = 2000;
const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

export class Log {
  constructor(job, go) {
    this.job = job;
    this.rank = null;
    this.select = h("select", { id: "log-rank" });
    this.select.addEventListener("change", () => go(this.select.value));
    this.stick = check("log-follow", "Follow", true, () => this.scroll());
    this.wrap = check("log-wrap", "Wrap", true, (on) => mark(this.lines, "data-wrap", on));
    // A phone's screen is too narrow for the times.
    this.times = check("log-times", "Times", innerWidth > 860, (on) => mark(this.lines, "data-times", on));
    this.query = h("input", { type: "search", id: "log-search", placeholder: "Search", "aria-label": "Search in the log" });
    this.query.addEventListener("input", () => this.search());
    this.query.addEventListener("keydown", (event) => event.key === "Enter" && this.jump(event.shiftKey ? -1 : 1));
    this.found = h("span", { class: "found", role: "status" });
    this.save = h("button", { type: "button", class: "button" }, "Download");
    this.save.addEventListener("click", () => this.download());
    this.lines = h("div", { class: "lines", role: "log", "aria-live": "off", "aria-labelledby": "log-title", tabindex: 0, "data-wrap": true, "data-times": this.times.on });
    this.lines.addEventListener("scroll", () => {
      // If the user scrolls up, the view stops following the log. If the user scrolls to the end,
      // it follows the log again.
      const { scrollTop, scrollHeight, clientHeight } = this.lines;
      this.stick.box.checked = scrollTop + clientHeight >= scrollHeight - 24;
    });
    this.state = h("p", { class: "note", role: "status" });
    this.title = h("h2", { id: "log-title", tabindex: -1 }, "Log");
    const choice = h("div", { class: "choice" }, h("label", { for: "log-rank", class: "unseen" }, "Rank"), this.select, this.query, this.found, this.wrap.element, this.times.element, this.stick.element, this.save);
    this.element = h("section", { class: "card log", "aria-labelledby": "log-title" }, h("div", { class: "card-head" }, this.title, choice), this.lines, this.state);
  }

  /** Offer the ranks in the list. */
  offer(ranks) {
    const names = [...(ranks.length === 1 ? [] : ["all"]), ...ranks.map((one) => String(one.rank))];
    const known = [...this.select.options].map((one) => one.value);
    if (names.join() === known.join()) return;
    const words = (name) => (name === "all" ? "all ranks" : `rank ${name}`);
    this.select.replaceChildren(...names.map((name) => h("option", { value: name }, words(name))));
    this.select.value = this.rank;
  }

  /** Show the log of a rank, or of all ranks ("all"). */
  open(rank) {
    this.stream?.close();
    this.rank = rank;
    this.lines.replaceChildren();
    this.select.value = rank;
    say(this.title, rank === "all" ? "Log of all ranks" : `Log of rank ${rank}`);
    say(this.state, "The last 500 lines, and all new ones.");
    this.load(true);
    this.stream = follow(this.path("log"), {
      once: true,
      heard: (event, data) => {
        this.load(false);
        if (event === "lines") this.add(data);
        else say(this.state, sentence(data.sentence));
      },
      link: (state, words) => this.link(state, words),
    });
  }

  path(kind) {
    return `/api/jobs/${this.job.namespace}/${this.job.name}/${kind}${this.rank === "all" ? "" : `/${this.rank}`}`;
  }

  close() {
    clearTimeout(this.waiting);
    this.stream?.close();
  }

  /** Show whether an empty log is still being loaded. */
  load(on) {
    clearTimeout(this.waiting);
    mark(this.lines, "data-loading", on);
  }

  link(state, words) {
    if (state !== "live") this.load(false);
    else if ("loading" in this.lines.dataset) this.waiting = setTimeout(() => this.load(false), LOADING_MS);
    if (state === "refused") say(this.state, sentence(words));
    // A new stream sends the last 500 lines again. Until then, the old ones stay.
    else if (state === "live") this.again = true;
  }

  add(lines) {
    const every = this.rank === "all";
    const made = lines.map((one) =>
      h(
        "div",
        { "data-noise": one.noise },
        h("time", { datetime: one.time, title: one.time }, TIME.format(new Date(one.time))),
        every ? h("b", { "data-rank": one.rank % 6 }, `${one.rank}`) : null,
        h("span", {}, one.text),
      ),
    );
    if (this.again) this.lines.replaceChildren();
    this.again = false;
    this.lines.append(...made);
    while (this.lines.children.length > MOST_LINES) this.lines.firstChild.remove();
    if (this.query.value) this.search();
    this.scroll();
  }

  scroll() {
    if (this.stick.box.checked) this.lines.scrollTop = this.lines.scrollHeight;
  }

  /** Mark the lines that contain the search text. */
  search() {
    const text = this.query.value.toLowerCase();
    let count = 0;
    for (const line of this.lines.children) {
      const words = line.lastChild;
      const all = words.textContent;
      const at = text ? all.toLowerCase().indexOf(text) : -1;
      count += at >= 0;
      mark(line, "data-hit", at >= 0);
      if (at >= 0) words.replaceChildren(all.slice(0, at), h("mark", {}, all.slice(at, at + text.length)), all.slice(at + text.length));
      else if (words.firstElementChild) words.textContent = all;
    }
    say(this.found, text ? `${count} ${count === 1 ? "line" : "lines"}` : "");
  }

  /** Scroll to the next line that contains the search text, starting with the last line. */
  jump(step) {
    const hits = [...this.lines.querySelectorAll("[data-hit]")];
    if (!hits.length) return;
    const now = hits.findIndex((one) => "now" in one.dataset);
    const next = now < 0 ? hits.length - 1 : (now + step + hits.length) % hits.length;
    hits[now]?.removeAttribute("data-now");
    hits[next].dataset.now = "";
    this.stick.box.checked = false;
    hits[next].scrollIntoView({ block: "nearest" });
    say(this.found, `${next + 1} of ${hits.length}`);
  }

  /** Save the complete log as a file. The key is in a header, so a plain link would not work. */
  async download() {
    const answer = await load(this.path("text"));
    if (!answer.ok) return say(this.state, sentence(await answer.text()));
    const link = h("a", { href: URL.createObjectURL(await answer.blob()), download: `${this.job.name}-${this.rank}.log` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

/** Create a checkbox with a label. */
function check(id, label, on, changed) {
  const box = h("input", { type: "checkbox", id });
  box.checked = on;
  box.addEventListener("change", () => changed(box.checked));
  return { box, on, element: h("label", { class: "check", for: id }, box, ` ${label}`) };
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "";
}
