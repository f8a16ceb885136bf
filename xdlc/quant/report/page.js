"use strict";
(() => {
const { R, $, add, h, s, clear, clean, narrow, short, name, EXACT, db, unit, real, percent, count, facts, list, terms, words, head, stack, chart, table } = Page;
const level = value => value == null ? "" : value < R.alarm_db ? "alarm" : value < R.warn_db ? "warn" : "";
const mark = value => { const kind = level(value); return kind ? h("span", { class: "mark " + kind }, db(value)) : db(value); };
const scale = { alarm: `poor: below ${R.alarm_db} dB`, warn: `fair: ${R.alarm_db} to ${R.warn_db} dB`, "": `good: above ${R.warn_db} dB` };
const GRADES = { good: "good", fair: "warn", poor: "alarm", useless: "alarm" };
const chip = () => h("span", { class: "chip " + (GRADES[R.verdict] || "unsure"), title: `The worse of dB and agreement. ${Object.values(scale).join(", ")}` }, R.verdict);
const CLIP = R.clip_warn;
const weakTensor = t => level(t.isolated) || level(t.cumulative) || level(t.sensitivity) || t.clipped > CLIP;
const weakOp = o => level(o.isolated) || level(o.cumulative) || level(o.sensitivity);
const acts = R.tensors.filter(t => !["weight", "bias", "constant"].includes(t.role)).sort((a, b) => a.order - b.order);
const opByName = new Map(R.ops.map(op => [op.name, op]));

// ------------------------------------------------------------------ head
const bits = key => R.options[key];
head(R.model || "model", `${bits("act_bitwidth") || "?"}-bit activations, ${bits("weights_bitwidth") || "?"}-bit weights, measured on ${count(R.samples, R.held_out ? "held-out sample" : "calibration sample")}`);
const hero = () => {
  const score = h("div", { class: "card" }, h("h2", {}, "Outputs"),
    h("div", { class: "score" }, h("b", {}, db(R.reached)), h("span", {}, R.reached == null || Math.abs(R.reached) >= EXACT ? "" : "dB SQNR"), R.reached != null && chip()));
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
    [`tensors with an error so far below ${R.warn_db} dB`, acts.filter(t => t.cumulative != null && t.cumulative < R.warn_db).length, acts.length],
    [`tensors with an own error below ${R.warn_db} dB`, few.filter(t => t.isolated < R.warn_db).length, few.length],
    [`tensors that clip more than ${percent(CLIP)} of their values`, acts.filter(t => t.clipped > CLIP).length, acts.length],
    ["tensors that use less than a quarter of their range", acts.filter(t => t.used != null && t.used < 0.25).length, acts.length]].map(([label, n, all]) =>
    h("tr", {}, h("td", {}, label), h("td", {}, h("b", {}, String(n)), ` of ${all}`))))));
  if (R.outputs.length > 1 || R.outputs.some(o => o.same != null || o.top1 != null)) {
    const shown = R.outputs.slice(0, 12);
    score.append(h("table", { class: "plain" }, h("thead", {}, h("tr", {}, [["Output"], ["dB"], ["equal"], ["weights", "mid"], ["activations", "mid"]].map(([t, hide]) => h("th", { scope: "col", class: hide }, t)))),
      h("tbody", {}, shown.map(o => h("tr", {}, h("td", {}, name(o.name)), h("td", {}, mark(o.judged ?? o.sqnr)), h("td", {}, o.rows ? `${percent(o.top1 ?? o.same)} of ${o.rows}` : percent(o.same)),
        h("td", { class: "mid" }, db(o.weights_only)), h("td", { class: "mid" }, db(o.activations_only)))))));
    if (shown.length < R.outputs.length) score.append(h("p", { class: "muted" }, `and ${R.outputs.length - shown.length} more outputs`));
  }
  const rated = R.ops.filter(o => o.sensitivity != null).sort((a, b) => a.sensitivity - b.sensitivity).slice(0, 6);
  const start = h("div", { class: "card" }, h("h2", {}, "Where to start"),
    h("p", { class: "muted" }, rated.length ? "Cost: the outputs' dB if one operation alone is quantized, worst first." : "No operation was quantized alone."),
    h("ol", { class: "worst" }, rated.map(o => h("li", {}, h("div", {},
      h("button", { type: "button", class: "link", onclick: () => show("ops", o) }, name(o.name)),
      h("small", {}, clean(o.type), o.sensitivity_weights != null && o.sensitivity_activation != null ? ` \u00b7 weights ${unit(o.sensitivity_weights)}, activation ${unit(o.sensitivity_activation)}` : "")),
      h("div", {}, mark(o.sensitivity), level(o.sensitivity) ? "" : " dB")))));
  if (R.advice.length) start.append(h("div", { class: "advice" }, R.advice.map(line => h("p", {}, clean(line)))));
  add($("hero"), [score, start]);
};

