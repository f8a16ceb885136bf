"use strict";
// What the scripts of all reports share: the head, the chart and the table.
const Page = (() => {
const { $, add, h, s, clear, clean, narrow, middle, short, name, EXACT, unit, count, themes } = Base;
const R = JSON.parse(document.getElementById("data").textContent);
const words = children => { $("words").hidden = false; add($("words"), children); };

// ------------------------------------------------------------------ head
const head = (title, line) => {
  $("model").textContent = short(title, 120);
  document.title = short(document.title, 90);
  $("facts").textContent = line;
  $("foot").textContent = `${R.tool} \u00b7 report schema ${R.schema}`;
};
themes($("theme"));
const redraw = [];
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw.forEach(draw => draw()); } });

// Parts of a whole, as a bar. A part has label, text, value and color.
const stack = (parts, label) => {
  const total = parts.reduce((sum, part) => sum + part.value, 0) || 1;
  let x = 0;
  const svg = s("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": label + ": " + parts.map(p => `${p.label} ${p.text}`).join(", ") });
  for (const part of parts) { const w = 100 * part.value / total; svg.append(s("rect", { x, width: Math.max(0, w - 0.3), height: 4, class: part.color })); x += w; }
  return h("div", { class: "split" }, h("h3", {}, label), svg, h("div", { class: "keys" },
    parts.map(p => h("span", {}, h("span", { class: "swatch " + p.color }), p.label + " ", h("b", {}, p.text)))));
};

// ------------------------------------------------------------------ chart
// Ratios in dB of items in order. series: [[key, label, color]], the first as a line, the second as dots, the
// third as diamonds. rules: [[dB, class]]. describe(item): what is read out. pick(item, focus): shows it elsewhere.
const chart = ({ items, series, rules = [], hint, describe, pick, axis = "" }) => {
  const shown = new Set(series.map(entry => entry[0])), [line, dots, diamonds] = series.map(entry => entry[0]);
  let cursor = -1;
  const draw = () => {
    const box = clear($("chart"));
    const W = Math.max(300, box.clientWidth), H = W < 600 ? 240 : 320, L = 38, T = 22, B = 24, P = 8;
    const values = items.flatMap(t => [...shown].map(key => t[key])).filter(v => v != null && Math.abs(v) < EXACT);
    const low = Math.max(-40, Math.floor(values.reduce((a, b) => Math.min(a, b), 0) / 10) * 10), high = Math.min(100, Math.max(30, Math.ceil((values.reduce((a, b) => Math.max(a, b), 0) + 2) / 10) * 10));
    const x = i => L + P + (W - L - 2 * P) * (items.length < 2 ? 0.5 : i / (items.length - 1));
    const y = v => T + (H - T - B) * (1 - (Math.max(low, Math.min(high, v)) - low) / (high - low));
    const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, height: H, tabindex: 0, role: "application", "aria-label": "Chart of signal-to-noise ratios; left and right arrows go from tensor to tensor, Enter shows it in the table", "aria-describedby": "readout" });
    const step = high - low > 80 ? 20 : 10;
    for (let v = Math.ceil(low / step) * step; v <= high; v += step) svg.append(s("line", { class: "rule", x1: L, x2: W, y1: y(v), y2: y(v) }), s("text", { class: "tick", x: L - 8, y: y(v) + 4, "text-anchor": "end" }, v));
    for (const [v, kind] of rules) svg.append(s("line", { class: "rule " + kind, x1: L, x2: W, y1: y(v), y2: y(v) }));
    svg.append(s("text", { class: "tick", x: L - 8, y: 10, "text-anchor": "end" }, "dB"), s("text", { class: "tick", x: L + (W - L) / 2, y: H - 6, "text-anchor": "middle" }, axis));
    svg.append(s("text", { class: "tick", x: L, y: H - 6 }, "input"), s("text", { class: "tick", x: W, y: H - 6, "text-anchor": "end" }, "output"));
    if (shown.has(line)) {
      let path = "", pen = "M", first = null, last = null;
      items.forEach((t, i) => { if (t[line] == null) return; path += `${pen}${x(i).toFixed(1)} ${y(t[line]).toFixed(1)}`; pen = "L"; first ??= i; last = i; });
      if (first != null) svg.append(s("path", { class: "area", d: `${path}L${x(last)} ${y(low)}L${x(first)} ${y(low)}Z` }), s("path", { class: "path", d: path }));
    }
    const r = items.length > 300 ? 1.8 : items.length > 80 ? 2.4 : 3.2;
    items.forEach((t, i) => {
      if (shown.has(dots) && t[dots] != null) svg.append(s("circle", { class: t.bad ? "bad" : "c2", cx: x(i), cy: y(t[dots]), r: t.bad ? r + 1.2 : r }));
      if (shown.has(diamonds) && t[diamonds] != null) { const q = r * 1.35; svg.append(s("path", { class: "c3", d: `M${x(i)} ${y(t[diamonds]) - q}l${q} ${q}l${-q} ${q}l${-q} ${-q}Z` })); }
    });
    const rule = s("line", { class: "cursor", y1: T, y2: H - B, x1: -9, x2: -9 });
    svg.append(rule);
    const point = i => {
      if (!items.length) return;
      cursor = Math.max(0, Math.min(items.length - 1, i));
      const t = items[cursor];
      rule.setAttribute("x1", x(cursor)); rule.setAttribute("x2", x(cursor));
      add(clear($("readout")), [h("b", { class: "name" }, short(t.name, 90)), " ", describe(t), h("br"),
        series.filter(([key]) => t[key] != null).map(([key, label], n) => [n ? " \u00b7 " : "", `${label} `, h("b", {}, unit(t[key]))]).flat(), t[line] == null && t.heard ? clean(t.heard) : ""]);
    };
    const at = event => { const place = svg.getBoundingClientRect(); return Math.round((event.clientX - place.left - L - P) / (W - L - 2 * P) * (items.length - 1)); };
    svg.addEventListener("pointermove", event => point(at(event)));
    svg.addEventListener("click", event => { point(at(event)); if (items[cursor]) pick(items[cursor], false); });
    svg.addEventListener("keydown", event => {
      const to = { ArrowLeft: cursor - 1, ArrowRight: cursor + 1, Home: 0, End: items.length - 1, PageUp: cursor - 10, PageDown: cursor + 10 }[event.key];
      if (to != null) { event.preventDefault(); point(to); } else if (event.key === "Enter" && items[cursor]) pick(items[cursor], true);
    });
    box.append(svg);
    if (cursor >= 0) point(cursor);
    else $("readout").textContent = items.length ? "Point at the chart, or use the arrow keys, to read a tensor." + hint : "Nothing was measured.";
  };
  add($("legend"), series.map(([key, label, color]) => h("button", { type: "button", "aria-pressed": "true", onclick: event => {
    const on = !shown.has(key);
    on ? shown.add(key) : shown.delete(key);
    event.currentTarget.setAttribute("aria-pressed", on);
    draw();
  } }, h("span", { class: "swatch " + color }), label)));
  $("depth").hidden = false;
  draw();
  redraw.push(draw);
};

