"use strict";
(() => {
const { R, $, add, h, clean, short, name, db, unit, real, count, facts, terms, words, head, chart, table } = Page;
const rows = R.tensors.map((t, order) => ({
  ...t, order, name: t.tensor, bad: t.is_wrong, all: t.cumulative, alone: t.isolated,
  cumulative: t.cumulative.db, isolated: t.isolated && t.isolated.db, cosine: t.cumulative.cosine, largest: t.cumulative.largest,
  custom: t.cumulative.custom, broken: t.cumulative.nans + t.cumulative.infs,
}));
const byName = new Map(rows.map(row => [row.name, row]));
const first = byName.get(R.first_wrong), broken = byName.get(R.first_not_finite);
const mark = (row, text) => row.bad ? h("span", { class: "mark alarm" }, text) : text;
const jump = row => h("button", { type: "button", class: "link", onclick: () => show("tensors", row) }, name(row.op));
const nodes = row => row.nodes.length ? row.nodes.slice(0, 8).map(node => short(node)).join(", ") + (row.nodes.length > 8 ? ` and ${row.nodes.length - 8} more` : "") : null;
head(`${R.candidate} against ${R.reference}`, `${count(rows.length, "tensor")} compared on ${count(R.samples, "sample")}` + (R.unaligned ? `; ${R.unaligned} have no counterpart` : ""));

// ------------------------------------------------------------------ head
const wrong = rows.filter(row => row.bad);
const verdict = h("div", { class: "card" }, h("h2", {}, "First wrong operation"),
  first ? [h("p", {}, jump(first), " ", h("span", { class: "chip alarm" }, clean(first.type))), facts([
    ["Source nodes", nodes(first)], ["Alone", unit(first.isolated)], ["Why wrong", clean(first.fault)], ["Expected", `at least ${unit(first.least)}`],
    ["With errors before", unit(first.cumulative)], ["Largest difference", real(first.largest)]])]
    : h("p", {}, h("span", { class: "chip good" }, "No operation is wrong alone")));
add(verdict, [h("table", { class: "plain counts" }, h("tbody", {}, [
  ["operations that are wrong alone", String(wrong.length)], ["tensors with NaN or infinities that the reference lacks", String(rows.filter(row => row.broken).length)],
  ["the first of them", broken ? jump(broken) : null]].filter(row => row[1] != null).map(([label, value]) => h("tr", {}, h("td", {}, label), h("td", {}, value))))),
  h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Output", "SQNR", "cosine", "largest difference"].map(text => h("th", { scope: "col" }, text)))),
    h("tbody", {}, R.outputs.slice(0, 12).map(output => [output, byName.get(output)]).map(([output, row]) => h("tr", {}, h("td", {}, name(output)),
      row ? [h("td", {}, unit(row.cumulative)), h("td", {}, row.cosine.toFixed(5)), h("td", {}, real(row.largest))] : h("td", { colspan: 3 }, "not compared")))))]);
const worst = rows.filter(row => row.isolated != null).sort((a, b) => a.isolated - b.isolated || a.order - b.order).slice(0, 8);
add($("hero"), [verdict, h("div", { class: "card" }, h("h2", {}, "Worst alone"),
  h("p", { class: "muted" }, worst.length ? "Largest errors of operations that get right inputs." : "No operation ran alone."),
  h("ol", { class: "worst" }, worst.map(row => h("li", {}, h("div", {}, jump(row), h("small", {}, clean(row.type), ` \u00b7 at least ${unit(row.least)} are expected`)),
    h("div", {}, mark(row, db(row.isolated)), row.bad || Math.abs(row.isolated) >= 200 ? "" : " dB")))))]);

// ------------------------------------------------------------------ table
const figures = (title, side) => side && [[title, unit(side.db)], ["cosine", side.cosine.toFixed(6)], ["largest difference", real(side.largest)],
  ["NaN", side.nans || null], ["infinities", side.infs || null], ["metric", side.custom == null ? null : real(side.custom)]];
const detail = row => h("div", {}, facts([["Operation", name(row.op)], ["Type", clean(row.type)], ["Stored as", clean(row.dtype)], ["Source nodes", nodes(row)],
  ["Expected alone", `at least ${unit(row.least)}`], ["Why wrong", row.fault && clean(row.fault)]]), facts([...figures("With errors before", row.all), ...(figures("Alone", row.alone) || [])]));
const show = table({ tensors: { title: "Tensors", rows, weak: row => row.bad || row.broken, detail, sort: "order", down: ["largest", "broken", "custom"], kinds: ["type", "dtype"], columns: [
  ["name", "Tensor", "", row => [clean(row.type), ", ", short(row.op)]], ["order", "Place", "wide", row => row.order + 1], ["isolated", "Alone", "", row => mark(row, db(row.isolated))], ["least", "Expected", "mid", row => db(row.least)],
  ["cumulative", "Errors before", "", row => db(row.cumulative)], ["cosine", "Cosine", "wide", row => row.cosine.toFixed(5)], ["largest", "Largest", "wide", row => real(row.largest)],
  ["broken", "NaN, inf", "wide", row => row.broken || "\u2013"], ...(rows.some(row => row.custom != null) ? [["custom", "Metric", "mid", row => real(row.custom)]] : [])] } }, "wrong only");
chart({ items: rows, series: [["cumulative", "with all errors before", "c1"], ["isolated", "alone", "c2"]], hint: " Red dots: wrong alone.", pick: (row, focus) => show("tensors", row, focus),
  describe: row => `${clean(row.type)}, ${clean(row.dtype)}${row.bad ? `, wrong: ${short(row.fault)}` : ""}` });
words([terms([
  ["SQNR", "Power of the reference's values over power of the difference, in dB. 20 dB: off by a tenth; 60 dB: by a thousandth."],
  ["Errors before", "What both engines computed from the inputs: all errors so far."],
  ["Alone", "This machine computes the operation on the inputs that it had in one engine, so that no error before it counts."],
  ["Expected", "Least ratio of a right operation of this type. Below it the operation is wrong; a shifted or cut range is wrong above it, too."]])]);
})();
