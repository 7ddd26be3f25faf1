// The picture that explains the product: how late arrivals are over time, with the slack in force drawn over it.

import { arrivals } from "./store.js";
import { duration, eventTime, number, percent } from "./format.js";
import { color, font, heat } from "./theme.js";

const LEFT = 58, RIGHT = 10, TOP = 6, BOTTOM = 20;
const TICKS = [1, 10, 100, 1e3, 10e3, 60e3, 600e3, 3600e3, 86400e3, 7 * 86400e3];
export const INSET = { left: LEFT, right: RIGHT };

/** Where a delay lies on the axis: bucket k holds (edge k-1, edge k] and is one high. */
export const place = (ms) => (ms <= 0 ? 0.5 : ms < 1 ? 1 + ms : 2 + 2 * Math.log2(ms));

export class Heat {
  constructor(box, readout, onMove) {
    this.box = box; this.canvas = box.querySelector("canvas"); this.readout = readout; this.onMove = onMove;
    this.at = null;
    box.addEventListener("pointermove", (event) => this.point(event.offsetX));
    box.addEventListener("pointerleave", () => this.select(null));
    box.addEventListener("keydown", (event) => this.key(event));
    box.addEventListener("blur", () => this.select(null));
  }

  draw(snapshots, edges) {
    this.snapshots = snapshots; this.edges = edges;
    const { width, height } = this.box.getBoundingClientRect();
    if (!width || !snapshots.length) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio); this.canvas.height = Math.round(height * ratio);
    }
    const g = this.canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    const counts = snapshots.map((one) => arrivals(one, edges.length));
    let top = 12;
    snapshots.forEach((one, i) => {
      for (let k = edges.length - 1; k > top; k -= 1) if (counts[i][k]) { top = k; break; }
      top = Math.max(top, Math.ceil(place(one.slack)));
    });
    this.scale(snapshots, width, height, Math.min(top + 1.5, edges.length));
    this.cells(g, snapshots, counts);
    this.axes(g, width, height);
    this.slack(g, snapshots);
    this.cursor(g, height);
    this.describe(snapshots, counts);
  }

  scale(snapshots, width, height, rows) {
    const first = snapshots[0].x, last = snapshots.at(-1).x, span = Math.max(last - first, 1e-3);
    this.begin = snapshots.length > 1 ? first - span / snapshots.length : first - 1;
    this.end = last;
    this.x = (seconds) => LEFT + ((seconds - this.begin) / (this.end - this.begin)) * (width - LEFT - RIGHT);
    this.y = (row) => height - BOTTOM - (row / rows) * (height - TOP - BOTTOM);
    this.rows = rows;
  }

  cells(g, snapshots, counts) {
    // By arrivals a second of event time: snapshots may be long or short.
    const widths = snapshots.map((one, i) => Math.max(one.x - (i ? snapshots[i - 1].x : this.begin), 1e-3));
    let most = 0;
    counts.forEach((row, i) => row.forEach((count) => { most = Math.max(most, count / widths[i]); }));
    if (!most) return;
    const [red, green, blue] = heat();
    snapshots.forEach((one, i) => {
      const left = this.x(i ? snapshots[i - 1].x : this.begin), right = this.x(one.x);
      counts[i].forEach((count, k) => {
        if (!count) return;
        const strength = 0.1 + 0.9 * Math.log1p((count / widths[i])) / Math.log1p(most);
        g.fillStyle = `rgba(${red},${green},${blue},${strength.toFixed(3)})`;
        const upper = this.y(k + 1), lower = this.y(k);
        g.fillRect(left, upper, Math.max(right - left + 0.4, 1), lower - upper - 0.4);
      });
    });
  }

  axes(g, width, height) {
    g.font = font(); g.fillStyle = color("--muted"); g.strokeStyle = color("--line"); g.lineWidth = 1;
    g.textAlign = "right"; g.textBaseline = "middle";
    g.fillText("none", LEFT - 6, this.y(0.5));
    let last = this.y(0.5);
    for (const tick of TICKS) {
      if (place(tick) > this.rows) break;
      const y = Math.round(this.y(place(tick))) + 0.5;
      if (last - y < 13) continue;
      last = y;
      g.beginPath(); g.moveTo(LEFT, y); g.lineTo(width - RIGHT, y); g.stroke();
      g.fillText(duration(tick), LEFT - 6, y);
    }
    g.textBaseline = "alphabetic";
    const steps = Math.max(1, Math.floor((width - LEFT - RIGHT) / 110));
    for (let i = 0; i <= steps; i += 1) {
      const at = this.begin + ((this.end - this.begin) * i) / steps;
      g.textAlign = i === 0 ? "left" : i === steps ? "right" : "center";
      g.fillText(eventTime(at * 1e3).slice(0, 8), this.x(at), height - 5);
    }
  }

  slack(g, snapshots) {
    const line = () => {
      g.beginPath();
      snapshots.forEach((one, i) => {
        const y = this.y(place(one.slack));
        if (i === 0) g.moveTo(this.x(this.begin), y);
        else g.lineTo(this.x(snapshots[i - 1].x), y);
        g.lineTo(this.x(one.x), y);
      });
      g.stroke();
    };
    g.lineJoin = "round";
    g.strokeStyle = color("--card"); g.lineWidth = 5; line();
    g.strokeStyle = color("--slack"); g.lineWidth = 2.5; line();
  }

  cursor(g, height) {
    if (this.at == null || !this.snapshots[this.at]) return;
    const x = Math.round(this.x(this.snapshots[this.at].x)) - 0.5;
    g.strokeStyle = color("--ink"); g.lineWidth = 1; g.setLineDash([3, 3]);
    g.beginPath(); g.moveTo(x, TOP); g.lineTo(x, height - BOTTOM); g.stroke(); g.setLineDash([]);
  }

  describe(snapshots, counts) {
    const now = snapshots.at(-1);
    const text = `Arrivals by delay from ${eventTime(this.begin * 1e3)} to ${eventTime(this.end * 1e3)} UTC of event time;`
      + ` slack is ${duration(now.slack)} now. Arrow keys move along.`;
    if (this.box.getAttribute("aria-label") !== text) this.box.setAttribute("aria-label", text);
    if (this.at != null && counts[this.at]) this.say(snapshots[this.at], counts[this.at]);
    else this.readout.textContent = "";
  }

  say(snapshot, counts) {
    const all = counts.reduce((sum, count) => sum + count, 0);
    const beyond = counts.reduce((sum, count, k) => sum + (this.edges[k] > snapshot.slack ? count : 0), 0);
    this.readout.textContent = `${eventTime(snapshot.x * 1e3)} UTC: ${number(all)} arrivals, `
      + `${percent(all ? beyond / all : 0)} with a delay beyond the slack of ${duration(snapshot.slack)}`;
  }

  point(x) {
    if (!this.snapshots?.length) return;
    const seconds = this.begin + ((x - LEFT) / (this.box.clientWidth - LEFT - RIGHT)) * (this.end - this.begin);
    const at = this.snapshots.findIndex((one) => one.x >= seconds);
    this.select(at < 0 ? this.snapshots.length - 1 : at);
  }

  key(event) {
    if (!this.snapshots?.length) return;
    const last = this.snapshots.length - 1, at = this.at ?? last;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, PageUp: at - 10, PageDown: at + 10 }[event.key];
    if (to == null) return;
    event.preventDefault();
    this.select(Math.min(Math.max(to, 0), last));
  }

  select(at) {
    this.at = at;
    this.onMove(at);
  }
}
