// Values over event time, drawn by uPlot under the heat map and with the same left and right edge.

import uPlot from "./vendor/uPlot.esm.js";
import { INSET } from "./heat.js";
import { duration } from "./format.js";
import { color, font } from "./theme.js";

const withAlpha = (name, alpha) => {
  const hex = color(name).replace("#", "");
  const [red, green, blue] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${alpha})`;
};

class Chart {
  constructor(box) { this.box = box; this.plot = null; this.stale = false; }

  /** Colours or letters have changed: the chart is made anew when it is drawn next, and stays until then. */
  forget() { this.stale = true; }

  show(data, make) {
    const { width, height } = this.box.getBoundingClientRect();
    if (!width || !data[0].length) return;
    if (this.stale) { this.plot?.destroy(); this.plot = null; this.stale = false; }
    if (!this.plot) this.plot = new uPlot({ ...common(width, height), ...make() }, data, this.box);
    else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData(data);
    }
  }

  select(at) {
    if (!this.plot) return;
    const left = at == null ? -10 : this.plot.valToPos(this.plot.data[0][at], "x");
    this.plot.setCursor({ left, top: at == null ? -10 : 10 }, false);
  }
}

function common(width, height) {
  return {
    width, height, padding: [8, INSET.right, 8, 0], legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
  };
}

/** Points would hide the line. */
const line = (options) => ({ points: { show: false }, ...options });

const TICKS = [0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1];

const axes = (values, size = INSET.left, splits = null) => [
  { show: false },
  {
    ...(splits && { splits }),
    size, font: font(), stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false },
    values: (u, splits) => splits.map(values), space: 22, gap: 6,
  },
];

/** Measured quality with its interval, and with corrections, against the target. */
export class QualityChart extends Chart {
  draw(snapshots) {
    const asked = snapshots.findLast((one) => one.quality)?.quality.target ?? 0.9;
    // Shares are spread by what they leave out, down to a tenth of what the target does: 1 is at the top, the target in
    // the middle, and the worst there was at the bottom, without flattening all else.
    const high = (share) => -Math.log10(1 - share + (1 - asked) / 10);
    const of = (name) => snapshots.map((one) => (one.quality?.[name] == null ? null : high(one.quality[name])));
    const data = [snapshots.map((one) => one.x), of("low"), of("high"), of("measured"), of("latest"), of("target"),
      of("after_corrections")];
    const shares = TICKS.filter((share) => share === 1 || 1 - share > 0.3 * (1 - asked));
    this.high = high; this.shares = shares;
    this.show(data, () => ({
      scales: { x: { time: true }, y: { range: (u) => within(u.data, this.high) } },
      axes: axes((y) => `${Number((this.shares.find((share) => this.high(share) === y) * 100).toFixed(2))} %`,
        INSET.left, (u) => apart(u, this.shares.map(this.high))),
      bands: [{ series: [2, 1], fill: withAlpha("--quality", 0.2) }],
      series: [
        {}, line({ stroke: "transparent" }), line({ stroke: "transparent" }),
        line({ stroke: color("--quality"), width: 2 }),
        line({ stroke: withAlpha("--quality", 0.55), width: 1 }),
        line({ stroke: color("--target"), width: 1.5, dash: [5, 4] }),
        line({ stroke: color("--batch"), width: 2 }),
      ],
    }));
  }
}

/** From the lowest value to 1, with some room. */
function within([, ...values], high) {
  const lowest = Math.min(...values.flat().filter((y) => y != null)), room = 0.05 * (high(1) - lowest);
  return [lowest - room, high(1) + room];
}

/** Those of the values whose words have room beside each other. */
function apart(u, values) {
  const { min, max } = u.scales.y, space = 14 * devicePixelRatio / u.bbox.height * (max - min);
  return values.toReversed().reduce((kept, y) => (y >= min && !(kept[0] - y < space) ? [y, ...kept] : kept), []);
}

/** Latency by cause, one upon the other. */
export class CausesChart extends Chart {
  draw(snapshots) {
    const told = snapshots.filter((one) => one.latency);
    const upTo = (...names) => told.map((one) => names.reduce((sum, name) => sum + one.latency[name], 0));
    const data = [
      told.map((one) => one.x), upTo("slack", "slowest_stream", "micro_batch"), upTo("slack", "slowest_stream"),
      upTo("slack"),
    ];
    this.show(data, () => ({
      scales: { x: { time: true }, y: { range: (u, low, high) => [0, Math.max(high, 1) * 1.08] } },
      axes: axes(duration),
      bands: [
        { series: [1, 2], fill: withAlpha("--batch", 0.55) }, { series: [2, 3], fill: withAlpha("--stream", 0.5) },
      ],
      series: [
        {}, line({ stroke: color("--batch"), width: 1 }), line({ stroke: color("--stream"), width: 1 }),
        line({ stroke: color("--slack"), width: 1.5, fill: withAlpha("--slack", 0.4) }),
      ],
    }));
  }

  select() { /* It has snapshots of its own, those that emitted something. */ }
}

/** Rows a second of work. */
export class WorkChart extends Chart {
  draw(snapshots) {
    const data = [snapshots.map((one) => one.x), snapshots.map((one) => one.rows_per_second)];
    this.show(data, () => ({
      scales: { x: { time: true }, y: { range: (u, low, high) => [0, Math.max(high ?? 1, 1) * 1.08] } },
      axes: axes((v) => (v >= 1e6 ? `${v / 1e6} M/s` : v >= 1e3 ? `${v / 1e3} k/s` : `${v}/s`)),
      series: [{}, line({ stroke: color("--ink"), width: 1.5, fill: withAlpha("--muted", 0.18) })],
    }));
  }
}


