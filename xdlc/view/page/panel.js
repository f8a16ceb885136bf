"use strict";
// What is known of the op, group or tensor that is chosen; of the file if none is.
const Panel = (() => {
const { h, s, add, clear, clean, real, percent, size, count, facts } = Base;
const { OP } = Net;
const LONG = 240, MOST_ROWS = 40, MOST_ALL = 2000;

// A text of strangers, cut; the rest on demand.
const text = (words, most = LONG, kind = "name") => {
  words = clean(words);
  const span = h("span", { class: kind }, words.length > most ? words.slice(0, most) + "\u2026 " : words);
  if (words.length <= most) return span;
  const all = () => { span.textContent = words; };
  span.append(h("button", { type: "button", class: "link more-text", onclick: all }, `more (${words.length} characters)`));
  return span;
};
const value = item => {
  if (item == null) return "\u2013";
  if (Array.isArray(item) && item.every(part => typeof part !== "object")) return `[${item.join(", ")}]`;
  return typeof item === "object" ? JSON.stringify(item) : String(item);
};
// A list that may be long: the first rows, then all on demand.
const some = (items, draw, most = MOST_ROWS) => {
  const box = h("div", {}, items.slice(0, most).map(draw));
  const all = event => {
    event.currentTarget.remove();
    add(box, items.slice(most, most + MOST_ALL).map(draw));
  };
  if (items.length > most) box.append(h("button", { type: "button", class: "link more-text", onclick: all }, `${items.length - most} more`));
  return box;
};
const section = (title, ...children) => {
  const shown = children.flat().filter(Boolean);
  return shown.length ? h("section", {}, h("h3", {}, title), shown) : null;
};
const table = rows => h("dl", {}, rows.filter(Boolean).flatMap(([term, words]) =>
  [h("dt", {}, clean(term).slice(0, 80)), h("dd", {}, words instanceof Node ? words : text(words))]));
const goto = (words, onclick) => h("button", { type: "button", class: "link goto", onclick }, words);

const histogram = stats => {
  const rows = facts([
    ["values", stats.low == null ? null : `${real(stats.low)} to ${real(stats.high)}`],
    ["mean", stats.mean == null ? null : `${real(stats.mean)}, deviation ${real(stats.std)}`],
    ["zeros", percent(stats.zeros)],
    ["count", stats.n.toLocaleString("en")],
    ["note", stats.note && clean(stats.note)],
  ]);
  const [low, width, counts] = stats.bars, W = 320, H = 74, floor = H - 14;
  if (!counts.length) return h("div", { class: "stats" }, rows);
  const end = low + width * counts.length, step = W / counts.length;
  const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 0)) || 1;
  const bar = (n, i) => {
    const tall = Math.max(1, (floor - 4) * Math.log1p(n) / most);
    return n ? `M${(i * step).toFixed(1)} ${floor}v${-tall.toFixed(1)}h${Math.max(1, step * 0.9).toFixed(1)}V${floor}Z` : "";
  };
  const zero = low < 0 && end > 0 ? W * -low / (end - low) : null, hasRoom = zero > 50 && zero < W - 50;
  const tick = (x, words, anchor) => s("text", { class: "tick", x, y: H - 2, "text-anchor": anchor }, words);
  const label = `Histogram of ${stats.of} from ${real(low)} to ${real(end)}, log scale`;
  return h("div", { class: "stats" }, s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    s("path", { d: counts.map(bar).join(""), class: "hbar" }),
    s("line", { class: "axis", x1: 0, x2: W, y1: floor, y2: floor }),
    zero != null && s("line", { class: "axis dash", x1: zero, x2: zero, y1: 0, y2: floor }),
    tick(0, real(low)), zero != null && hasRoom && tick(zero, "0", "middle"), tick(W, real(end), "end")), rows);
};
const ROLES = { static: "weights", native: "", input: "input of the graph", output: "output of the graph" };
const tensor = (app, pane, index, ends) => {
  if (index < 0) return h("div", { class: "tensor muted" }, "absent");
  const { graph } = pane.net, [name, dtype, shape, role, encoding, stats] = graph.tensors[index];
  const values = stats ? graph.stats[stats - 1] : null, isWeights = values?.of === "weights";
  const isOpen = values && (!isWeights || (graph.tensors.length < 3000 && role === "static"));
  const link = node => goto(pane.net.title(node), () => app.choose(pane, node, {}));
  return h("div", { class: "tensor" },
    h("div", { class: "tensor-head" }, text(name, 90), h("b", {}, Paint.shape(shape))),
    h("div", { class: "muted small" }, [dtype, ROLES[role] ?? role].filter(Boolean).join(", "), encoding ? [h("br"), text(encoding)] : ""),
    ends.length ? h("div", { class: "small" }, some(ends, link, 6)) : null,
    values && h("details", { open: isOpen ? "" : null },
      h("summary", { class: "small" }, isWeights ? "Values" : "Activations"), histogram(values)));
};
const change = item => h("div", { class: "change" },
  h("div", {}, h("b", {}, Base.short(item.kind, 60)), " ", text(item.what, 90)),
  item.before != null || item.after != null ? h("dl", {},
    h("dt", {}, "before"), h("dd", {}, text(value(item.before))),
    h("dt", {}, "after"), h("dd", {}, h("b", {}, text(value(item.after))))) : null,
  item.note ? h("div", { class: "muted small" }, text(item.note)) : null);