// ------------------------------------------------------------------ table
// A tab per kind, of rows with name and order. A kind has title, rows, weak(row), detail(row), sort, down (columns
// that begin with the largest), kinds (members that the list of choices offers), and columns: [key, label, class,
// cell(row)], the first with what stands below the name. Returns show(kind, row, focus), which opens a row.
const table = (kinds, weak) => {
  const PAGE = 100;
  const state = { kind: Object.keys(kinds)[0], sort: "", down: false, most: PAGE, open: new Set() };
  const begins = key => (kinds[state.kind].down || []).includes(key);
  const choose = kind => {
    Object.assign(state, { kind, sort: kinds[kind].sort, most: PAGE });
    state.down = begins(state.sort);
    for (const other of Object.keys(kinds)) { const tab = $("tab-" + other), on = other === kind; tab.setAttribute("aria-selected", on); tab.tabIndex = on ? 0 : -1; }
    $("rows").setAttribute("aria-labelledby", "tab-" + kind);
    const select = clear($("kind"));
    select.append(h("option", { value: "" }, "all"));
    for (const key of kinds[kind].kinds) for (const value of [...new Set(kinds[kind].rows.map(row => row[key]))].sort()) select.append(h("option", { value: key + ":" + value }, short(value, 40)));
  };
  const text = row => `${row.name} ${row.type || row.role} ${row.stored || ""} ${row.op || ""} ${row.source || ""} ${row.reason || ""} ${(row.nodes || []).join(" ")}`.toLowerCase();
  const chosen = () => {
    const kind = kinds[state.kind], wanted = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), [key, ...rest] = $("kind").value.split(":");
    const rows = kind.rows.filter(row => (!key || row[key] === rest.join(":")) && (!$("weak").checked || kind.weak(row)) && wanted.every(word => text(row).includes(word)));
    return rows.sort((a, b) => {
      const [x, y] = [a[state.sort], b[state.sort]];
      if (x == null || y == null) return (x == null) - (y == null) || a.order - b.order;
      return (x < y ? -1 : x > y ? 1 : 0) * (state.down ? -1 : 1) || a.order - b.order;
    });
  };
  const draw = () => {
    const kind = kinds[state.kind], rows = chosen(), box = clear($("rows"));
    const heads = kind.columns.map(([key, label, hide]) => h("th", { scope: "col", class: shownAs(key, hide), "aria-sort": key === state.sort ? (state.down ? "descending" : "ascending") : null },
      key ? h("button", { type: "button", "data-key": key, onclick: () => {
        state.down = key === state.sort ? !state.down : begins(key); state.sort = key; draw(); $("rows").querySelector(`[data-key="${key}"]`).focus();
      } }, label + (key === state.sort ? (state.down ? " \u2193" : " \u2191") : "")) : h("span", { class: "muted" }, label)));
    const body = h("tbody", {}, rows.slice(0, state.most).map(row => lines(kind, row)).flat());
    box.append(h("p", { class: "hidden", role: "status" }, `${count(rows.length, "row")}`));
    if (!rows.length) box.append(h("p", { class: "none" }, "Nothing fits. Clear the search, or show all."));
    else box.append(h("table", { class: "list" }, h("thead", {}, h("tr", {}, heads)), body));
    if (rows.length > state.most) box.append(h("button", { type: "button", class: "more", onclick: () => { state.most += 5 * PAGE; draw(); } }, `Show more (${rows.length - state.most} left)`));
  };
  const shownAs = (key, hide) => key === state.sort ? "sorted" : hide;  // what rows are sorted by is never hidden
  const lines = (kind, row) => {
    const open = state.open.has(row);
    const cells = kind.columns.map(([key, , hide, cell], place) => {
      if (place) return h("td", { class: shownAs(key, hide) }, cell(row));
      return h("td", {}, h("button", { type: "button", class: "link", "aria-expanded": String(open), onclick: () => { open ? state.open.delete(row) : state.open.add(row); replace(kind, row); } }, name(row.name)), h("small", {}, cell(row)));
    });
    const first = h("tr", { class: open ? "open" : null }, cells);
    first.item = row;
    return open ? [first, h("tr", {}, h("td", { class: "detail", colspan: kind.columns.filter(([key, , hide]) => key === state.sort || !(hide.includes("wide") && middle.matches) && !(hide === "mid" && narrow.matches)).length }, kind.detail(row)))] : [first];
  };
  const find = row => [...$("rows").querySelectorAll("tbody tr")].find(tr => tr.item === row);
  const replace = (kind, row) => {
    const old = find(row), after = old.nextElementSibling;
    if (after && !after.item) after.remove();
    old.replaceWith(...lines(kind, row));
    find(row).querySelector("button").focus();
  };
  const show = (kind, row, focus = true) => {
    if (state.kind !== kind) choose(kind);
    let place = chosen().indexOf(row);
    if (place < 0) { $("search").value = ""; $("weak").checked = false; $("kind").value = ""; place = chosen().indexOf(row); }
    state.most = Math.max(state.most, place + 20);
    state.open = new Set([row]);
    draw();
    const target = find(row);
    target.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    if (focus) target.querySelector("button").focus({ preventScroll: true });
  };
  const all = Object.keys(kinds);
  all.forEach((kind, place) => $("tabs").append(h("button", { role: "tab", type: "button", id: "tab-" + kind, "aria-controls": "rows",
    onclick: () => { choose(kind); draw(); },
    onkeydown: event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const other = all[(place + step + all.length) % all.length];
      choose(other); draw(); $("tab-" + other).focus();
    } }, kinds[kind].title, h("span", { class: "muted" }, ` ${kinds[kind].rows.length}`))));
  for (const id of ["search", "kind", "weak"]) $(id).addEventListener("input", () => { state.most = PAGE; draw(); });
  $("weak-label").textContent = weak;
  $("table").hidden = false;
  choose(state.kind); draw();
  redraw.push(draw);
  return show;
};
return { ...Base, R, words, head, stack, chart, table };
})();
