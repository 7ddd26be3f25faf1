// Numbers as people read them, always with their unit.

const count = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const NOTHING = "–";

export const number = (n) => (n == null ? NOTHING : count.format(n));

/** A duration, given in milliseconds, to the digits that matter. */
export function duration(ms) {
  if (ms == null) return NOTHING;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${Number(ms.toPrecision(2))} ms`;
  if (ms < 1000) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  if (ms < 60e3) return `${Number((ms / 1e3).toFixed(ms < 10e3 ? 2 : 1))} s`;
  if (ms < 3600e3) return whole(ms, 60e3, "min", 1e3, "s");
  if (ms < 86400e3) return whole(ms, 3600e3, "h", 60e3, "min");
  return whole(ms, 86400e3, "d", 3600e3, "h");
}

function whole(ms, large, name, small, rest) {
  const many = Math.floor(ms / large), left = Math.floor((ms % large) / small);
  return left ? `${many} ${name} ${left} ${rest}` : `${many} ${name}`;
}

/** A share as percent; never 100 % unless nothing is missing. */
export function percent(share) {
  if (share == null) return NOTHING;
  if (share >= 1) return "100 %";
  const digits = share > 0.99 ? 2 : 1;
  return `${Math.min(share * 100, digits === 2 ? 99.99 : 99.9).toFixed(digits)} %`;
}

export function bytes(n) {
  if (n == null) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
  return `${at ? n.toFixed(n < 10 ? 1 : 0) : n} ${units[at]}`;
}

/** An event time in UTC; the date only where it is asked for. */
export function eventTime(ms, withDate = false) {
  if (ms == null) return NOTHING;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return `${ms} ms`;
  const text = at.toISOString();
  return withDate ? `${text.slice(0, 10)} ${text.slice(11, 23)} UTC` : text.slice(11, 21);
}
