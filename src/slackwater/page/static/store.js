// Moments of one query, oldest first; the older, the fewer. A page that is open for a day holds no more than MOST.

export const MOST = 900;

export class Store {
  constructor() { this.moments = []; }

  add(moment) {
    const last = this.moments.at(-1);
    if (last && moment.batch < last.batch) this.moments = [];
    if (this.moments.length >= MOST) this.thin();
    if (last) last.trade_off = null;
    if (moment.trade_off) moment.trade_off = { ...moment.trade_off, slacks: moment.trade_off.slacks.map((us) => us / 1e3) };
    if (last && !moment.trade_off) moment.trade_off = this.tradeOff ?? null;
    if (moment.trade_off) this.tradeOff = moment.trade_off;
    if (moment.latency) this.latency = moment.latency;
    const samples = Object.entries(moment.streams).flatMap(([stream, one]) => (one.samples ?? []).map((row) => ({ stream, ...row })));
    if (samples.length) this.samples = samples;
    moment.x = this.time(moment);
    this.moments.push(moment);
  }

  /** The largest clock, in seconds; never less than before, and a little more where it stands still. */
  time(moment) {
    const clocks = Object.values(moment.streams).map((one) => one.clock).filter((clock) => clock != null);
    const before = this.moments.at(-1)?.x;
    const at = clocks.length ? Math.max(...clocks) / 1e3 : before ?? moment.at / 1e3;
    return before != null && at <= before ? before + 1e-3 : at;
  }

  /** Every second one of the older half goes; its arrivals count with the next one. */
  thin() {
    const half = Math.floor(this.moments.length / 4) * 2;
    const kept = [];
    for (let i = 0; i < half; i += 2) {
      const [first, second] = [this.moments[i], this.moments[i + 1]];
      second.delays = added(first.delays, second.delays);
      kept.push(second);
    }
    this.moments = kept.concat(this.moments.slice(half));
  }

  get latest() { return this.moments.at(-1); }
}

function added(one, other) {
  const sum = {};
  for (const part of [one, other]) {
    for (const [name, buckets] of Object.entries(part)) {
      const mine = (sum[name] ??= new Map());
      for (const [bucket, count] of buckets) mine.set(bucket, (mine.get(bucket) ?? 0) + count);
    }
  }
  return Object.fromEntries(Object.entries(sum).map(([name, mine]) => [name, [...mine].sort((a, b) => a[0] - b[0])]));
}

/** Arrivals of all streams of a moment, by bucket of delay. */
export function arrivals(moment, buckets) {
  const counts = new Float64Array(buckets);
  for (const list of Object.values(moment.delays)) for (const [bucket, count] of list) counts[bucket] += count;
  return counts;
}