// ------------------------------------------------------------------ pictures of one tensor
const spark = bars => {
  if (!bars) return "";
  const most = Math.log1p(Math.max(...bars.counts)) || 1, n = bars.counts.length;
  const d = bars.counts.map((c, i) => c ? `M${i * 80 / n} 22v${-Math.max(1, 21 * Math.log1p(c) / most)}h${80 / n}V22Z` : "").join("");
  return s("svg", { viewBox: "0 0 80 22", "aria-hidden": "true" }, s("path", { d, class: "hbar" }));
};
const frame = (W, H, low, high) => ({ W, H, T: 24, B: 44, x: v => 10 + (W - 20) * (v - low) / (high - low || 1) });
// Values that no reader sees lie outside of the encoding on purpose.
const isUnheard = t => t.heard && !(t.clipped > CLIP);
const sentence = text => clean(text).replace(/^./, c => c.toUpperCase()) + ".";
const histogram = (t, log) => {
  const b = t.histogram, end = b.low + b.width * b.counts.length;
  const lows = [b.low, t.grid_low, 0].filter(v => v != null), highs = [end, t.grid_high, 0].filter(v => v != null);
  const pad = (Math.max(...highs) - Math.min(...lows)) * 0.02 || 1e-6;
  const low = Math.min(...lows) - pad, high = Math.max(...highs) + pad;
  const f = frame(narrow.matches ? 330 : 640, narrow.matches ? 200 : 250, low, high), base = f.H - f.B, scale = c => log ? Math.log1p(c) : c;
  const most = scale(Math.max(...b.counts)) || 1;
  const svg = s("svg", { viewBox: `0 0 ${f.W} ${f.H}`, role: "img", "aria-label": `Histogram from ${real(t.seen_low)} to ${real(t.seen_high)}; the encoding holds ${real(t.grid_low)} to ${real(t.grid_high)}` });
  if (t.grid_low != null) {
    const outside = (from, to) => isUnheard(t)
      ? s("path", { class: "unheard", d: Array.from({ length: Math.ceil(Math.max(0, to - from) / 5) }, (_, i) => `M${(from + 5 * i).toFixed(1)} ${f.T}V${base}`).join("") })
      : s("rect", { class: "outside", x: from, width: Math.max(0, to - from), y: f.T, height: base - f.T });
    svg.append(outside(f.x(low), f.x(t.grid_low)), s("rect", { class: "inside", x: f.x(t.grid_low), width: Math.max(1, f.x(t.grid_high) - f.x(t.grid_low)), y: f.T, height: base - f.T }), outside(f.x(t.grid_high), f.x(high)));
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
const jump = (kind, item, text) => item ? h("button", { type: "button", class: "link", onclick: () => show(kind, item) }, name(text)) : name(text);
const tensorDetail = t => {
  const left = h("div", {}), op = opByName.get(t.op);
  if (t.heard) left.append(h("p", {}, sentence(t.heard), isUnheard(t) ? " Hatched: values outside of the encoding, which cost nothing." : ""));
  if (t.histogram) {
    let log = true;
    const body = h("div", {}, histogram(t, log));
    left.append(h("figure", {}, h("figcaption", {}, h("h3", {}, "Count of values" + (t.grid_low != null ? ", the encoding's range shaded" : "")),
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
    ["Cost", t.sensitivity == null ? null : unit(t.sensitivity)], ["Error so far", t.cumulative == null ? null : unit(t.cumulative)], ["Own error", t.isolated == null ? null : unit(t.isolated)],
    ["Encoding from", t.source && clean(t.source)], ["Shared with", shared]]));
};
const opDetail = o => h("div", {}, h("div", {}, o.reason && h("p", {}, `Stayed float: ${clean(o.reason)}.`), o.raised && h("p", {}, `Mixed precision raised it: ${clean(o.raised)}.`),
  o.outputs.map(out => {
    const t = R.tensors.find(held => held.name === out && held.op === o.name);
    return h("figure", {}, h("figcaption", {}, h("h3", {}, "Result ", jump("tensors", t, out))), t && t.histogram && histogram(t, true));
  })),
  facts([["Type", clean(o.type)], ["Source nodes", o.nodes.length ? o.nodes.slice(0, 8).map(node => clean(node)).join(", ") + (o.nodes.length > 8 ? ` and ${o.nodes.length - 8} more` : "") : null],
    ["Place", `${o.order + 1} of ${R.ops.length}`], ["Activations", o.act_bits ? `${o.act_bits} bits` : o.placement === "float" ? "float" : null], ["Weights", o.weight_bits ? `${o.weight_bits} bits` : null],
    ["Error so far", o.cumulative == null ? null : unit(o.cumulative)], ["Lost here", o.lost == null ? null : unit(o.lost)], ["Own error", o.isolated == null ? null : unit(o.isolated)],
    ["Cost", o.sensitivity == null ? null : unit(o.sensitivity)], ["by weights", o.sensitivity_weights == null ? null : unit(o.sensitivity_weights)], ["by activation", o.sensitivity_activation == null ? null : unit(o.sensitivity_activation)]]));

// ------------------------------------------------------------------ table
const KINDS = {
  tensors: { title: "Tensors", rows: R.tensors, weak: weakTensor, detail: tensorDetail, sort: "sensitivity", down: ["clipped"], kinds: ["role", "stored"], columns: [
    ["name", "Tensor", "", t => [t.role + ", " + clean(t.stored)]], ["order", "Place", "wide", t => t.order < 0 ? "in" : t.order + 1], ["sensitivity", "Cost", "", t => mark(t.sensitivity)], ["cumulative", "Error so far", "", t => mark(t.cumulative)], ["isolated", "Own error", "mid", t => mark(t.isolated)],
    ["clipped", "Clipped", "wide", t => t.clipped > CLIP ? h("span", { class: "mark warn" }, percent(t.clipped)) : percent(t.clipped)], ["used", "Range in use", "wide", t => percent(t.used)], ["", "Values", "wide spark", t => spark(t.histogram)]] },
  ops: { title: "Operations", rows: R.ops, weak: weakOp, detail: opDetail, sort: "sensitivity", down: ["lost"], kinds: ["type", "placement"], columns: [
    ["name", "Operation", "", o => [clean(o.type) + (o.placement === "float" ? ", float" : "")]], ["order", "Place", "wide", o => o.order + 1], ["act_bits", "Bits", "wide", o => o.placement !== "fixed" ? "\u2013" : `${o.act_bits ?? "\u2013"}${o.weight_bits ? " / " + o.weight_bits : ""}`],
    ...(R.ops.some(o => o.raised) ? [["raised", "Raised", "wide", o => clean(o.raised ?? "")]] : []),
    ["sensitivity", "Cost", "", o => mark(o.sensitivity)], ["cumulative", "Error so far", "", o => mark(o.cumulative)], ["lost", "Lost here", "mid", o => db(o.lost)], ["isolated", "Own error", "wide", o => mark(o.isolated)], ["sensitivity_weights", "by weights", "wide", o => db(o.sensitivity_weights)], ["sensitivity_activation", "by activation", "wide", o => db(o.sensitivity_activation)]] },
};
const show = table(KINDS, "warnings only");
const SERIES = [["cumulative", "error so far", "c1"], ["isolated", "own error", "c2"], ["sensitivity", "cost", "c3"]];
const describe = t => { const op = opByName.get(t.op); return `${op ? clean(op.type) : "graph input"}, ${clean(t.stored)}`; };
hero();
chart({ items: acts, series: SERIES, rules: [[R.warn_db, "warn"], [R.alarm_db, "alarm"]], describe, pick: (t, focus) => show("tensors", t, focus),
  axis: "tensors, in order of execution",
  hint: ` The line may rise: a pool or a sum averages errors, a Relu cuts them. Dashed lines: warning at ${R.warn_db} dB, alarm at ${R.alarm_db} dB.` });

// The same picture as the report's SVG form; it has no style of its own.
const drawn = new DOMParser().parseFromString(R.picture, "image/svg+xml").documentElement;
$("depth").after(h("section", { class: "card wider" }, document.importNode(drawn, true)));

// ------------------------------------------------------------------ words
words([
  list("What was not measured", R.unmeasured, true), list("What the quantizer did", R.notes, R.notes.length < 12), list("Operations of other widths", R.exceptions, R.exceptions.length < 12),
  terms([
    ["SQNR", `Power of the float values over power of the error, in dB. 20 dB: off by a tenth; 10 dB: by a third. Below ${R.warn_db} dB is a warning, below ${R.alarm_db} dB an alarm.`],
    ["Cost", "What the outputs lose: their dB if this tensor or operation alone is rounded."],
    ["Error so far", "The quantized network's value against the float network's. The line rises where errors average out, as in a pool."],
    ["Own error", "A tensor: its float values rounded to its encoding. An operation: float inputs, its weights and results as stored."],
    ["Clipped", "Share of values more than half a step beyond the ends of the encoding."],
    ["Range in use", "Share of the encoding's range that the values take; little of it means steps too coarse."]]),
  h("details", {}, h("summary", {}, "What was asked for"), facts(Object.entries(R.options).map(([key, value]) => [clean(key), clean(value)])))]);

})();
