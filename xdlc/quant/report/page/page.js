"use strict";
(() => {
const R = JSON.parse(document.getElementById("data").textContent);
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
const level = value => value == null ? "" : value < R.alarm_db ? "alarm" : value < R.warn_db ? "warn" : "";
const mark = value => { const kind = level(value); return kind ? h("span", { class: "mark " + kind }, db(value)) : db(value); };
const scale = { alarm: `poor: below ${R.alarm_db} dB`, warn: `fair: ${R.alarm_db} to ${R.warn_db} dB`, "": `good: above ${R.warn_db} dB` };
const chip = value => h("span", { class: "chip " + (level(value) || "good"), title: Object.values(scale).join(", ") }, scale[level(value)]);
const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const CLIP = R.clip_warn;
const weakTensor = t => level(t.isolated) || level(t.cumulative) || level(t.sensitivity) || t.clipped > CLIP;
const weakOp = o => level(o.isolated) || level(o.cumulative) || level(o.sensitivity);
const acts = R.tensors.filter(t => !["weight", "bias", "constant"].includes(t.role)).sort((a, b) => a.order - b.order);
const opByName = new Map(R.ops.map(op => [op.name, op]));

// ------------------------------------------------------------------ head
const bits = key => R.options[key];
$("model").textContent = short(R.model || "model", 120);
document.title = "Quantization report: " + short(R.model || "model", 60);
$("facts").textContent = `${bits("act_bitwidth") || "?"}-bit activations, ${bits("weights_bitwidth") || "?"}-bit weights, measured on ${count(R.samples, "held-out sample")}`;
$("foot").textContent = `${R.tool} \u00b7 report schema ${R.schema}`;
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = wanted => {
  document.documentElement.dataset.theme = wanted;
  $("theme").textContent = wanted === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Use the ${wanted === "dark" ? "light" : "dark"} theme`);
};
theme(dark.matches ? "dark" : "light");
dark.addEventListener("change", event => theme(event.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

const stack = (parts, label) => {
  const total = parts.reduce((sum, part) => sum + part.value, 0) || 1;
  let x = 0;
  const svg = s("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": label + ": " + parts.map(p => `${p.label} ${p.text}`).join(", ") });
  for (const part of parts) { const w = 100 * part.value / total; svg.append(s("rect", { x, width: Math.max(0, w - 0.3), height: 4, class: part.color })); x += w; }
  return h("div", { class: "split" }, h("h3", {}, label), svg, h("div", { class: "keys" },
    parts.map(p => h("span", {}, h("span", { class: "swatch " + p.color }), p.label + " ", h("b", {}, p.text)))));
};
const hero = () => {
  const score = h("div", { class: "card" }, h("h2", {}, "Outputs"),
    h("div", { class: "score" }, h("b", {}, db(R.reached)), h("span", {}, R.reached == null || Math.abs(R.reached) >= EXACT ? "" : "dB SQNR"), R.reached != null && chip(R.reached)));
  if (R.weights_only != null && R.activations_only != null) {
    const share = [R.weights_only, R.activations_only].map(value => value >= EXACT ? 0 : 10 ** (-value / 10));
    score.append(stack([
      { label: "weights alone", text: unit(R.weights_only), value: share[0], color: "c2" },
      { label: "activations alone", text: unit(R.activations_only), value: share[1], color: "c1" }], "Where the noise comes from"));
  }
  const of = test => R.ops.filter(test).length;
  const places = [
    ["8 bits", of(o => o.placement === "fixed" && o.act_bits === 8), "c1"], ["16 bits", of(o => o.placement === "fixed" && o.act_bits === 16), "c3"],
    ["other fixed point", of(o => o.placement === "fixed" && o.act_bits !== 8 && o.act_bits !== 16), "c4"],
    ["float", of(o => o.placement === "float"), "c2"], ["integers only", of(o => o.placement === "none"), "c5"]];
  score.append(stack(places.filter(p => p[1]).map(([label, value, color]) => ({ label, value, color, text: String(value) })), count(R.ops.length, "operation")));
  const few = R.tensors.filter(t => t.isolated != null);
  score.append(h("table", { class: "plain counts" }, h("tbody", {}, [
    [`tensors below ${R.warn_db} dB in the network`, acts.filter(t => t.cumulative != null && t.cumulative < R.warn_db).length, acts.length],
    [`tensors below ${R.warn_db} dB when rounded alone`, few.filter(t => t.isolated < R.warn_db).length, few.length],
    [`tensors that clip more than ${percent(CLIP)} of their values`, acts.filter(t => t.clipped > CLIP).length, acts.length],
    ["tensors that use less than a quarter of their range", acts.filter(t => t.used != null && t.used < 0.25).length, acts.length]].map(([label, n, all]) =>
    h("tr", {}, h("td", {}, label), h("td", {}, h("b", {}, String(n)), ` of ${all}`))))));
  if (R.outputs.length > 1 || R.outputs.some(o => o.same != null || o.top1 != null)) {
    const shown = R.outputs.slice(0, 12);
    score.append(h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Output", "SQNR", "weights", "activations"].map(t => h("th", { scope: "col" }, t)))),
      h("tbody", {}, shown.map(o => h("tr", {}, h("td", {}, name(o.name)), h("td", {}, o.same != null ? percent(o.same) + " equal" : mark(o.judged ?? o.sqnr), o.top1 != null && ` top-1 equal in ${percent(o.top1)}`),
        h("td", {}, db(o.weights_only)), h("td", {}, db(o.activations_only)))))));
    if (shown.length < R.outputs.length) score.append(h("p", { class: "muted" }, `and ${R.outputs.length - shown.length} more outputs`));
  }
  const rated = R.ops.filter(o => o.sensitivity != null).sort((a, b) => a.sensitivity - b.sensitivity).slice(0, 6);
  const start = h("div", { class: "card" }, h("h2", {}, "Where to start"),
    h("p", { class: "muted" }, rated.length ? "What the outputs would be if one operation alone were quantized, worst first." : "No operation was quantized alone."),
    h("ol", { class: "worst" }, rated.map(o => h("li", {}, h("div", {},
      h("button", { type: "button", class: "link", onclick: () => show("ops", o) }, name(o.name)),
      h("small", {}, clean(o.type), o.sensitivity_weights != null && o.sensitivity_activation != null ? ` \u00b7 weights ${unit(o.sensitivity_weights)}, activation ${unit(o.sensitivity_activation)}` : "")),
      h("div", {}, mark(o.sensitivity), level(o.sensitivity) ? "" : " dB")))));
  if (R.advice.length) start.append(h("div", { class: "advice" }, R.advice.map(line => h("p", {}, clean(line)))));
  add($("hero"), [score, start]);
};

// ------------------------------------------------------------------ chart
const SERIES = [["cumulative", "in the quantized network", "c1"], ["isolated", "rounded alone", "c2"], ["sensitivity", "outputs if it alone is rounded", "c3"]];
const shownSeries = new Set(SERIES.map(entry => entry[0]));
let cursor = -1;
const chart = () => {
  const box = clear($("chart"));
  const W = Math.max(300, box.clientWidth), H = W < 600 ? 240 : 320, L = 38, T = 10, B = 24, P = 8;
  const values = acts.flatMap(t => [...shownSeries].map(key => t[key])).filter(v => v != null && Math.abs(v) < EXACT);
  const low = Math.max(-40, Math.floor(Math.min(0, ...values.slice(0, 20000)) / 10) * 10), high = Math.min(100, Math.max(30, Math.ceil((Math.max(0, ...values) + 2) / 10) * 10));
  const x = i => L + P + (W - L - 2 * P) * (acts.length < 2 ? 0.5 : i / (acts.length - 1));
  const y = v => T + (H - T - B) * (1 - (Math.max(low, Math.min(high, v)) - low) / (high - low));
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, height: H, tabindex: 0, role: "application", "aria-label": "Chart of signal-to-noise ratios; left and right arrows go from tensor to tensor, Enter shows it in the table", "aria-describedby": "readout" });
  const step = high - low > 80 ? 20 : 10;
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) svg.append(s("line", { class: "rule", x1: L, x2: W, y1: y(v), y2: y(v) }), s("text", { class: "tick", x: L - 8, y: y(v) + 4, "text-anchor": "end" }, v));
  for (const [v, kind] of [[R.warn_db, "warn"], [R.alarm_db, "alarm"]]) svg.append(s("line", { class: "rule " + kind, x1: L, x2: W, y1: y(v), y2: y(v) }));
  svg.append(s("text", { class: "tick", x: L, y: H - 6 }, "input"), s("text", { class: "tick", x: W, y: H - 6, "text-anchor": "end" }, "output"));
  if (shownSeries.has("cumulative")) {
    let path = "", pen = "M", first = null, last = null;
    acts.forEach((t, i) => { if (t.cumulative == null) return; path += `${pen}${x(i).toFixed(1)} ${y(t.cumulative).toFixed(1)}`; pen = "L"; first ??= i; last = i; });
    if (first != null) svg.append(s("path", { class: "area", d: `${path}L${x(last)} ${y(low)}L${x(first)} ${y(low)}Z` }), s("path", { class: "path", d: path }));
  }
  const r = acts.length > 300 ? 1.8 : acts.length > 80 ? 2.4 : 3.2;
  acts.forEach((t, i) => {
    if (shownSeries.has("isolated") && t.isolated != null) svg.append(s("circle", { class: "c2", cx: x(i), cy: y(t.isolated), r }));
    if (shownSeries.has("sensitivity") && t.sensitivity != null) { const q = r * 1.35; svg.append(s("path", { class: "c3", d: `M${x(i)} ${y(t.sensitivity) - q}l${q} ${q}l${-q} ${q}l${-q} ${-q}Z` })); }
  });
  const line = s("line", { class: "cursor", y1: T, y2: H - B, x1: -9, x2: -9 });
  svg.append(line);
  const point = i => {
    if (!acts.length) return;
    cursor = Math.max(0, Math.min(acts.length - 1, i));
    const t = acts[cursor];
    line.setAttribute("x1", x(cursor)); line.setAttribute("x2", x(cursor));
    const op = opByName.get(t.op);
    add(clear($("readout")), [h("b", { class: "name" }, short(t.name, 90)), ` ${op ? clean(op.type) : "graph input"}, ${clean(t.stored)}`, h("br"),
      SERIES.filter(([key]) => t[key] != null).map(([key, label], n) => [n ? " \u00b7 " : "", `${label} `, h("b", {}, unit(t[key]))]).flat(), t.cumulative == null && t.heard ? clean(t.heard) : ""]);
  };
  const at = event => { const place = svg.getBoundingClientRect(); return Math.round((event.clientX - place.left - L - P) / (W - L - 2 * P) * (acts.length - 1)); };
  svg.addEventListener("pointermove", event => point(at(event)));
  svg.addEventListener("click", event => { point(at(event)); if (acts[cursor]) show("tensors", acts[cursor], false); });
  svg.addEventListener("keydown", event => {
    const to = { ArrowLeft: cursor - 1, ArrowRight: cursor + 1, Home: 0, End: acts.length - 1, PageUp: cursor - 10, PageDown: cursor + 10 }[event.key];
    if (to != null) { event.preventDefault(); point(to); } else if (event.key === "Enter" && acts[cursor]) show("tensors", acts[cursor]);
  });
  box.append(svg);
  if (cursor >= 0) point(cursor);
  else $("readout").textContent = acts.length ? "Point at the chart, or use the arrow keys, to read a tensor. Dashed lines: warning at " + R.warn_db + " dB, alarm at " + R.alarm_db + " dB." : "Nothing was measured.";
};
add($("legend"), SERIES.map(([key, label, color]) => h("button", { type: "button", "aria-pressed": "true", onclick: event => {
  const on = !shownSeries.has(key);
  on ? shownSeries.add(key) : shownSeries.delete(key);
  event.currentTarget.setAttribute("aria-pressed", on);
  chart();
} }, h("span", { class: "swatch " + color }), label)));

// ------------------------------------------------------------------ pictures of one tensor
const spark = bars => {
  if (!bars) return "";
  const most = Math.log1p(Math.max(...bars.counts)) || 1, n = bars.counts.length;
  const d = bars.counts.map((c, i) => c ? `M${i * 80 / n} 22v${-Math.max(1, 21 * Math.log1p(c) / most)}h${80 / n}V22Z` : "").join("");
  return s("svg", { viewBox: "0 0 80 22", "aria-hidden": "true" }, s("path", { d, class: "hbar" }));
};
const frame = (W, H, low, high) => ({ W, H, T: 24, B: 44, x: v => 10 + (W - 20) * (v - low) / (high - low || 1) });
const histogram = (t, log) => {
  const b = t.histogram, end = b.low + b.width * b.counts.length;
  const lows = [b.low, t.grid_low, 0].filter(v => v != null), highs = [end, t.grid_high, 0].filter(v => v != null);
  const pad = (Math.max(...highs) - Math.min(...lows)) * 0.02 || 1e-6;
  const low = Math.min(...lows) - pad, high = Math.max(...highs) + pad;
  const f = frame(narrow.matches ? 330 : 640, narrow.matches ? 200 : 250, low, high), base = f.H - f.B, scale = c => log ? Math.log1p(c) : c;
  const most = scale(Math.max(...b.counts)) || 1;
  const svg = s("svg", { viewBox: `0 0 ${f.W} ${f.H}`, role: "img", "aria-label": `Histogram from ${real(t.seen_low)} to ${real(t.seen_high)}; the encoding holds ${real(t.grid_low)} to ${real(t.grid_high)}` });
  if (t.grid_low != null) {
    svg.append(s("rect", { class: "outside", x: f.x(low), width: Math.max(0, f.x(t.grid_low) - f.x(low)), y: f.T, height: base - f.T }), s("rect", { class: "inside", x: f.x(t.grid_low), width: Math.max(1, f.x(t.grid_high) - f.x(t.grid_low)), y: f.T, height: base - f.T }),
      s("rect", { class: "outside", x: f.x(t.grid_high), width: Math.max(0, f.x(high) - f.x(t.grid_high)), y: f.T, height: base - f.T }));
  }
  const w = Math.max(1.2, f.x(b.low + b.width) - f.x(b.low));
  const d = b.counts.map((c, i) => c ? `M${f.x(b.low + i * b.width).toFixed(2)} ${base}v${-Math.max(1, (base - f.T - 8) * scale(c) / most).toFixed(2)}h${w.toFixed(2)}V${base}Z` : "").join("");
  svg.append(s("path", { d, class: "hbar" }), s("line", { class: "axis", x1: 0, x2: f.W, y1: base, y2: base }));
  if (t.grid_low != null) for (const v of [t.grid_low, t.grid_high]) {
    svg.append(s("line", { class: "edge", x1: f.x(v), x2: f.x(v), y1: f.T - 8, y2: base }),
      s("text", { class: "edgetext", x: f.x(v), y: 11, "text-anchor": f.x(v) < f.W / 2 ? "start" : "end" }, real(v)));
  }
  if (t.seen_low != null) {
    svg.append(s("line", { class: "seen", x1: f.x(t.seen_low), x2: Math.max(f.x(t.seen_high), f.x(t.seen_low) + 2), y1: base + 8, y2: base + 8 }),
      s("text", { class: "seentext", x: f.x(t.seen_low), y: base + 24, "text-anchor": f.x(t.seen_low) > f.W * 0.7 ? "end" : "start" }, `values ${real(t.seen_low)} to ${real(t.seen_high)}`));
  }
  svg.append(s("text", { class: "tick", x: Math.min(f.W - 8, Math.max(8, f.x(0))), y: base + 40, "text-anchor": "middle" }, "0"));
  return svg;
};
const channels = t => {
  const c = t.channels, n = c.lows.length, low = Math.min(...c.lows, 0), high = Math.max(...c.highs, 0), W = narrow.matches ? 330 : 640, H = 170, L = 64;
  const y = v => 8 + (H - 16) * (high - v) / (high - low || 1);
  const d = c.lows.map((v, i) => { const x = L + 4 + i * (W - L - 6) / n, w = Math.max(1, (W - L - 6) / n * 0.8); return `M${x.toFixed(2)} ${y(c.highs[i]).toFixed(2)}h${w.toFixed(2)}V${Math.max(y(v), y(c.highs[i]) + 1).toFixed(2)}h${(-w).toFixed(2)}Z`; }).join("");
  return s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Ranges of ${c.count} channels between ${real(low)} and ${real(high)}` },
    s("line", { class: "axis", x1: L, x2: W, y1: y(0), y2: y(0) }), s("path", { d, class: "hbar" }),
    [low, 0, high].filter((v, i, all) => all.indexOf(v) === i).map(v => s("text", { class: "tick", x: L - 6, y: y(v) + 4, "text-anchor": "end" }, real(v))));
};
const facts = rows => h("dl", {}, rows.filter(row => row[1] != null && row[1] !== "" && row[1] !== "\u2013").map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]).flat());
const jump = (kind, item, text) => item ? h("button", { type: "button", class: "link", onclick: () => show(kind, item) }, name(text)) : name(text);
const tensorDetail = t => {
  const left = h("div", {}), op = opByName.get(t.op);
  if (t.heard) left.append(h("p", {}, clean(t.heard) + "."));
  if (t.histogram) {
    let log = true;
    const body = h("div", {}, histogram(t, log));
    left.append(h("figure", {}, h("figcaption", {}, h("h3", {}, "Values" + (t.grid_low != null ? ", the encoding's range shaded" : "")),
      h("button", { type: "button", "aria-pressed": "true", onclick: event => { log = !log; event.currentTarget.setAttribute("aria-pressed", log); event.currentTarget.textContent = log ? "log scale" : "linear scale"; clear(body).append(histogram(t, log)); } }, "log scale")), body));
  }
  if (t.channels) left.append(h("figure", {}, h("figcaption", {}, h("h3", {}, `Range of each of ${count(t.channels.count, "channel")} (axis ${t.channels.axis})` + (t.channels.lows.length < t.channels.count ? ", neighbours joined" : ""))), channels(t)));
  const shared = t.shared.length ? h("span", {}, t.shared.map((other, i) => [i ? ", " : "", jump("tensors", R.tensors.find(x => x.name === other), other)]).flat(), t.shared_count > t.shared.length ? ` and ${t.shared_count - t.shared.length} more` : "") : null;
  return h("div", {}, left, facts([
    [t.role === "input" ? "Role" : t.histogram && !t.cumulative && t.cumulative !== 0 && op ? "Read by" : "Written by", t.op ? jump("ops", op, t.op) : "graph input"],
    ["Shape", t.shape.join(" \u00d7 ") || "scalar"], ["Stored as", clean(t.stored) + (t.bits ? `, ${t.bits} bits` : "") + (t.granularity && t.granularity !== "tensor" ? `, a scale per ${t.granularity}` : "")],
    ["Scale", t.scale == null ? null : t.scale_low != null ? `${real(t.scale_low)} to ${real(t.scale)}` : real(t.scale)], ["Offset", t.offset == null ? null : String(t.offset)],
    ["Encoding holds", t.grid_low == null ? null : `${real(t.grid_low)} to ${real(t.grid_high)}`], ["Values seen", t.seen_low == null ? null : `${real(t.seen_low)} to ${real(t.seen_high)}`],
    ["Calibration saw", t.calibrated_low == null ? null : `${real(t.calibrated_low)} to ${real(t.calibrated_high)}`],
    ["Clipped", t.clipped == null ? null : percent(t.clipped) + (t.clipped ? `, by up to ${real(t.beyond)}` : "")], ["Range in use", t.used == null ? null : percent(t.used)],
    ["In the network", t.cumulative == null ? null : unit(t.cumulative)], ["Rounded alone", t.isolated == null ? null : unit(t.isolated)], ["Outputs if so", t.sensitivity == null ? null : unit(t.sensitivity)],
    ["Encoding from", t.source && clean(t.source)], ["Shared with", shared]]));
};
const opDetail = o => h("div", {}, h("div", {}, o.reason && h("p", {}, `Stayed float: ${clean(o.reason)}.`), o.raised && h("p", {}, `Mixed precision raised it: ${clean(o.raised)}.`),
  o.outputs.map(out => {
    const t = R.tensors.find(held => held.name === out && held.op === o.name);
    return h("figure", {}, h("figcaption", {}, h("h3", {}, "Result ", jump("tensors", t, out))), t && t.histogram && histogram(t, true));
  })),
  facts([["Type", clean(o.type)], ["Source nodes", o.nodes.length ? o.nodes.slice(0, 8).map(node => clean(node)).join(", ") + (o.nodes.length > 8 ? ` and ${o.nodes.length - 8} more` : "") : null],
    ["Place", `${o.order + 1} of ${R.ops.length}`], ["Activations", o.act_bits ? `${o.act_bits} bits` : o.placement === "float" ? "float" : null], ["Weights", o.weight_bits ? `${o.weight_bits} bits` : null],
    ["In the network", o.cumulative == null ? null : unit(o.cumulative)], ["Lost here", o.lost == null ? null : unit(o.lost)], ["Quantized alone", o.isolated == null ? null : unit(o.isolated)],
    ["Outputs if so", o.sensitivity == null ? null : unit(o.sensitivity)], ["by weights", o.sensitivity_weights == null ? null : unit(o.sensitivity_weights)], ["by activation", o.sensitivity_activation == null ? null : unit(o.sensitivity_activation)]]));

