// Draws a rank. Each kind has both a color and a shape, for users who cannot tell colors apart.

import { s } from "./dom.js";

export const KINDS = {
  ready: "ready",
  done: "completed",
  waiting: "starting",
  renewing: "restarting",
  failed: "failed or lost",
  stopped: "stopped",
  absent: "no pod",
};

/** Create the shape of a kind around 0,0, with the size of a circle of radius r. */
export function shape(kind, r) {
  const group = s("g", { class: `shape ${kind}` });
  if (kind === "failed") {
    const side = r * 1.62;
    group.append(
      s("rect", { x: -side / 2, y: -side / 2, width: side, height: side, rx: r * 0.24, transform: "rotate(45)" }),
    );
    return group;
  }
  if (kind === "stopped") {
    group.append(s("rect", { x: -r * 0.85, y: -r * 0.85, width: r * 1.7, height: r * 1.7, rx: r * 0.2 }));
    return group;
  }
  group.append(s("circle", { r: kind === "absent" ? r * 0.8 : r }));
  if (kind === "renewing") {
    const a = r + Math.max(3, r * 0.2);
    const arc = `M ${a} 0 A ${a} ${a} 0 0 1 0 ${a} M ${-a} 0 A ${a} ${a} 0 0 1 0 ${-a}`;
    group.append(s("path", { class: "turning", d: arc }));
  }
  if (kind === "done") group.append(s("circle", { class: "ring", r: r + Math.max(2.5, r * 0.16) }));
  return group;
}

/** Create a small picture of a kind for a line of text. */
export function icon(kind) {
  return s("svg", { class: "icon", viewBox: "-10 -10 20 20", "aria-hidden": "true" }, shape(kind, 6.5));
}
