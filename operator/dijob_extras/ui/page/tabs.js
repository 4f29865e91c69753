// A card with tabs, as in the ARIA Authoring Practices: the arrow keys move between the tabs, and Tab
// leads to the content of the open tab.

import { h, mark } from "./dom.js";

export class Tabs {
  /** Create tabs from [title, name, element] entries. The first one is open. */
  constructor(label, entries) {
    this.tabs = entries.map(([title, name]) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}` }, title));
    this.panels = entries.map(([, name, element]) => h("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}` }, element));
    const list = h("div", { class: "tabs", role: "tablist", "aria-label": label }, ...this.tabs);
    this.element = h("section", { class: "card details", "aria-label": label }, list, ...this.panels);
    this.tabs.forEach((tab, at) => tab.addEventListener("click", () => this.open(at)));
    list.addEventListener("keydown", (event) => this.move(event));
    this.open(0);
  }

  open(chosen) {
    this.chosen = chosen;
    this.tabs.forEach((tab, at) => {
      mark(tab, "aria-selected", String(at === chosen));
      tab.tabIndex = at === chosen ? 0 : -1;
      this.panels[at].hidden = at !== chosen;
    });
  }

  move(event) {
    const last = this.tabs.length - 1;
    const to = { ArrowRight: this.chosen + 1, ArrowLeft: this.chosen - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.open((to + this.tabs.length) % this.tabs.length);
    this.tabs[this.chosen].focus();
  }
}