const changes = list => list.length ? section(count(list.length, "change"), some(list, change, 20)) : null;

const figures = (app, pane, node) => {
  const rows = [];
  for (const overlay of app.overlays(pane.sideIndex)) {
    const found = (overlay.graphs[pane.graph] || [])[node], note = (overlay.notes?.[pane.graph] || {})[node];
    if (overlay.key === "type" || found == null && !note || note && note === pane.net.op(node)[OP.reason]) continue;
    const kind = found == null ? "" : overlay.kind === "number" ? overlay.marks && Colors.level(overlay, found) : overlay.colors?.[found];
    const words = found == null ? "" : overlay.kind === "number" ? app.figure(overlay, found) : text(found, 60);
    rows.push([overlay.title, h("span", {},
      h("span", { class: ["alarm", "warn"].includes(kind) ? "mark " + kind : null }, words),
      note ? h("div", { class: "muted small" }, text(note)) : "")]);
  }
  return rows.length ? section("Figures", table(rows)) : null;
};
const chip = ({ chip: kind, words }) => h("span", { class: "chip " + kind }, words);
const chips = flags => Net.marks(flags).map(chip);
const twinsOf = (app, pane, node) => app.twins(pane, node).slice(0, 12).map(({ graph, op: twin }) => {
  const other = app.panes[1 - pane.sideIndex];
  return goto(other.netOf(graph).title(twin), () => app.choose(other, twin, { graph }));
});

