// Colours and letters of the style sheet, for what is drawn on a canvas; they change with the scheme of the system.

let cache = {};

export function color(name) {
  return (cache[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
}

export const heat = () => color("--heat").split(",").map(Number);

export function font() {
  return (cache.font ??= `${Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.76)}px system-ui, sans-serif`);
}

/** `draw` is called when the scheme, or the size of the window and with it that of letters, has changed. */
export function onChange(draw) {
  const changed = () => { cache = {}; draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener("resize", changed);
}
