// One query: its numbers, pictures and tables. It is drawn at most a few times a second, and only where it is seen.

import { CausesChart, QualityChart, WorkChart } from "./charts.js";
import { bytes, duration, eventTime, NOTHING, number, percent } from "./format.js";
import { Heat } from "./heat.js";
import { drawn } from "./plan.js";
import { Store } from "./store.js";
import { counts, samples, streams } from "./tables.js";
import { byDelays, TradeOff } from "./tradeoff.js";

const REDRAW = 250;

export class Query {
  constructor(told, hello) {
    this.name = told.name; this.told = told; this.hello = hello; this.store = new Store();
    this.article = document.getElementById("query").content.firstElementChild.cloneNode(true);
    this.part = Object.fromEntries([...this.article.querySelectorAll("[data-is]")].map((one) => [one.dataset.is, one]));
    const { part } = this;
    part.name.textContent = told.name;
    const id = `query-${Math.random().toString(36).slice(2)}`;
    part.name.id = id; this.article.setAttribute("aria-labelledby", id); this.article.dataset.query = told.name;
    // Several queries stand on one page; each region says whose it is.
    for (const region of this.article.querySelectorAll("[role=region]")) {
      region.setAttribute("aria-label", `${region.getAttribute("aria-label")} of ${told.name}`);
    }
    this.heat = new Heat(part.heat, part.readout, (at) => { this.select(at); });
    this.charts = [new QualityChart(part.quality), new CausesChart(part.causes), new WorkChart(part.work)];
    this.tradeOff = new TradeOff(part, (share) => this.askFor(share));
    part.ask.hidden = !told.settable;
    part.plan.append(drawn(told.plan));
    captions(part);
    this.seen = true;
    // Before it is painted in its new size: nothing vanishes, and nothing is stretched.
    new ResizeObserver(() => { if (this.drawnAt != null && this.seen) this.draw(); }).observe(this.article);
    new IntersectionObserver((entries) => { this.seen = entries.at(-1).isIntersecting; this.later(); }).observe(this.article);
  }

  add(snapshot) { this.store.add(snapshot); this.later(); }

  later() {
    if (this.waiting || !this.seen || document.hidden) return;
    const wait = Math.max(0, REDRAW - (performance.now() - (this.drawnAt ?? -REDRAW)));
    this.waiting = setTimeout(() => requestAnimationFrame(() => { this.waiting = null; this.draw(); }), wait);
  }

  forget() { for (const chart of this.charts) chart.forget(); this.later(); }

  select(at) {
    for (const chart of this.charts) chart.select(at);
    this.heat.draw(this.store.snapshots, this.hello.delay_edges_ms);
  }

  draw() {
    const { snapshots, latest } = this.store;
    if (!latest || this.article.hidden) return;
    this.drawnAt = performance.now();
    this.numbers(latest);
    this.heat.draw(snapshots, this.hello.delay_edges_ms);
    for (const chart of this.charts) chart.draw(snapshots);
    this.tradeOff.draw(latest.trade_off ?? this.store.tradeOff ?? (latest.quality ? null : byDelays(snapshots, this.hello.delay_edges_ms)), latest);
    this.part.qualityfigure.hidden = !latest.quality;
    this.part.correctedkey.hidden = latest.quality?.after_corrections == null;
    this.part.behindkey.lastChild.textContent = latest.on_arrival ? "last member" : "slowest stream";
    replace(this.part.streams, streams(latest));
    replace(this.part.counts, counts(latest));
    replace(this.part.samples, samples(this.store.samples));
  }