// ------------------------------------------------------------------ table
const KINDS = {
  tensors: { rows: R.tensors, weak: weakTensor, detail: tensorDetail, sort: "isolated", kinds: ["role", "stored"], columns: [
    ["name", "Tensor", "", t => [t.role + ", " + clean(t.stored)]], ["order", "Place", "wide", t => t.order < 0 ? "in" : t.order + 1], ["cumulative", "In network", "", t => mark(t.cumulative)], ["isolated", "Alone", "mid", t => mark(t.isolated)],
    ["sensitivity", "Outputs if alone", "mid", t => mark(t.sensitivity)], ["clipped", "Clipped", "wide", t => t.clipped > CLIP ? h("span", { class: "mark warn" }, percent(t.clipped)) : percent(t.clipped)], ["used", "Range in use", "wide", t => percent(t.used)], ["", "Values", "wide spark", t => spark(t.histogram)]] },
  ops: { rows: R.ops, weak: weakOp, detail: opDetail, sort: "sensitivity", kinds: ["type", "placement"], columns: [
    ["name", "Operation", "", o => [clean(o.type) + (o.placement === "float" ? ", float" : "")]], ["order", "Place", "wide", o => o.order + 1], ["act_bits", "Bits", "wide", o => o.placement !== "fixed" ? "\u2013" : `${o.act_bits ?? "\u2013"}${o.weight_bits ? " / " + o.weight_bits : ""}`],
    ...(R.ops.some(o => o.raised) ? [["raised", "Raised", "wide", o => clean(o.raised ?? "")]] : []),
    ["cumulative", "In network", "", o => mark(o.cumulative)], ["lost", "Lost here", "mid", o => db(o.lost)], ["isolated", "Alone", "wide", o => mark(o.isolated)], ["sensitivity", "Outputs if alone", "mid", o => mark(o.sensitivity)], ["sensitivity_weights", "by weights", "wide", o => db(o.sensitivity_weights)], ["sensitivity_activation", "by activation", "wide", o => db(o.sensitivity_activation)]] },
};
const PAGE = 100;
const state = { kind: "tensors", sort: "isolated", down: false, most: PAGE, open: new Set() };
const DOWN_FIRST = new Set(["clipped", "lost"]);
const choose = kind => {
  Object.assign(state, { kind, sort: KINDS[kind].sort, down: false, most: PAGE });
  for (const other of Object.keys(KINDS)) { const tab = $("tab-" + other), on = other === kind; tab.setAttribute("aria-selected", on); tab.tabIndex = on ? 0 : -1; }
  $("rows").setAttribute("aria-labelledby", "tab-" + kind);
  const select = clear($("kind"));
  select.append(h("option", { value: "" }, "all"));
  for (const key of KINDS[kind].kinds) for (const value of [...new Set(KINDS[kind].rows.map(row => row[key]))].sort()) select.append(h("option", { value: key + ":" + value }, short(value, 40)));
};
const chosen = () => {
  const kind = KINDS[state.kind], words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), [key, ...rest] = $("kind").value.split(":");
  const found = kind.rows.filter(row => (!key || row[key] === rest.join(":")) && (!$("weak").checked || kind.weak(row)) &&
    words.every(word => `${row.name} ${row.type || row.role} ${row.stored || ""} ${row.op || ""} ${row.source || ""} ${row.reason || ""} ${(row.nodes || []).join(" ")}`.toLowerCase().includes(word)));
  const value = row => row[state.sort];
  return found.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x == null || y == null) return (x == null) - (y == null) || a.order - b.order;
    return (x < y ? -1 : x > y ? 1 : 0) * (state.down ? -1 : 1) || a.order - b.order;
  });
};
const draw = () => {
  const kind = KINDS[state.kind], found = chosen(), box = clear($("rows"));
  const heads = kind.columns.map(([key, label, hide]) => h("th", { scope: "col", class: hide, "aria-sort": key === state.sort ? (state.down ? "descending" : "ascending") : null },
    key ? h("button", { type: "button", "data-key": key, onclick: () => {
      state.down = key === state.sort ? !state.down : DOWN_FIRST.has(key); state.sort = key; draw(); $("rows").querySelector(`[data-key="${key}"]`).focus();
    } }, label + (key === state.sort ? (state.down ? " \u2193" : " \u2191") : "")) : h("span", { class: "muted" }, "")));
  const body = h("tbody", {}, found.slice(0, state.most).map(row => line(kind, row)).flat());
  box.append(h("p", { class: "hidden", role: "status" }, `${count(found.length, "row")}`));
  if (!found.length) box.append(h("p", { class: "none" }, "Nothing fits. Clear the search, or show all."));
  else box.append(h("table", { class: "list" }, h("thead", {}, h("tr", {}, heads)), body));
  if (found.length > state.most) box.append(h("button", { type: "button", class: "more", onclick: () => { state.most += 5 * PAGE; draw(); } }, `Show more (${found.length - state.most} left)`));
};
const line = (kind, row) => {
  const open = state.open.has(row);
  const cells = kind.columns.map(([key, , hide, cell], place) => {
    if (place) return h("td", { class: hide }, cell(row));
    return h("td", {}, h("button", { type: "button", class: "link", "aria-expanded": String(open), onclick: () => { open ? state.open.delete(row) : state.open.add(row); replace(kind, row); } }, name(row.name)), h("small", {}, cell(row)));
  });
  const first = h("tr", { class: open ? "open" : null }, cells);
  first.item = row;
  return open ? [first, h("tr", {}, h("td", { class: "detail", colspan: kind.columns.filter(([, , hide]) => !(hide.includes("wide") && middle.matches) && !(hide === "mid" && narrow.matches)).length }, kind.detail(row)))] : [first];
};
const find = row => [...$("rows").querySelectorAll("tbody tr")].find(tr => tr.item === row);
const replace = (kind, row) => {
  const old = find(row), after = old.nextElementSibling;
  if (after && !after.item) after.remove();
  old.replaceWith(...line(kind, row));
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
for (const kind of Object.keys(KINDS)) {
  $("tab-" + kind).append(` ${KINDS[kind].rows.length}`);
  $("tab-" + kind).addEventListener("click", () => { choose(kind); draw(); });
  $("tab-" + kind).addEventListener("keydown", event => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = kind === "tensors" ? "ops" : "tensors";
    choose(other); draw(); $("tab-" + other).focus();
  });
}
for (const id of ["search", "kind", "weak"]) $(id).addEventListener("input", () => { state.most = PAGE; draw(); });

