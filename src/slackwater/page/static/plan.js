// The plan as a graph: sources on the left, the output on the right.

import { element, text } from "./tradeoff.js";

const WIDE = 190, HIGH = 44, GAP_X = 34, GAP_Y = 14;

export function drawn(plan) {
  if (!plan?.nodes?.length) {
    const nothing = document.createElement("p");
    nothing.textContent = "The plan of this query is not known here.";
    return nothing;
  }
  const level = new Map(), rows = [];
  for (const node of plan.nodes) {
    const depth = Math.max(-1, ...(node.inputs ?? []).map((id) => level.get(id) ?? -1)) + 1;
    level.set(node.id, depth);
    (rows[depth] ??= []).push(node);
  }
  const most = Math.max(...rows.map((row) => row.length));
  const width = rows.length * (WIDE + GAP_X) - GAP_X + 4, height = most * (HIGH + GAP_Y) - GAP_Y + 4;
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Plan: ${plan.nodes.map((node) => node.label).join("; ")}` });
  const at = new Map();
  rows.forEach((row, depth) => row.forEach((node, i) => {
    const room = height - row.length * (HIGH + GAP_Y) + GAP_Y;
    at.set(node.id, [2 + depth * (WIDE + GAP_X), room / 2 + i * (HIGH + GAP_Y)]);
  }));
  for (const node of plan.nodes) {
    const [x, y] = at.get(node.id);
    for (const id of node.inputs ?? []) {
      if (!at.has(id)) continue;
      const [fx, fy] = at.get(id), [ax, ay, bx, by] = [fx + WIDE, fy + HIGH / 2, x, y + HIGH / 2];
      svg.append(element("path", { class: "edge", d: `M${ax} ${ay}C${ax + GAP_X / 2} ${ay} ${bx - GAP_X / 2} ${by} ${bx} ${by}` }));
    }
  }
  for (const node of plan.nodes) svg.append(...box(node, ...at.get(node.id)));
  return svg;
}

function box(node, x, y) {
  const rect = element("rect", { x, y, width: WIDE, height: HIGH, rx: 5, class: "node" });
  const title = element("title", {});
  title.textContent = [node.label, ...(node.details ?? []).map((one) => one.text)].join("\n");
  rect.append(title);
  const kind = text(x + 8, y + 16, node.kind.replaceAll("_", " "), "start");
  const label = text(x + 8, y + 33, node.label.length > 28 ? `${node.label.slice(0, 27)}…` : node.label, "start");
  label.setAttribute("class", "ink");
  return [rect, kind, label];
}