  numbers(now) {
    const { quality } = now, latency = this.store.latency;
    const kind = quality?.of === "windows" ? "windows" : "results";
    const judged = now.in_time + now.late;
    const interval = quality?.low != null && quality.low !== quality.high
      ? `${percent(quality.low)} to ${percent(quality.high)}` : quality?.measured != null ? `of ${kind}, exactly` : "";
    const said = {
      target: now.target,
      state: now.failure ? `failed: ${now.failure}` : now.paused ? "paused" : `${now.ended ? "ended" : this.hello.live ? "running" : "recorded"}${missed(now)}`,
      measured: quality ? percent(quality.measured) : NOTHING, interval: quality ? interval : "no target",
      corrected: percent(quality?.after_corrections), awaited: awaited(now),
      amends: now.amends ?? "", amended: number(now.amended), slackname: now.on_arrival ? "findable for" : "slack",
      slack: duration(now.slack), watermark: now.on_arrival ? "beyond the window" : now.ended && now.watermark == null ? "all is emitted" : now.watermark == null ? "no watermark yet" : `watermark ${eventTime(now.watermark)}`,
      latency: duration(latency?.average), p95: latency?.p95 != null ? `95 % within ${duration(latency.p95)}` : latency ? "on average" : "",
      late: number(now.late), lateshare: judged ? `${percent(now.late / judged)} of tuples` : "",
      results: number(now.results), batch: `epoch ${number(now.batch)}`,
      rate: now.rows_per_second == null ? NOTHING : number(now.rows_per_second), took: `${duration(now.duration)} of work`,
      staterows: number(now.state_rows), statebytes: now.state_bytes ? `${bytes(now.state_bytes)} in windows` : "",
    };
    for (const [name, words] of Object.entries(said)) {
      if (this.part[name].textContent !== words) this.part[name].textContent = words;
    }
    this.part.correctedtile.hidden = quality?.after_corrections == null;
    this.part.amendedtile.hidden = now.amends == null;
    this.part.state.classList.toggle("mark", !!now.failure || missed(now) !== "");
    this.part.asked.hidden = now.target === this.name;
    const warning = now.outlook?.said ?? latency?.advice ?? "";
    this.part.said.hidden = !warning;
    if (this.part.said.textContent !== warning) this.part.said.textContent = warning;
  }

  async askFor(share) {
    const { target } = this.store.latest;
    const asked = target.startsWith("RECALL") ? target.replace(/^RECALL [\d.]+/, `RECALL ${share}`)
      : target.replace(/CONFIDENCE [\d.]+/, `CONFIDENCE ${share}`);
    this.part.ask.disabled = true;
    try {
      const answer = await fetch("/target", {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ query: this.name, target: asked }),
      });
      const told = await answer.json();
      this.part.answer.textContent = answer.ok ? `asked for: ${told.target}` : told.error;
    } catch {
      this.part.answer.textContent = "the query could not be asked: the server does not answer";
    } finally {
      this.part.ask.disabled = false;
    }
  }
}

/** What late tuples will probably still bring. */
function awaited({ quality, ended }) {
  const expected = ended ? null : quality?.corrections_expected;
  return expected == null ? "" : `${number(Math.round(expected))} more expected`;
}

/** What the log says of the target: it is missed while the latest settled period is below it. */
function missed({ quality, outlook }) {
  if (outlook?.said) return ", target unreachable";
  return quality?.latest != null && quality.latest < quality.target ? ", target missed" : "";
}

function captions(part) {
  part.correctedkey = item("corrected", "with corrections"); part.behindkey = item("stream", "slowest stream");
  part.qualitycaption.append(item("quality", "measured quality with its interval"), part.correctedkey,
    item("latest", "latest period"), item("target", "target"));
  part.causescaption.append(item("cause", "slack"), part.behindkey, item("batch", "micro-batch"), "event time, on average");
  part.workcaption.textContent = "rows a second of work";
}

function item(key, words) {
  const made = document.createElement("span"), mark = document.createElement("span");
  made.className = "item"; mark.className = `key key-${key}`; mark.setAttribute("aria-hidden", "true");
  made.append(mark, words);
  return made;
}

function replace(box, content) { box.replaceChildren(content); }
