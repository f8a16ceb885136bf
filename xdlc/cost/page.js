"use strict";
(() => {
const { R, $, add, h, s, clean, short, name, percent, size, count, facts, list, terms, words, head, stack, table } = Page;
const ENGINES = [["HMX", "c1"], ["HVX", "c2"], ["DMA", "c3"], ["scalar", "c4"]];
const many = new Set(R.devices.map(device => device.graph)).size > 1;
const title = device => `${clean(device.soc)}, ${device.vtcm_mb} MB` + (many ? `, ${short(device.graph, 30)}` : "");
const dram = traffic => traffic.dram_read + traffic.dram_write, vtcm = traffic => traffic.vtcm_read + traffic.vtcm_write;
const number = value => value >= 1e9 ? (value / 1e9).toFixed(2) + "\u2009G" : value >= 1e6 ? (value / 1e6).toFixed(1) + "\u2009M" : value >= 1e4 ? (value / 1e3).toFixed(1) + "\u2009k" : String(value);
const signed = value => value > 0 ? "+" + size(value) : value < 0 ? "\u2212" + size(-value) : "0";
const bar = (low, high, most, at) => s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: "meter", "aria-hidden": "true" },
  s("rect", { class: "c5", width: 100, height: 6 }), s("rect", { class: "c4", x: 100 * low / (most || 1), width: Math.max(0, 100 * (high - low) / (most || 1)), height: 6 }),
  at != null && s("rect", { class: "c1", x: Math.min(98.5, 100 * at / (most || 1)), width: 1.5, height: 6 }));
head(R.name, R.devices.length ? `${count(R.devices.length, "plan")} of the vendor's compiler, build ${clean(R.devices[0].build)}` : "arithmetic and memory");

// ------------------------------------------------------------------ operations
const rows = device => device.ops.map((op, order) => ({ ...op, order, name: op.op, dram: dram(op.traffic), vtcm: vtcm(op.traffic), out: op.spilled + op.filled, count: Object.values(op.kernels).reduce((a, b) => a + b, 0) }));
const kernels = op => ENGINES.filter(([engine]) => op.kernels[engine]).map(([engine]) => `${engine} ${op.kernels[engine]}`).join(", ") || "\u2013";
const some = names => names.length ? names.slice(0, 8).map(text => short(text)).join(", ") + (names.length > 8 ? ` and ${names.length - 8} more` : "") : null;
const detail = op => h("div", {}, h("div", {}, h("p", {}, clean(op.reason) + "."),
  stack([["DRAM read", op.traffic.dram_read, "c1"], ["DRAM written", op.traffic.dram_write, "c2"], ["VTCM read", op.traffic.vtcm_read, "c3"], ["VTCM written", op.traffic.vtcm_write, "c4"]]
    .map(([label, value, color]) => ({ label, value, color, text: size(value) })), "Bytes that it moves")),
  facts([["Type", clean(op.type)], ["Source nodes", some(op.nodes)], ["Computed with it", some(op.fused)], ["Kernels", kernels(op)], ["MACs", op.macs ? number(op.macs) : null],
    ["Weights", op.weights ? size(op.weights) : null], ["Spilled", op.spilled ? size(op.spilled) : null], ["Read again", op.filled ? size(op.filled) : null], ["Share", percent(op.share)]]));
const kinds = {};
R.devices.forEach((device, i) => { kinds["plan" + i] = { title: title(device), rows: rows(device), weak: op => op.out, detail, sort: "share", down: ["share", "dram", "vtcm", "out", "count", "macs"], kinds: ["type"], columns: [
  ["name", "Operation", "", op => [clean(op.type), op.type ? " \u00b7 " : "", clean(op.reason)]], ["order", "Place", "wide", op => op.order + 1], ["share", "Share", "", op => percent(op.share)], ["dram", "DRAM", "", op => size(op.dram)],
  ["vtcm", "VTCM", "mid", op => size(op.vtcm)], ["out", "Spills", "wide", op => op.out ? h("span", { class: "mark warn" }, size(op.out)) : "\u2013"], ["count", "Kernels", "wide", op => kernels(op)], ["macs", "MACs", "wide", op => op.macs ? number(op.macs) : "\u2013"]] }; });
for (const { device, changes } of R.differences) kinds["change" + device] = { title: `Changes, ${title(R.devices[device])}`, rows: changes.map((change, order) => ({ ...change, order, name: change.op, first: change.before && dram(change.before), second: change.after && dram(change.after), state: !change.before ? "new" : !change.after ? "gone" : "other" })),
  weak: () => false, sort: "order", kinds: ["state"], detail: change => h("div", {}, facts([["DRAM before", size(change.first)], ["DRAM after", size(change.second)]]), facts([["VTCM before", change.before && size(vtcm(change.before))], ["VTCM after", change.after && size(vtcm(change.after))]])),
  columns: [["name", "Operation", "", change => change.state === "other" ? "" : change.state], ["first", "DRAM before", "wide", change => size(change.first)], ["second", "DRAM after", "wide", change => size(change.second)], ["dram", "DRAM", "", change => signed(change.dram)], ["vtcm", "VTCM", "", change => signed(change.vtcm)]] };

