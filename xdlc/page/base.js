"use strict";
// What the scripts of all pages share: elements, texts of strangers, figures, themes.
const Base = (() => {
const NS = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);
const add = (node, children) => { for (const child of children.flat()) if (child != null && child !== false) node.append(child); return node; };
const h = (tag, attrs, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) node.setAttribute(key, value);
  }
  return add(node, children);
};
const s = (tag, attrs, ...children) => {
  const node = document.createElementNS(NS, tag);
  for (const [key, value] of Object.entries(attrs || {})) if (value != null) node.setAttribute(key, value);
  return add(node, children);
};
const clear = node => { node.replaceChildren(); return node; };

// Names come from strangers: what is invisible or turns text around is shown as a code.
const clean = text => String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, c => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
const narrow = matchMedia("(max-width: 560px)"), middle = matchMedia("(max-width: 900px)");
const short = (text, most = narrow.matches ? 44 : 72) => { text = clean(text); return text.length <= most ? text : text.slice(0, most * 0.45) + "\u2026" + text.slice(-most * 0.5); };
const name = text => h("span", { class: "name", title: clean(text) }, short(text));
const EXACT = 200;
const db = value => value == null ? "\u2013" : value >= EXACT ? "exact" : value <= -EXACT ? "lost" : value.toFixed(1);
const unit = value => value == null || Math.abs(value) >= EXACT ? db(value) : db(value) + " dB";
const real = value => {
  if (value == null) return "\u2013";
  const size = Math.abs(value);
  return value === 0 ? "0" : size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(4));
};
const percent = value => value == null ? "\u2013" : value === 0 ? "0" : value < 0.0001 ? "<0.01\u2009%" : (100 * value).toFixed(value < 0.1 ? 2 : 0) + "\u2009%";
const size = bytes => {
  if (bytes == null) return "\u2013";
  const power = Math.min(4, Math.floor(Math.log2(Math.max(Math.abs(bytes), 1)) / 10));
  return power ? `${(bytes / 1024 ** power).toFixed(1)}\u2009${["", "KiB", "MiB", "GiB", "TiB"][power]}` : `${bytes}\u2009B`;
};
const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const facts = rows => h("dl", {}, rows.filter(row => row[1] != null && row[1] !== "" && row[1] !== "\u2013").map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]).flat());
const list = (title, lines, open) => lines.length ? h("details", { open: open ? "" : null }, h("summary", {}, `${title} (${lines.length})`), h("ul", {}, lines.map(text => h("li", {}, clean(text))))) : null;
const terms = rows => h("details", {}, h("summary", {}, "How to read the figures"), h("dl", {}, rows.map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]).flat()));

// ------------------------------------------------------------------ theme
// A button changes the theme; the document hears "theme" when it has changed. A page without a choice follows the browser.
const themes = (button, signal) => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = kind => {
    document.documentElement.dataset.theme = kind;
    button.textContent = kind === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${kind === "dark" ? "light" : "dark"} theme`);
    document.dispatchEvent(new Event("theme"));
  };
  theme(document.documentElement.dataset.theme || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", event => theme(event.matches ? "dark" : "light"), { signal });
  button.addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"), { signal });
};
return { $, add, h, s, clear, clean, narrow, middle, short, name, EXACT, db, unit, real, percent, size, count, facts, list, terms, themes };
})();
