// Streams and their clocks, where tuples went, and rows that came late or were rejected.

import { duration, eventTime, number, percent } from "./format.js";
import { element } from "./tradeoff.js";

export const WENT = { in_time: "in time", late: "late", filtered: "filtered", held: "held", rejected: "rejected" };

function table(caption, heads, rows) {
  const made = document.createElement("table");
  if (caption) made.createCaption().textContent = caption;
  const head = made.createTHead().insertRow();
  for (const [name, kind] of heads) {
    const cell = document.createElement("th");
    cell.scope = "col"; cell.textContent = name; if (kind) cell.className = kind;
    head.append(cell);
  }
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((value, i) => {
      const cell = line.insertCell();
      const kind = heads[i][1];
      if (kind) cell.className = kind;
      if (value instanceof Node) cell.append(value); else cell.textContent = value;
    });
  }
  return made;
}

export function streams(snapshot) {
  const clocks = Object.values(snapshot.streams).map((one) => one.clock).filter((clock) => clock != null);
  const largest = clocks.length ? Math.max(...clocks) : null, smallest = clocks.length ? Math.min(...clocks) : null;
  const note = (one) => `${one.waited_for ? "lags, and is waited for" : "wrong clock"}: ${duration(Math.abs(one.ahead) / 1e3)} ${one.ahead > 0 ? "ahead" : "behind"}, since ${eventTime(one.since, true)}`;
  const wrong = [...snapshot.wrong_clocks, ...snapshot.lagging].map((one) => [`${one.stream} / ${one.part}`, one]);
  const rows = [];
  for (const [stream, one] of Object.entries(snapshot.streams)) {
    const behind = one.clock == null || largest == null ? null : largest - one.clock;
    const slow = one.clock != null && one.clock === smallest && smallest < largest;
    const state = one.clock == null ? "has not spoken" : one.idle ? "idle: not waited for" : slow ? "slowest" : "";
    rows.push([stream, eventTime(one.clock, true), duration(behind), number(one.rows), state]);
    const parts = Object.entries(one.partitions);
    for (const [part, clock] of parts) {
      const odd = wrong.find(([name]) => name === `${stream} / ${part}`)?.[1];
      const said = odd ? note(odd) : "";
      const late = clock == null || largest == null ? null : largest - clock;
      rows.push([`· ${part}`, eventTime(clock, true), duration(late), "", said]);
    }
    const hidden = one.partitions_in_all - parts.length;
    if (hidden > 0) rows.push([`· ${number(hidden)} more parts, ahead of these`, "", "", "", ""]);
  }
  for (const [name, one] of wrong) {
    if (!rows.some((row) => row[4] === note(one) && row[0] === `· ${one.part}`)) {
      rows.push([name, "", "", "", note(one)]);
    }
  }
  return table(null, [["stream"], ["clock"], ["behind", "number"], ["rows", "number"], ["note", "mark"]], rows);
}

export function counts(snapshot) {
  const rejected = Object.values(snapshot.rejected).reduce((sum, n) => sum + n, 0);
  const went = { in_time: snapshot.in_time, late: snapshot.late, filtered: snapshot.filtered, held: snapshot.held, rejected };
  const all = Object.values(went).reduce((sum, n) => sum + n, 0);
  const bar = document.createElement("div");
  bar.className = "counts";
  const svg = element("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img",
    "aria-label": Object.entries(went).map(([name, n]) => `${WENT[name]} ${number(n)}`).join(", ") });
  let x = 0;
  for (const [name, n] of Object.entries(went)) {
    const width = all ? (1000 * n) / all : 0;
    svg.append(element("rect", { x, y: 0, width, height: 10, class: name }));
    x += width;
  }
  bar.append(svg);
  const rows = Object.entries(went).map(([name, n]) => [WENT[name], number(n), all ? percent(n / all) : ""]);
  for (const [reason, n] of Object.entries(snapshot.rejected)) rows.push([`· ${reason}`, number(n), percent(n / all)]);
  const made = document.createElement("div");
  made.append(bar, table(null, [["tuples"], ["count", "number"], ["share", "number"]], rows));
  return made;
}

export function samples(rows) {
  if (!rows?.length) return document.createElement("div");
  const shown = rows.map((one) => {
    const code = document.createElement("code");
    code.textContent = one.row;
    return [one.stream, one.reason, code];
  });
  return table("Newest late and rejected rows", [["stream"], ["reason"], ["row"]], shown);
}