// ------------------------------------------------------------------ totals
const arithmetic = h("div", { class: "card" }, h("h2", {}, "Arithmetic and memory"), R.static.slice(0, 12).map(cost => [R.static.length > 1 && h("h3", {}, name(cost.graph)), h("table", { class: "plain" }, h("tbody", {}, [
  ["MACs", number(cost.macs)], ["parameters", number(cost.parameters)], ["weights", size(cost.weights)], ["inputs and outputs", size(cost.ports)], ["activations at a time, at most", size(cost.peak)], ["MACs per byte", cost.intensity.toFixed(1)]]
  .map(([label, value]) => h("tr", {}, h("td", {}, label), h("td", {}, value)))))]).flat());
if (R.devices.length) arithmetic.append(stack(ENGINES.map(([engine, color]) => ({ label: engine, color, value: R.devices[0].totals.kernels[engine] || 0, text: String(R.devices[0].totals.kernels[engine] || 0) })), `Kernels by engine, ${title(R.devices[0])}`));
add($("hero"), [arithmetic]);
if (R.devices.length) {
  const show = table(kinds, "spills only");
  const dearest = [...kinds.plan0.rows].sort((a, b) => b.share - a.share || a.order - b.order).slice(0, 10);
  add($("hero"), [h("div", { class: "card" }, h("h2", {}, "The dearest operations"), h("p", { class: "muted" }, title(R.devices[0])), h("ol", { class: "worst" }, dearest.map(op => h("li", {},
    h("div", {}, h("button", { type: "button", class: "link", onclick: () => show("plan0", op) }, name(op.name)), h("small", {}, clean(op.type), op.type ? " \u00b7 " : "", clean(op.reason))), h("div", {}, percent(op.share), h("small", {}, size(op.dram)))))),
    R.devices.some(device => device.notes.length) && h("div", { class: "advice" }, R.devices.flatMap(device => device.notes.slice(0, 8).map(note => h("p", {}, `${title(device)}: ${clean(note)}`)))))]);
  const most = key => R.devices.reduce((high, device) => Math.max(high, key(device)), 0);
  const high = most(device => device.milliseconds.high || 0), bytes = most(device => dram(device.totals)), spills = most(device => device.totals.spilled);
  const time = ({ milliseconds: ms }) => ms.reason ? h("span", { class: "muted", title: clean(ms.reason) }, "\u2013") : [h("b", {}, ms.value.toFixed(2)), h("small", {}, `${ms.low.toFixed(2)} to ${ms.high.toFixed(2)}`), bar(ms.low, ms.high, high, ms.value)];
  const columns = [["Plan", "", (device, i) => h("button", { type: "button", class: "link", onclick: () => show("plan" + i, kinds["plan" + i].rows[0]) }, title(device))], ["ms", "", time],
    ["DRAM", "", device => [size(dram(device.totals)), bar(0, dram(device.totals), bytes)]], ["read", "wide", device => size(device.totals.dram_read)], ["written", "wide", device => size(device.totals.dram_write)], ["VTCM traffic", "wide", device => size(vtcm(device.totals))],
    ["Spilled", "mid", device => [size(device.totals.spilled), bar(0, device.totals.spilled, spills)]], ["VTCM used", "wide", device => size(device.totals.vtcm_peak)], ["HMX", "wide", device => device.totals.kernels.HMX || 0], ["HVX", "wide", device => device.totals.kernels.HVX || 0]];
  $("table").before(h("section", { class: "card", "aria-labelledby": "plans" }, h("h2", { id: "plans" }, "Plans"), h("table", { class: "list plans" },
    h("thead", {}, h("tr", {}, columns.map(([label, hide]) => h("th", { scope: "col", class: hide }, h("span", { class: "muted" }, label))))),
    h("tbody", {}, R.devices.map((device, i) => h("tr", {}, columns.map(([, hide, cell]) => h("td", { class: hide }, cell(device, i)))))))));
}
words([list("What has no estimate of time", R.devices.filter(device => device.milliseconds.reason).map(device => `${title(device)}: ${device.milliseconds.reason}`)),
  terms([["Share", "Mean of the operation's shares of the traffic of DRAM and of VTCM."], ["DRAM", "Bytes read and written. Weights, inputs and outputs come from there and go there."],
    ["Spills", "Bytes that go to DRAM and back because VTCM, the memory beside the DSP, has no room."], ["HMX, HVX", "Matrix unit and vector unit. DMA copies; scalar is the rest."],
    ["Estimated ms", "By a fit to measured times of devices; the bar is the interval that held 80 % of the networks outside the fit."]])]);
})();