const op = (app, pane, node) => {
  const { net, side } = pane, entry = net.op(node), row = app.diffOf(pane, node);
  const [params, nodes, bodies, scope] = [Object.entries(entry[OP.params]), entry[OP.nodes], entry[OP.bodies] || [], entry[OP.scope]];
  const problems = side.problems.filter(([, graph, at]) => graph === pane.graph && at === node);
  const toScope = () => app.choose(pane, net.nodes + scope, { fold: true });
  const makers = tensor => net.maker[tensor] >= 0 ? [net.maker[tensor]] : [];
  const tensors = (word, indices, endsOf) => section(count(indices.length, word),
    some(indices, index => tensor(app, pane, index, index < 0 ? [] : endsOf(index)), 12));
  const isChanged = row && row[4] !== "same";
  return [
    h("p", { class: "kicker" }, `Operation ${node + 1} of ${net.n}`),
    h("h2", {}, clean(net.does(node)).slice(0, 120)),
    h("p", {}, text(entry[OP.name], 160)),
    net.does(node) === net.type(node) ? null : table([["Type", net.type(node)]]),
    h("p", { class: "chips" }, chips(entry[OP.flags]), isChanged ? chip(Colors.STATES[row[4]]) : null),
    section("Problems", problems.map(([words]) => h("p", { class: "problem" }, text(words)))),
    row ? changes(row[5]) : null,
    entry[OP.reason] ? section("Why it is here", h("p", {}, text(entry[OP.reason]))) : null,
    section(app.content.diff ? "In the other file" : "Counterpart", twinsOf(app, pane, node)),
    figures(app, pane, node),
    params.length ? section("Parameters", table(params.map(([key, words]) => [key, value(words)]))) : null,
    nodes.length || entry[OP.package] || scope >= 0 ? section("Origin", table([
      entry[OP.package] && ["Package", entry[OP.package]],
      scope >= 0 && ["Scope", h("button", { type: "button", class: "link name", onclick: toScope }, Base.short(net.full(scope), 120))],
      nodes.length && [nodes.length === 1 ? "Source node" : "Source nodes", some(nodes, words => h("div", {}, text(words, 160)), 8)],
    ])) : null,
    section("Bodies", bodies.map(graph => goto(Base.short(side.graphs[graph].name, 60), () => app.showGraph(pane, graph)))),
    tensors("input", entry[OP.inputs], makers),
    tensors("output", entry[OP.outputs], index => net.readers[index]),
  ];
};
const group = (app, pane, node) => {
  const net = pane.net, scope = net.scopes[node - net.nodes], overlay = pane.overlay, worst = pane.worst[scope.id], open = pane.open.has(scope.id);
  const types = new Map();
  for (let i = 0; i < net.n; i++) if (net.around(i).includes(scope.id)) types.set(net.type(i), (types.get(net.type(i)) || 0) + 1);
  return [
    h("p", { class: "kicker" }, "Group"), h("h2", {}, Base.short(scope.name, 120)), h("p", {}, text(net.full(scope.id), 160)),
    h("p", { class: "chips" },
      h("button", { type: "button", onclick: () => app.toggle(pane, scope.id) }, open ? "Fold" : "Open"), chips(pane.groupFlags[scope.id])),
    section("Contents", table([
      ["Operations", String(scope.count)],
      worst != null && [`${overlay.title}, ${overlay.kind === "number" ? "worst" : "mostly"}`, app.figure(overlay, worst)],
    ])),
    section("Types", table([...types].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([type, n]) => [type, String(n)]))),
  ];
};
const end = (app, pane, node) => {
  const { net } = pane, index = net.tensorOf(node), made = net.maker[index], isInput = node < net.end;
  return [
    h("p", { class: "kicker" }, isInput ? "Input" : "Output"), h("h2", {}, text(net.name(node), 120)),
    section("Tensor", tensor(app, pane, index, isInput ? net.readers[index] : made >= 0 ? [made] : [])),
  ];
};
const file = (app, pane) => {
  const { side } = pane, { diff } = app.content;
  const placed = side.problems.filter(row => row[2] != null), others = side.problems.filter(row => row[2] == null);
  const problem = ([words, graph, node]) => h("p", { class: "problem" },
    h("button", { type: "button", class: "link goto", onclick: () => app.choose(pane, node, { graph: graph ?? 0 }) },
      pane.netOf(graph ?? 0).title(node)),
    Base.short(words, 200));
  return [
    h("p", { class: "kicker" }, Base.short(side.kind, 60)), h("h2", {}, Base.short(side.file, 120)),
    diff ? section("Difference", diff.summary.map(line => h("p", {}, text(line))), some(diff.items, change, 20)) : null,
    section("File", facts([
      ["Size", size(side.bytes)],
      ...side.facts.map(([label, words]) => [clean(label).slice(0, 80), text(words, LONG, "plain")]),
    ])),
    placed.length ? section(count(placed.length, "problem"), some(placed, problem, 10)) : null,
    others.length ? h("details", { open: others.length < 4 ? "" : null },
      h("summary", {}, `Without a place in the graph (${others.length})`),
      some(others, ([words]) => h("p", { class: "small" }, text(words)), 20)) : null,
    side.records.map(([title, rows]) => h("details", { open: side.graphs.length ? null : "" }, h("summary", {}, Base.short(title, 80)), table(rows))),
    h("p", { class: "muted small" }, "Choose an operation to see its parameters, tensors and figures. Press ? for the keys."),
  ];
};
const draw = (app, root) => {
  const pane = app.active, node = pane.chosen;
  clear(root).scrollTop = 0;
  add(root, (node == null ? file(app, pane) : node >= pane.net.nodes ? group(app, pane, node) : node >= pane.net.n ? end(app, pane, node) : op(app, pane, node)).flat());
};
return { draw, text };
})();
