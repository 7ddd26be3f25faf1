// Snapshots of one query, oldest first; the older, the fewer. A page that is open for a day holds no more than MOST.

export const MOST = 900;

export class Store {
  constructor() { this.snapshots = []; }

  add(snapshot) {
    const last = this.snapshots.at(-1);
    if (last && snapshot.batch < last.batch) this.snapshots = [];
    if (this.snapshots.length >= MOST) this.thin();
    if (last) last.trade_off = null;
    if (snapshot.trade_off) snapshot.trade_off = { ...snapshot.trade_off, slacks: snapshot.trade_off.slacks.map((us) => us / 1e3) };
    if (last && !snapshot.trade_off) snapshot.trade_off = this.tradeOff ?? null;
    if (snapshot.trade_off) this.tradeOff = snapshot.trade_off;
    if (snapshot.latency) this.latency = snapshot.latency;
    const samples = Object.entries(snapshot.streams).flatMap(([stream, one]) => (one.samples ?? []).map((row) => ({ stream, ...row })));
    if (samples.length) this.samples = samples;
    snapshot.x = this.time(snapshot);
    this.snapshots.push(snapshot);
  }

  /** The largest clock, in seconds; never less than before, and a little more where it stands still. */
  time(snapshot) {
    const clocks = Object.values(snapshot.streams).map((one) => one.clock).filter((clock) => clock != null);
    const before = this.snapshots.at(-1)?.x;
    const at = clocks.length ? Math.max(...clocks) / 1e3 : before ?? snapshot.at / 1e3;
    return before != null && at <= before ? before + 1e-3 : at;
  }

  /** Every second one of the older half goes; its arrivals count with the next one. */
  thin() {
    const half = Math.floor(this.snapshots.length / 4) * 2;
    const kept = [];
    for (let i = 0; i < half; i += 2) {
      const [first, second] = [this.snapshots[i], this.snapshots[i + 1]];
      second.delays = added(first.delays, second.delays);
      kept.push(second);
    }
    this.snapshots = kept.concat(this.snapshots.slice(half));
  }

  get latest() { return this.snapshots.at(-1); }
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

/** Arrivals of all streams of a snapshot, by bucket of delay. */
export function arrivals(snapshot, buckets) {
  const counts = new Float64Array(buckets);
  for (const list of Object.values(snapshot.delays)) for (const [bucket, count] of list) counts[bucket] += count;
  return counts;
}
