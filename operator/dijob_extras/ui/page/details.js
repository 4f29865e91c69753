// The tabs about the spec and the conditions of a job: what runs, the YAML, and commands to copy.

import { changes, clock, h, say } from "./dom.js";

export class Details {
  constructor() {
    this.conditions = h("ul", { class: "conditions" });
    this.program = h("div", { class: "programs" });
    this.commands = h("ul", { class: "commands" });
    this.yaml = h("pre", { class: "yaml", tabindex: 0, "aria-label": "The job as YAML" });
    this.yamlTab = h("div", {}, h("p", { class: "copy-line" }, copyButton("YAML", () => this.yaml.textContent)), this.yaml);
    this.tell = changes((conditions) => this.conditions.replaceChildren(...conditions.map(condition)));
    this.showSpec = changes((spec) => this.draw(spec));
  }

  show(job) {
    this.tell(job.conditions);
  }

  draw({ programs, yaml, commands }) {
    this.program.replaceChildren(...programs.map((one) => program(one, programs.length > 1)));
    if (!programs.length) this.program.replaceChildren(h("p", { class: "note" }, "The spec is invalid."));
    this.commands.replaceChildren(...commands.map(([title, text]) => h("li", {}, h("span", {}, title), h("code", {}, text), copyButton(title, () => text))));
    say(this.yaml, yaml);
  }
}

function condition(one) {
  const words = h("div", {}, h("b", {}, one.type), h("span", { class: "reason" }, ` ${one.status}${one.reason ? `, ${one.reason}` : ""}`), one.message ? h("p", {}, one.message) : null);
  return h("li", { "data-problem": one.problem }, words, h("time", { datetime: one.since }, clock(one.since)));
}

function program(one, many) {
  const rows = [
    ["Image", h("code", {}, one.image || "none")],
    ["Command", one.command ? h("pre", { tabindex: 0, "aria-label": "Command" }, one.command) : "the entry point of the image"],
    ["Requests", one.requests || "none"],
    ["Limits", one.limits || "none"],
  ];
  const title = many ? h("h3", {}, `${one.task} (${one.ranks})`) : null;
  return h("div", {}, title, h("dl", { class: "pairs" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

/** Create a button that copies a text. */
export function copyButton(title, text) {
  const button = h("button", { type: "button", class: "button", "aria-label": `Copy: ${title}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      say(button, "Copied");
    } catch {
      // Browsers allow this only on https and on loopback, and only if the user has not forbidden it.
      say(button, "Not allowed");
    }
    setTimeout(() => say(button, "Copy"), 2000);
  });
  return button;
}
