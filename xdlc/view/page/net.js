"use strict";
// A graph of the content with what follows from it: who makes and reads tensors, the tree of scopes, figures of scopes.
const Net = (() => {
const FLAG = { inserted: 1, host: 2, refused: 4, wrong: 8, udo: 16 };
// What an op's flags say; those with a kind have an outline or hatches.
const MARKS = [
  { bit: FLAG.refused, kind: "refused", words: "refused", chip: "alarm" },
  { bit: FLAG.wrong, kind: "wrong", words: "first wrong result", chip: "alarm" },
  { bit: FLAG.inserted, kind: "inserted", words: "inserted", chip: "unsure" },
  { bit: FLAG.host, kind: "host", words: "host only", chip: "unsure" },
  { bit: FLAG.udo, words: "UDO", chip: "unsure" },
];
const marks = flags => MARKS.filter(({ bit }) => flags & bit);
const OP = { name: 0, type: 1, scope: 2, inputs: 3, outputs: 4, params: 5, nodes: 6, reason: 7, bodies: 8, package: 9, flags: 10 };

// The graph of a file without graphs, such as a context binary.
const NONE = { name: "", tensors: [], stats: [], inputs: [], outputs: [], scopes: [], types: [], ops: [] };

// Nodes are numbered: ops, then inputs of the graph, then its outputs. Edges are [from, to, tensor].
const net = (graph = NONE) => {
  const n = graph.ops.length, maker = new Int32Array(graph.tensors.length).fill(-1), readers = graph.tensors.map(() => []), edges = [];
  graph.inputs.forEach((tensor, i) => { maker[tensor] = n + i; });
  graph.ops.forEach((op, i) => { for (const tensor of op[OP.outputs]) if (tensor >= 0) maker[tensor] = i; });
  const before = Array.from({ length: n }, () => []), after = Array.from({ length: n }, () => []);
  const link = (tensor, to) => {
    readers[tensor].push(to);
    const from = maker[tensor];
    if (from < 0 || from === to) return;
    edges.push([from, to, tensor]);
    if (to < n && from < n) { before[to].push(from); after[from].push(to); }
  };
  graph.ops.forEach((op, i) => { for (const tensor of new Set(op[OP.inputs])) if (tensor >= 0) link(tensor, i); });
  const end = n + graph.inputs.length, nodes = end + graph.outputs.length;
  graph.outputs.forEach((tensor, i) => link(tensor, end + i));
  const scopes = graph.scopes.map(([name, parent], id) => ({ id, name, parent, scopes: [], ops: [], count: 0, first: Infinity }));
  const top = { id: -1, name: "", parent: -2, scopes: [], ops: [], count: n, first: 0 };
  const scopeOf = i => scopes[i] || top;
  graph.ops.forEach((op, i) => {
    scopeOf(op[OP.scope]).ops.push(i);
    for (let scope = scopes[op[OP.scope]]; scope; scope = scopes[scope.parent]) { scope.count++; scope.first = Math.min(scope.first, i); }
  });
  for (const scope of scopes) if (scope.count) scopeOf(scope.parent).scopes.push(scope.id);
  // Scopes around a scope, from outside to itself; those around a node.
  const wayTo = id => {
    const way = [];
    for (let scope = scopes[id]; scope; scope = scopes[scope.parent]) way.unshift(scope.id);
    return way;
  };
  const around = node => wayTo(node < nodes ? (node < n ? graph.ops[node][OP.scope] : -1) : scopes[node - nodes].parent);
  const full = id => wayTo(id).map(each => scopes[each].name).join("/");
  const tensorOf = node => node < n ? graph.ops[node][OP.outputs][0] : node < end ? graph.inputs[node - n] : graph.outputs[node - end];
  const name = node => node < n ? graph.ops[node][OP.name] : graph.tensors[tensorOf(node)][0];
  const type = node => node < n ? graph.types[graph.ops[node][OP.type]] : node < end ? "input" : "output";
  // What an op does, where its type names a family: Relu for ElementWiseNeuron.
  const does = node => {
    const word = node < n ? /\(([A-Z][A-Z0-9_]{1,30})\)$/.exec(graph.ops[node][OP.params].operation) : null;
    return word ? word[1].split("_").map(part => part[0] + part.slice(1).toLowerCase()).join("") : type(node);
  };
  const title = (node, most = 44) => `${Base.short(does(node), 40)} ${Base.short(name(node), most)}`;
  return { title, graph, n, end, nodes, around, maker, readers, edges, before, after, scopes, top, scopeOf, full, tensorOf, name, type, does,
    op: i => graph.ops[i], flags: i => graph.ops[i][OP.flags] || 0, scope: node => node < n ? graph.ops[node][OP.scope] : -1 };
};

// Worst figure of each scope and what it has of each class.
const rated = (net, overlay, values) => {
  const worse = overlay.low_is_bad ? (a, b) => a < b : (a, b) => a > b;
  const severe = value => ({ alarm: 3, warn: 2 })[overlay.colors?.[value]] || (overlay.colors?.[value] ? 1 : 0);
  const worst = new Array(net.scopes.length).fill(null), counts = net.scopes.map(() => null);
  for (let i = 0; i < net.n; i++) {
    const value = values[i];
    if (value == null) continue;
    for (let scope = net.scopes[net.graph.ops[i][OP.scope]]; scope; scope = net.scopes[scope.parent]) {
      if (overlay.kind === "number") { if (worst[scope.id] == null || worse(value, worst[scope.id])) worst[scope.id] = value; }
      else { const tally = counts[scope.id] ??= new Map(); tally.set(value, (tally.get(value) || 0) + 1); }
    }
  }
  if (overlay.kind !== "number") counts.forEach((tally, id) => {
    if (!tally) return;
    worst[id] = [...tally].sort((a, b) => severe(b[0]) - severe(a[0]) || b[1] - a[1])[0][0];
  });
  return worst;
};

const LEAST = 500, MOST_SHOWN = 90;
// Scopes that are open at the start: all of a small graph, of a large one as many as stay in view.
const opened = net => {
  if (net.n <= LEAST) return new Set(net.scopes.map(scope => scope.id));
  const open = new Set(), queue = [...net.top.scopes];
  let shown = net.top.scopes.length + net.top.ops.length;
  while (queue.length) {
    const scope = net.scopes[queue.shift()], inside = scope.scopes.length + scope.ops.length;
    if (shown + inside - 1 > MOST_SHOWN && inside > 1) continue;
    open.add(scope.id);
    shown += inside - 1;
    queue.push(...scope.scopes);
  }
  return open;
};
return { net, rated, opened, FLAG, MARKS, marks, OP };
})();
