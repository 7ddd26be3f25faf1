// The page: listens to the server, and hands every snapshot to its query. Nothing is loaded from elsewhere.

import { Query } from "./query.js";
import { onChange } from "./theme.js";

const SIDE_BY_SIDE = 4;
const queries = new Map();
const main = document.getElementById("queries"), status = document.getElementById("status");
const chooser = document.getElementById("chooser"), nothing = document.getElementById("nothing");
let hello = null;

const source = new EventSource("/events");

source.addEventListener("hello", (event) => {
  hello = JSON.parse(event.data);
  for (const query of queries.values()) query.article.remove();
  queries.clear();
  hello.queries.forEach((told) => queries.set(told.name, new Query(told, hello)));
  main.append(...[...queries.values()].map((query) => query.article));
  choose();
  say();
});

source.addEventListener("snapshots", (event) => {
  for (const snapshot of JSON.parse(event.data)) queries.get(snapshot.query)?.add(snapshot);
  nothing.hidden = true;
  say();
});

source.onerror = () => {
  const over = [...queries.values()].length && [...queries.values()].every((query) => query.store.latest?.ended);
  status.textContent = over ? "ended; the server has stopped, and what is shown stays" : "the server does not answer; trying again";
  // Nothing more will come, and who has ended need not be asked again and again.
  if (over) source.close();
};

function say() {
  const all = [...queries.values()];
  const running = all.filter((query) => !query.store.latest?.ended).length;
  const words = !hello.live ? "a run that is over" : running || !all.length ? "live" : "ended";
  status.textContent = `${words}${hello.control && hello.live ? ", targets can be moved" : ""}`;
  document.title = `slackwater: ${all.map((query) => query.name).join(", ") || "waiting"}`.slice(0, 80);
}

/** Several queries stand side by side; of many, those that are chosen. */
function choose() {
  const all = [...queries.values()];
  chooser.hidden = all.length < 2;
  chooser.replaceChildren(...all.map((query, i) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = query.name;
    const show = (shown) => {
      button.setAttribute("aria-pressed", shown);
      query.article.hidden = !shown;
      query.later();
    };
    button.addEventListener("click", () => show(query.article.hidden));
    show(i < SIDE_BY_SIDE);
    return button;
  }));
}

onChange(() => { for (const query of queries.values()) query.forget(); });
document.addEventListener("visibilitychange", () => { for (const query of queries.values()) query.later(); });
