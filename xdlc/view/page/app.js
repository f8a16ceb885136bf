"use strict";
// The viewer: panes, what they share, keys, the address. View.start(content) draws a content into an element.
const View = (() => {
const { $, h, add, clear, clean, short, size, count, real } = Base;
const { OP } = Net;
let running = null;

// Ends what is drawn in an element, and its keys.
const stop = (root = $("view")) => {
  running?.abort();
  running = null;
  clear(root);
};

const compact = value => {
  const power = [1e4, 1e6, 1e9, 1e12].filter(least => Math.abs(value) >= least).length;
  return power ? `${+(value / 1000 ** power).toPrecision(3)}\u2009${["", "k", "M", "G", "T"][power]}` : real(value);
};

const start = (content, root = $("view")) => {
  stop(root);
  running = new AbortController();
  const { signal } = running;
  const app = { content, theme: null, active: null, panes: [], key: null, mode: "graph", hits: [], hit: -1 };

  // ------------------------------------------------------------------ overlays
  const known = content.sides.map((side, i) => {
    const overlays = [Colors.ofTypes(side), ...side.overlays];
    if (content.diff) overlays.unshift(Colors.ofDiff(content, i));
    return overlays.map(overlay => ({ ...overlay, title: short(overlay.title, 60) }));
  });
  app.overlays = sideIndex => known[sideIndex];
  const titles = new Map(known.flat().map(overlay => [overlay.key, overlay.title]));
  // A report that was asked for is shown first.
  app.key = (content.diff ? known[0][0] : known.flat().find(overlay => overlay.from) || known[0][0]).key;
  app.overlayOf = sideIndex => known[sideIndex].find(overlay => overlay.key === app.key) || known[sideIndex].find(overlay => overlay.key === "type");
  app.figure = (overlay, value) => {
    if (value == null) return "";
    if (overlay.kind !== "number") return short(value, 60);
    if (overlay.unit === "B") return size(value);
    return overlay.unit === "dB" ? Base.unit(value) : compact(value) + (overlay.unit ? `\u2009${clean(overlay.unit)}` : "");
  };
  const colors = () => {
    app.theme = Colors.palette();
    app.theme.edge = Colors.mix(app.theme.line, app.theme.muted, 0.45);
    app.theme.wire = Colors.mix(app.theme.line, app.theme.muted, 0.7);
  };
  // A side that has the overlay; legend and lists are those of the active side.
  const colored = () => {
    const has = pane => known[pane.sideIndex].some(overlay => overlay.key === app.key);
    return has(app.active) ? app.active : app.panes.find(has);
  };
  const setOverlay = key => {
    app.key = key;
    chooser.value = key;
    app.active = colored();
    app.panes.forEach(pane => pane.tally());
    refresh();
  };

  // ------------------------------------------------------------------ matches between two sides
  const pairs = content.sides.map(() => new Map()), rowsOf = content.sides.map(() => new Map());
  const place = (graph, op) => `${graph}/${op}`;
  const put = (map, key, item) => (map.get(key) || map.set(key, []).get(key)).push(item);
  const pair = (graphA, opA, graphB, opB, row) => {
    const [a, b] = [place(graphA, opA), place(graphB, opB)];
    if (opA != null && opB != null) {
      put(pairs[0], a, { graph: graphB, op: opB });
      put(pairs[1], b, { graph: graphA, op: opA });
    }
    if (row && opA != null) rowsOf[0].set(a, row);
    if (row && opB != null) rowsOf[1].set(b, row);
  };
  if (content.sides.length > 1) {
    for (const row of content.diff?.ops || []) pair(row[0], row[1], row[2], row[3], row);
    for (const row of content.link || []) pair(...row);
  }
  app.twins = (pane, op) => pairs[pane.sideIndex]?.get(place(pane.graph, op)) || [];
  app.diffOf = (pane, op) => rowsOf[pane.sideIndex]?.get(place(pane.graph, op));

  // ------------------------------------------------------------------ elements
  // Each key with its help; inGraph: while the graph has the focus.
  const bindings = [
    { keys: "/", help: "search; Enter and Shift+Enter go to the next and previous hit", acts: { "/": () => toSearch() } },
    { keys: "\u2191 \u2193", help: "along edges: producer, consumer; Shift goes to the next one of several", inGraph: true,
      acts: { ArrowUp: event => walk("ArrowUp", event.shiftKey), ArrowDown: event => walk("ArrowDown", event.shiftKey) } },
    { keys: "\u2190 \u2192", help: "previous and next in execution order", inGraph: true,
      acts: { ArrowLeft: () => walk("ArrowLeft"), ArrowRight: () => walk("ArrowRight") } },
    { keys: "Enter", help: "open or fold a group; go into a body", inGraph: true, acts: { Enter: () => enter() } },
    { keys: "f", help: "fold the group around what is chosen", acts: { f: () => foldAround() } },
    { keys: "u", help: "unfold all; Shift+U folds all", acts: { u: () => fold(true), U: () => fold(false) } },
    { keys: "[ ]", help: "previous and next problem or change", acts: { "[": () => step(-1), "]": () => step(1) } },
    { keys: "o", help: "next overlay; Shift+O the previous", acts: { o: () => nextOverlay(1), O: () => nextOverlay(-1) } },
    { keys: "+ \u2212 0", help: "zoom in, out, fit",
      acts: { "+": () => zoomIn(), "=": () => zoomIn(), "-": () => zoomOut(), 0: () => app.active.fit() } },
    { keys: "l", help: "list of all operations, and back", acts: { l: () => otherMode() } },
    { keys: "Tab", help: "header, outline, graph, details", acts: {} },
    { keys: "Esc", help: "choose nothing", acts: { Escape: () => app.choose(app.active, null) } },
    { keys: "?", help: "this help", acts: { "?": () => openHelp() } },
  ];
  const button = (label, act, words, more) => h("button", { type: "button", "aria-label": label, onclick: act, ...more }, words);
  const search = h("input", {
    type: "search", id: "search", placeholder: "op, tensor, type, source node", autocomplete: "off",
    spellcheck: "false", "aria-describedby": "hits", maxlength: 400,
  });
  const hits = h("span", { id: "hits", class: "muted small", role: "status" });
  const graphs = h("select", { id: "graph" });
  const chooser = h("select", { id: "overlay" }, [...titles].map(([key, title]) => h("option", { value: key }, title)));
  const themeButton = h("button", { type: "button", id: "theme" });
  const said = h("p", { id: "said", class: "hidden", "aria-live": "polite" });
  const outline = h("nav", { id: "outline", "aria-label": "Outline" });
  const panel = h("aside", { id: "panel", "aria-label": "Details", tabindex: -1 });
  const panes = h("div", { id: "panes" });
  const listBox = h("div", { id: "list", hidden: "" });
  const legend = h("div", { id: "legend", "aria-label": "Legend", role: "group" });
  const strip = h("canvas", { id: "strip", "aria-hidden": "true" });
  const zoomIn = () => app.active.zoom(1.3), zoomOut = () => app.active.zoom(1 / 1.3);
  const toSearch = () => {
    search.focus();
    search.select();
  };
  const otherMode = () => setMode(app.mode === "graph" ? "list" : "graph");
  const listButton = h("button", { type: "button", "aria-pressed": "false", onclick: otherMode }, "List");
  const onlyFocused = h("input", { type: "checkbox" });
  const help = h("dialog", { id: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", {}, bindings.flatMap(binding => [h("dt", {}, h("kbd", {}, binding.keys)), h("dd", {}, binding.help)])),
    h("p", { class: "muted small" }, "Drag or scroll to move, hold Ctrl to zoom, double-click a group to open it. "
      + "Red outline: refused by the chosen SoC. Dotted: inserted by xdlc. Hatched: runs on the host only."),
    h("label", { class: "check small" }, onlyFocused, "Letters act only while the graph has the focus"),
    h("p", { class: "end" }, h("button", { type: "button", onclick: () => help.close() }, "Close")));
  // A browser returns the focus to where it was; if nothing had it, to what is shown.
  const openHelp = () => {
    if (document.activeElement === document.body) (app.mode === "list" ? listButton : app.active.canvas).focus();
    help.showModal();
  };
  const ways = Sheet.ways(app);
  const exported = event => {
    const act = ways[event.target.value][1];
    event.target.value = "";
    act();
  };
  const exporter = h("select", { id: "export", "aria-label": "Export", onchange: exported },
    h("option", { value: "" }, "Export"), ways.map(([words], place) => h("option", { value: place }, words)));
  const fold = on => {
    const pane = app.active, node = pane.chosen;
    pane.openAll(on);
    pane.begin();
    if (node != null) app.choose(pane, pane.standsFor(node), {}); else refresh();
  };
  const zooms = h("div", { id: "zooms" }, [
    ["+", "Zoom in", zoomIn], ["\u2212", "Zoom out", zoomOut], ["Fit", "Show all", () => app.active.fit()],
    ["Unfold", "Open all groups", () => fold(true)], ["Fold", "Fold all groups", () => fold(false)],
  ].map(([words, label, act]) => button(label, act, words, { title: label })));
  const files = h("div", { class: "files" }, content.sides.map((side, i) => h("div", {},
    content.diff ? h("span", { class: "kicker" }, i ? "after " : "before ") : null,
    h(i ? "b" : "h1", { class: "file", title: clean(side.file).slice(0, 400) }, short(side.file, 46)),
    h("span", { class: "muted small" }, [
      short(side.kind, 30), size(side.bytes), count(side.graphs.reduce((sum, graph) => sum + graph.ops.length, 0), "op"),
    ].join(" \u00b7 ")))));
  const toList = event => {
    event.preventDefault();
    setMode("list");
    listBox.querySelector("button")?.focus();
  };
  add(root, [
    h("a", { class: "skip", href: "#list", onclick: toList }, "Skip to the list of operations"),
    h("header", {}, files, h("div", { class: "tools" },
      h("label", { class: "find" }, h("span", { class: "hidden" }, "Search"), search, hits),
      h("label", { id: "graph-label" }, "Graph ", graphs), h("label", {}, "Overlay ", chooser),
      listButton, exporter, themeButton, button("Help: keys", openHelp, "?"))),
    h("section", { id: "paper" }),
    h("main", {}, outline, h("div", { id: "middle" }, h("div", { id: "stage" }, panes, listBox, zooms), legend, strip), panel),
    said, help,
  ]);
  Base.themes(themeButton, signal);
  colors();
  chooser.value = app.key;
  app.panes = content.sides.map((side, i) => Pane.pane(app, side, i, signal));
  app.active = app.panes[0];
  app.active = colored();
  add(panes, app.panes.map(pane => pane.root));
  panes.classList.toggle("two", app.panes.length > 1);

  // ------------------------------------------------------------------ what is shown
  const sayings = pane => {
    const node = pane.chosen, net = pane.net;
    if (node == null) return "Nothing is chosen.";
    if (node >= net.nodes) {
      const scope = net.scopes[node - net.nodes], state = pane.open.has(scope.id) ? "open" : "folded";
      return `Group ${short(scope.name, 80)}, ${count(scope.count, "operation")}, ${state}.`;
    }
    if (node >= net.n) {
      const shape = Paint.shape(net.graph.tensors[net.tensorOf(node)][2]);
      return `${node < net.end ? "Input" : "Output"} ${short(net.name(node), 80)}, ${shape}.`;
    }
    const value = pane.valueOf(node), out = net.graph.tensors[net.op(node)[OP.outputs][0]], row = app.diffOf(pane, node);
    return [
      `${net.title(node, 80)}, ${node + 1} of ${net.n}`,
      out && `result ${Paint.shape(out[2])}`,
      value != null && `${pane.overlay.title} ${app.figure(pane.overlay, value)}`,
      ...Net.marks(net.flags(node)).map(mark => mark.words),
      row && Colors.STATES[row[4]].words,
    ].filter(Boolean).join(", ") + ".";
  };
  const refresh = () => {
    const pane = app.active;
    Panel.draw(app, panel);
    Outline.draw(app, outline);
    Strip.legend(app, legend);
    Strip.draw(app, strip);
    if (app.mode === "list") Outline.list(app, listBox);
    for (const each of app.panes) {
      each.root.classList.toggle("active", each === pane && app.panes.length > 1);
      each.title.textContent = short(each.side.file, 50);
      each.title.hidden = app.panes.length < 2;
      each.dirty();
    }
    listing();
  };
  const listing = () => {
    clear(graphs);
    add(graphs, app.active.side.graphs.map((graph, i) =>
      h("option", { value: i }, `${short(graph.name || "graph", 32)} (${graph.ops.length})`)));
    graphs.value = app.active.graph;
    $("graph-label").hidden = app.active.side.graphs.length < 2;
  };
  const setMode = mode => {
    app.mode = mode;
    panes.hidden = zooms.hidden = mode === "list";
    listBox.hidden = mode !== "list";
    listButton.setAttribute("aria-pressed", mode === "list");
    listButton.textContent = mode === "list" ? "Graph" : "List";
    if (mode === "list") Outline.list(app, listBox); else app.panes.forEach(pane => pane.resize());
  };
  app.focus = pane => {
    if (app.active === pane) return;
    app.active = pane;
    find();
    refresh();
  };
  app.showGraph = (pane, graph, quiet) => {
    app.active = pane;
    pane.show(graph);
    if (quiet) return;
    find();
    refresh();
    address();
  };
  // Chooses a node and shows it; the other side goes to its counterpart.
  app.choose = (pane, node, { graph, stay, fold: folding, quiet } = {}) => {
    app.active = pane;
    if (graph != null && graph !== pane.graph) app.showGraph(pane, graph, true);
    if (node != null && (node < pane.net.nodes || folding)) pane.reveal(node);
    pane.chosen = node;
    if (node != null) pane.made.at.has(node) ? pane.center(node, stay) : toBox(pane, node - pane.net.nodes);
    for (const each of app.panes) each.twins = new Set();
    const other = app.panes[1 - pane.sideIndex], twins = other && node != null && node < pane.net.n ? app.twins(pane, node) : [];
    if (twins.length) {
      if (twins[0].graph !== other.graph) other.show(twins[0].graph);
      const there = twins.filter(twin => twin.graph === other.graph).map(twin => twin.op);
      there.slice(0, 50).forEach(op => other.reveal(op));
      other.twins = new Set(there);
      other.view.z = pane.view.z;
      other.center(there[0]);
    }
    if (other) other.chosen = null;
    quiet ? Panel.draw(app, panel) : refresh();
    said.textContent = sayings(pane);
    address();
  };
  const toBox = (pane, scope) => {
    const box = pane.made.boxes.find(item => item.scope === scope);
    if (!box) return;
    const w = pane.canvas.clientWidth, tall = pane.canvas.clientHeight;
    const z = Math.max(0.15, Math.min(1, (w - 40) / box.w, (tall - 40) / box.h));
    const y = box.h * z < tall ? tall / 2 - z * (box.y + box.h / 2) : 20 - z * box.y;
    pane.view = { z, x: w / 2 - z * (box.x + box.w / 2), y };
    pane.dirty();
  };
  app.toggle = (pane, scope) => {
    app.active = pane;
    const open = pane.toggle(scope), node = pane.net.nodes + scope;
    pane.chosen = node;
    refresh();
    said.textContent = `Group ${short(pane.net.scopes[scope].name, 80)} is ${open ? "open" : "folded"}.`;
  };
  app.tooltip = (pane, item) => {
    const net = pane.net;
    if (item.box != null) return `${short(net.full(item.box), 200)}: click folds it`;
    if (item.node >= net.nodes) {
      const scope = net.scopes[item.node - net.nodes];
      return `${short(net.full(scope.id), 200)}: ${count(scope.count, "op")}, double-click opens it`;
    }
    if (item.node >= net.n) return short(net.name(item.node), 300);
    const op = net.op(item.node), value = pane.valueOf(item.node);
    return [
      net.title(item.node, 300),
      value != null && `${pane.overlay.title}: ${app.figure(pane.overlay, value)}`,
      op[OP.reason] && `Inserted: ${short(op[OP.reason], 300)}`,
    ].filter(Boolean).join("\n");
  };

  // ------------------------------------------------------------------ search
  const texts = new Map();
  const textOf = (pane, graph) => {
    const key = `${pane.sideIndex}/${graph}`;
    if (!texts.has(key)) {
      const net = pane.netOf(graph), tensors = net.graph.tensors;
      texts.set(key, net.graph.ops.map((op, i) => {
        const names = [...op[OP.outputs], ...op[OP.inputs]].filter(tensor => tensor >= 0).map(tensor => tensors[tensor][0]);
        return [op[OP.name], net.type(i), net.does(i), ...names, ...op[OP.nodes]].join(" ").toLowerCase();
      }));
    }
    return texts.get(key);
  };
  app.words = () => search.value.toLowerCase().split(/\s+/).filter(Boolean);
  app.matches = (pane, graph, i, words) => words.every(word => textOf(pane, graph)[i].includes(word));
  const find = () => {
    const words = app.words(), pane = app.active;
    app.hits = [];
    app.hit = -1;
    if (words.length) pane.side.graphs.forEach((graph, at) => {
      graph.ops.forEach((_, i) => { if (app.matches(pane, at, i, words)) app.hits.push([at, i]); });
    });
    for (const each of app.panes) each.hits = new Set();
    pane.hits = new Set(app.hits.filter(([graph]) => graph === pane.graph).map(([, i]) => pane.standsFor(i)));
    hits.textContent = words.length ? count(app.hits.length, "hit") : "";
    pane.dirty();
    Strip.draw(app, strip);
    if (app.mode === "list") Outline.list(app, listBox);
  };
  const nextHit = step => {
    if (!app.hits.length) return;
    app.hit = (app.hit + step + app.hits.length) % app.hits.length;
    const [graph, i] = app.hits[app.hit];
    app.choose(app.active, i, { graph });
    app.active.hits = new Set(app.hits.filter(([at]) => at === app.active.graph).map(([, op]) => app.active.standsFor(op)));
    hits.textContent = `${app.hit + 1} of ${app.hits.length}`;
  };

  // ------------------------------------------------------------------ keys
  // Up and down go along edges. With Shift, to the next one of those that the last step could have gone to.
  const walk = (key, next) => {
    const pane = app.active, made = pane.made, at = made.order.indexOf(pane.chosen);
    if (at < 0) {  // nothing, or an open group: its first op
      const inside = made.order.find(node => node < pane.net.n && within(pane, node, pane.chosen - pane.net.nodes));
      return app.choose(pane, inside ?? made.order[0], { stay: true });
    }
    const side = { ArrowUp: made.before, ArrowDown: made.after }[key];
    if (!side) {
      const beside = made.order[at + (key === "ArrowLeft" ? -1 : 1)];
      if (beside != null) app.choose(pane, beside, { stay: true });
      return;
    }
    const { step } = app, again = next && step?.pane === pane && step.key === key && step.to === pane.chosen;
    const from = again ? step.from : pane.chosen, ends = side.get(from) || [];
    if (!ends.length) return;
    const place = again ? (step.place + 1) % ends.length : 0;
    app.step = { pane, key, from, place, to: ends[place] };
    app.choose(pane, ends[place], { stay: true });
    if (ends.length > 1) said.textContent += ` ${key === "ArrowUp" ? "Producer" : "Consumer"} ${place + 1} of ${ends.length}.`;
  };
  const within = (pane, node, scope) => pane.net.around(node).includes(scope);
  const step = by => {
    const pane = app.active, diff = content.diff;
    const list = diff ? diff.ops.filter(row => row[4] !== "same") : pane.side.problems.filter(row => row[2] != null);
    if (!list.length) return;
    app.at = ((app.at ?? (by > 0 ? -1 : 0)) + by + list.length) % list.length;
    const row = list[app.at];
    if (!diff) return app.choose(pane, row[2], { graph: row[1] ?? 0 });
    const side = row[2 * pane.sideIndex + 1] == null ? 1 - pane.sideIndex : pane.sideIndex;
    app.choose(app.panes[side], row[2 * side + 1], { graph: row[2 * side] });
  };
  const enter = () => {
    const pane = app.active, node = pane.chosen;
    if (node == null) return;
    if (node >= pane.net.nodes) app.toggle(pane, node - pane.net.nodes);
    else if (node < pane.net.n && pane.net.op(node)[OP.bodies]) app.showGraph(pane, pane.net.op(node)[OP.bodies][0]);
    else panel.focus();
  };
  const nextOverlay = by => {
    const keys = [...titles.keys()];
    setOverlay(keys[(keys.indexOf(app.key) + by + keys.length) % keys.length]);
    said.textContent = `Overlay ${titles.get(app.key)}.`;
  };
  const foldAround = () => {
    const pane = app.active, node = pane.chosen;
    if (node == null) return;
    const own = node - pane.net.nodes, scope = pane.open.has(own) ? own : pane.net.around(node).at(-1);
    if (scope >= 0) app.toggle(pane, scope);
  };
  const keyed = Object.assign({}, ...bindings.filter(binding => !binding.inGraph).map(binding => binding.acts));
  const keyedInGraph = Object.assign({}, ...bindings.map(binding => binding.acts));
  addEventListener("keydown", event => {
    const inGraph = event.target.tagName === "CANVAS", inText = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || inText) return;
    if (!inGraph && onlyFocused.checked && event.key !== "Escape") return;
    const act = (inGraph ? keyedInGraph : keyed)[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  }, { signal });
  search.addEventListener("input", find);
  search.addEventListener("keydown", event => {
    if (event.key === "Enter") { event.preventDefault(); nextHit(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; find(); app.active.canvas.focus(); }
  });
  chooser.addEventListener("change", () => setOverlay(chooser.value));
  graphs.addEventListener("change", () => app.showGraph(app.active, +graphs.value));
  strip.addEventListener("click", event => {
    const box = strip.getBoundingClientRect(), { n } = app.active.net;
    const i = Math.floor((event.clientX - box.left) / box.width * n);
    if (n) app.choose(app.active, Math.max(0, Math.min(n - 1, i)));
  });
  document.addEventListener("theme", () => {
    colors();
    app.panes.forEach(pane => pane.tally());
    Strip.legend(app, legend);
    Strip.draw(app, strip);
  }, { signal });

  // ------------------------------------------------------------------ address
  const LONGEST = 200, REST = 200;
  let own = "", later = 0;
  // Browsers limit how often a page may set its address: it is set once, some milliseconds after the last step.
  const address = () => {
    clearTimeout(later);
    later = setTimeout(setAddress, REST);
  };
  const setAddress = () => {
    const pane = app.active, node = pane.chosen, net = pane.net;
    let op = "";
    if (node != null && node < net.n) {
      const name = net.name(node), isPlain = name.length <= LONGEST && name.isWellFormed?.() !== false;
      const isFirst = net.graph.ops.findIndex(entry => entry[OP.name] === name) === node;
      op = isPlain && isFirst ? encodeURIComponent(name) : `@${node}`;
    }
    own = `#${pane.sideIndex}/${pane.graph}/${op}`;
    if (own === "#0/0/" && !location.hash) return;
    try { history.replaceState(null, "", own); } catch { location.hash = own; }
  };
  const visit = () => {
    clearTimeout(later);
    if (location.hash === own) return;
    const [side, graph, ...rest] = location.hash.slice(1).split("/"), pane = app.panes[+side], wanted = rest.join("/");
    if (!pane || !pane.side.graphs[+graph]) return;
    if (+graph !== pane.graph) app.showGraph(pane, +graph, true);
    let name = null;
    try { name = decodeURIComponent(wanted); } catch { return; }
    const op = wanted.startsWith("@") ? +wanted.slice(1) : pane.net.graph.ops.findIndex(entry => entry[OP.name] === name);
    if (wanted && pane.net.graph.ops[op]) app.choose(pane, op);
    else { app.active = pane; refresh(); }
  };
  addEventListener("hashchange", visit, { signal });

  // ------------------------------------------------------------------ paper
  let screen = null;
  const paint = theme => {
    document.documentElement.dataset.theme = theme;
    colors();
    app.panes.forEach(pane => pane.tally());
  };
  addEventListener("beforeprint", () => {
    screen = document.documentElement.dataset.theme;
    paint("light");
    Sheet.paper(app, $("paper"));
  }, { signal });
  addEventListener("afterprint", () => { clear($("paper")); paint(screen); }, { signal });

  const watch = new ResizeObserver(() => { app.panes.forEach(pane => pane.resize()); Strip.draw(app, strip); });
  app.panes.forEach(pane => { pane.show(0); watch.observe(pane.canvas); });
  signal.addEventListener("abort", () => {
    watch.disconnect();
    clearTimeout(later);
  });
  app.panes.forEach(pane => pane.resize());
  refresh();
  visit();
  document.documentElement.dataset.ready = "1";
  return app;
};

// The content of a page is gzip in base64.
const unpack = async text => {
  const raw = atob(text.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};
return { start, stop, unpack };
})();
