// The trade-off now: the share that each slack reaches, by the controller's own curve, and the point we are at.

import { duration, percent } from "./format.js";
import { place } from "./heat.js";

const NS = "http://www.w3.org/2000/svg";
const LEFT = 58, RIGHT = 14, TOP = 10, BOTTOM = 34;
const TICKS = [1, 10, 100, 1e3, 10e3, 60e3, 600e3, 3600e3, 86400e3];
/** Shares are spread by what they leave out: 0.99 is as far from 0.9 as 0.999 is from 0.99. */
const spread = (share) => -Math.log10(Math.max(1 - share, 1e-4));

export class TradeOff {
  constructor(parts, onAsk) {
    Object.assign(this, parts);
    this.wish.min = 0.5; this.wish.max = 0.999; this.wish.step = 0.001; this.wish.value = 0.95;
    this.wish.addEventListener("input", () => { this.touched = true; this.redraw(); });
    this.curve.addEventListener("pointermove", (event) => this.point(event));
    this.ask.addEventListener("click", () => onAsk(Number(this.wish.value)));
  }

  /** `known` is {slacks, shares, of} of the controller, or of the delays alone where it has none. */
  draw(known, snapshot) {
    this.known = known; this.snapshot = snapshot;
    if (!this.touched && snapshot.quality) this.wish.value = snapshot.quality.target;
    this.redraw();
  }

  redraw() {
    const { known, snapshot } = this;
    const { width, height } = this.curve.getBoundingClientRect();
    if (!width || !snapshot) return;
    this.wish.disabled = !known;
    if (!known) {
      this.curve.replaceChildren();
      this.answer.textContent = "nothing is known yet of what late tuples cost";
      return;
    }
    const cap = snapshot.outlook?.cap;
    const longest = Math.max(known.slacks.at(-1), snapshot.slack, 1);
    const right = place(longest) + 1, low = spread(known.shares[0]), high = spread(0.9995);
    this.x = (ms) => LEFT + (place(ms) / right) * (width - LEFT - RIGHT);
    this.y = (share) => height - BOTTOM - ((spread(share) - low) / (high - low)) * (height - TOP - BOTTOM);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.inWords() });
    this.axes(svg, width, height, right);
    if (cap != null && cap <= longest) svg.append(line(this.x(cap), TOP, this.x(cap), height - BOTTOM, "cap"));
    const points = known.shares.map((share, i) => `${this.x(known.slacks[i])},${this.y(share)}`).join(" ");
    svg.append(element("polyline", { points, class: "curve-line" }));
    const wish = Number(this.wish.value), needs = slackFor(known, wish);
    const x = this.x(needs), y = this.y(wish);
    svg.append(line(LEFT, y, x, y, "wish"), line(x, y, x, height - BOTTOM, "wish"));
    svg.append(element("circle", { cx: x, cy: y, r: 4.5, class: "wish-dot" }));
    const reached = snapshot.quality?.latest ?? snapshot.quality?.measured;
    if (reached != null) {
      svg.append(element("circle", { cx: this.x(snapshot.slack), cy: this.y(Math.max(reached, known.shares[0])), r: 6, class: "now-dot" }));
    }
    this.curve.replaceChildren(svg);
    this.answer.textContent = this.inWords();
    this.wish.setAttribute("aria-valuetext", `${percent(wish)}, a slack of about ${duration(needs)}`);
  }

  inWords() {
    const wish = Number(this.wish.value), name = { results: "of results", windows: "of windows", tuples: "of tuples in time" };
    return `${percent(wish)} ${name[this.known.of]} would take a slack of about ${duration(slackFor(this.known, wish))}; `
      + `it is ${duration(this.snapshot.slack)} now`;
  }

  axes(svg, width, height, right) {
    let last = -100;
    for (const tick of [0, ...TICKS]) {
      const x = this.x(tick);
      if (place(tick) > right || x - last < 44) continue;
      last = x;
      svg.append(line(x, TOP, x, height - BOTTOM, "axis"), text(x, height - BOTTOM + 14, tick ? duration(tick) : "none", "middle"));
    }
    svg.append(text(width - RIGHT, height - 4, "slack →", "end"));
    for (const share of [0.5, 0.8, 0.9, 0.95, 0.99, 0.999]) {
      const y = this.y(share);
      svg.append(line(LEFT, y, width - RIGHT, y, "axis"), text(LEFT - 6, y + 4, `${Number((share * 100).toFixed(1))} %`, "end"));
    }
  }

  point(event) {
    if (!this.y || !this.known) return;
    const slack = event.offsetX;
    let best = 0.5, distance = Infinity;
    for (let share = 0.5; share <= 0.9991; share += 0.001) {
      const off = Math.abs(this.x(slackFor(this.known, share)) - slack) + 0.2 * Math.abs(this.y(share) - event.offsetY);
      if (off < distance) { distance = off; best = share; }
    }
    this.touched = true;
    this.wish.value = best.toFixed(3);
    this.redraw();
  }
}

/** The slack for a share between two of the curve. */
export function slackFor({ shares, slacks }, share) {
  let at = shares.findIndex((one) => one >= share);
  if (at < 0) at = shares.length - 1;
  if (at === 0) return slacks[0];
  const part = Math.min(1, (spread(share) - spread(shares[at - 1])) / (spread(shares[at]) - spread(shares[at - 1])));
  return slacks[at - 1] + part * (slacks[at] - slacks[at - 1]);
}

/** A curve by delays alone, for queries without a target: the share of tuples that each slack would keep in time. */
export function byDelays(snapshots, edges) {
  const counts = new Float64Array(edges.length);
  for (const one of snapshots) for (const list of Object.values(one.delays)) for (const [k, n] of list) counts[k] += n;
  const all = counts.reduce((sum, n) => sum + n, 0);
  if (!all) return null;
  const shares = [0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];
  const slacks = shares.map((share) => {
    let sum = 0;
    for (let k = 0; k < edges.length; k += 1) { sum += counts[k]; if (sum >= share * all) return edges[k]; }
    return edges.at(-1);
  });
  return { of: "tuples", shares, slacks };
}

function element(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const line = (x1, y1, x2, y2, kind) => element("line", { x1, y1, x2, y2, class: kind });

function text(x, y, words, anchor) {
  const made = element("text", { x, y, "text-anchor": anchor });
  made.textContent = words;
  return made;
}

export { element, line, text };