// ------------------------------------------------------------------ words
const list = (title, lines, open) => lines.length ? h("details", { open: open ? "" : null }, h("summary", {}, `${title} (${lines.length})`), h("ul", {}, lines.map(text => h("li", {}, clean(text))))) : null;
add($("words"), [
  list("What was not measured", R.unmeasured, true), list("What the quantizer did", R.notes, R.notes.length < 12), list("Operations of other widths", R.exceptions, R.exceptions.length < 12),
  h("details", {}, h("summary", {}, "How to read the figures"), h("dl", {}, [
    ["SQNR", `Power of the float values over power of the error, in dB. 20 dB: off by a tenth; 10 dB: by a third. Below ${R.warn_db} dB is a warning, below ${R.alarm_db} dB an alarm.`],
    ["In network", "The quantized network's value against the float network's: all errors so far."],
    ["Alone", "A tensor: its float values rounded to its encoding. An operation: float inputs, its weights and results as stored."],
    ["Outputs if alone", "The network's outputs if this alone is quantized: what it costs."],
    ["Clipped", "Share of values more than half a step beyond the ends of the encoding."],
    ["Range in use", "Share of the encoding's range that the values take; little of it means steps too coarse."]].map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]).flat())),
  h("details", {}, h("summary", {}, "What was asked for"), facts(Object.entries(R.options).map(([key, value]) => [clean(key), clean(value)])))]);

hero(); choose("tensors"); draw(); chart();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; chart(); draw(); } });
})();
