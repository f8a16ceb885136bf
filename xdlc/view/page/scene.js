"use strict";
// Places of what is shown of a graph: nodes, closed groups, open boxes, wires; and which of them are in a part of the plane.
const Scene = (() => {
const NODE = { w: 196, h: 42 }, END = { w: 170, h: 28 }, GROUP = { w: 210, h: 50 }, PAD = 16, HEAD = 28, BAND = 640;

// Edges between what is shown, where they begin, end and enter boxes. A box is laid out by itself, then is one node of its parent.
const scene = (net, open) => {
  // What stands for a node: its outermost closed scope, or itself. Closed scopes are numbered after all nodes.
  const standIn = new Int32Array(net.nodes), closed = net.scopes.map(() => -1);
  for (const scope of net.scopes) for (let id = scope.id; id >= 0; id = net.scopes[id].parent) if (!open.has(id)) closed[scope.id] = id;
  for (let v = 0; v < net.nodes; v++) { const scope = net.scope(v); standIn[v] = scope >= 0 && closed[scope] >= 0 ? net.nodes + closed[scope] : v; }
  const boxOf = item => item >= net.nodes ? net.scopes[item - net.nodes].parent : net.scope(item);
  const way = item => { const chain = []; for (let id = boxOf(item); id >= 0; id = net.scopes[id].parent) chain.push(id); return [-1, ...chain.reverse()]; };
  const inner = new Map();  // edges of each box: {a, b, source, targets}; a and b are items, boxes (as -2 - id) or ports
  const box = id => { if (!inner.has(id)) inner.set(id, new Map()); return inner.get(id); };
  const note = (id, a, b, source, target, tensor) => {
    const edges = box(id), key = `${a}>${b}>${source}`, edge = edges.get(key);
    if (edge) edge.targets.push(target); else edges.set(key, { from: a, to: b, source, targets: [target], tensor });
  };
  const seen = new Set(), before = new Map(), after = new Map();
  const append = (map, key, value) => (map.get(key) || map.set(key, []).get(key)).push(value);
  for (const [from, to, tensor] of net.edges) {
    const a = standIn[from], b = standIn[to], key = a * (net.nodes + net.scopes.length) + b;
    if (a === b || seen.has(key)) continue;
    seen.add(key);
    append(before, b, a); append(after, a, b);
    const left = way(a), right = way(b);
    let same = 0;
    while (same + 1 < left.length && same + 1 < right.length && left[same + 1] === right[same + 1]) same++;
    for (let k = left.length - 1; k > same; k--) note(left[k], k === left.length - 1 ? a : -2 - left[k + 1], "out" + a, a, b, tensor);
    note(left[same], same === left.length - 1 ? a : -2 - left[same + 1], same === right.length - 1 ? b : -2 - right[same + 1], a, b, tensor);
    for (let k = same + 1; k < right.length; k++) note(right[k], "in" + a, k === right.length - 1 ? b : -2 - right[k + 1], a, b, tensor);
  }

  const laid = id => {
    const scope = net.scopeOf(id), items = [], index = new Map();
    const put = (key, item) => { index.set(key, items.length); items.push(item); };
    const edges = [...box(id).values()];
    for (const { from } of edges) if (typeof from === "string" && !index.has(from)) put(from, { w: 10, h: 0, port: "in" });
    if (id < 0) for (let v = net.n; v < net.end; v++) put(v, { ...END, node: v });
    const members = [...scope.ops.map(i => [i, i]), ...scope.scopes.map(child => [net.scopes[child].first, -2 - child])].sort((p, q) => p[0] - q[0]);
    for (const [, key] of members) {
      if (key >= 0) put(key, { ...NODE, node: key, spread: true });
      else if (open.has(-2 - key)) { const part = laid(-2 - key); put(key, { w: part.w, h: part.h, part }); }
      else put(net.nodes + (-2 - key), { ...GROUP, node: net.nodes + (-2 - key) });
    }
    if (id < 0) for (let v = net.end; v < net.nodes; v++) put(v, { ...END, node: v });
    for (const { to } of edges) if (typeof to === "string" && !index.has(to)) put(to, { w: 10, h: 0, port: "out" });
    const lines = edges.map(edge => {
      const a = index.get(edge.from), b = index.get(edge.to);
      return { ...edge, a, b, key: edge.source, ad: items[a].part?.exits.get(edge.source) ?? 0, bd: items[b].part?.entries.get(edge.source) ?? 0 };
    });
    const plan = Layout.layered(items, lines), title = id < 0 ? 0 : HEAD, pad = id < 0 ? 0 : PAD;
    const w = Math.max(plan.w + 2 * pad, id < 0 ? 0 : 150), h = plan.h + title + pad, dx = (w - plan.w) / 2;
    const part = { id, w, h, dx, dy: title, items, plan, entries: new Map(), exits: new Map() };
    for (const [key, i] of index) {
      if (typeof key !== "string") continue;
      const [, way, node] = /^(in|out)(\d+)$/.exec(key);
      (way === "in" ? part.entries : part.exits).set(+node, items[i].x + dx - w / 2);
    }
    return part;
  };

  const at = new Map(), boxes = [], wires = [], jumps = [];
  const flat = (part, left, top, depth = 0) => {
    if (part.id >= 0) boxes.push({ scope: part.id, depth, x: left, y: top, w: part.w, h: part.h });
    const x = left + part.dx, y = top + part.dy;
    for (const item of part.items) {
      if (item.part) flat(item.part, x + item.x - item.w / 2, y + item.y, depth + 1);
      else if (item.node != null) at.set(item.node, { x: x + item.x - item.w / 2, y: y + item.y, w: item.w, h: item.h });
    }
    for (const wire of part.plan.wires) wires.push({ source: wire.key, back: wire.back, x: x + wire.x, y0: part.items[wire.a].port ? top : y + wire.y0, y1: y + wire.y1,
      tensor: wire.branches[0].edge.tensor, own: part.items[wire.a].node === wire.key,
      trunk: wire.trunk.map(([tx, t, b]) => [x + tx, y + t, y + b]),
      branches: wire.branches.map(branch => ({ targets: branch.edge.targets, upto: branch.upto, x: x + branch.x, y0: y + branch.y0, y1: part.items[branch.b].port ? top + part.h : y + branch.y1, arrow: part.items[branch.b].node != null })) });
    for (const edge of part.plan.jumps) {
      const end = (item, d, below) => ({ x: x + item.x + d, y: item.port ? (below ? top : top + part.h) : y + item.y + (below ? item.h : 0) });
      jumps.push({ source: edge.source, targets: edge.targets, from: end(part.items[edge.a], edge.ad, true), to: end(part.items[edge.b], edge.bd, false) });
    }
  };
  const whole = laid(-1);
  flat(whole, 0, 0);
  const firstOf = node => node >= net.nodes ? net.scopes[node - net.nodes].first : node < net.n ? node : node < net.end ? node - net.end : node;
  const order = [...at.keys()].sort((a, b) => firstOf(a) - firstOf(b));
  return banded({ net, open, standIn, at, boxes, wires, jumps, before, after, order, labels: new Map(), w: whole.w, h: whole.h });
};

// Rows of the plane, each with its nodes and wires, so that a frame looks at what it shows only.
const banded = made => {
  const count = Math.max(1, Math.ceil((made.h + 1) / BAND)), bands = Array.from({ length: count }, () => ({ nodes: [], wires: [], jumps: [] }));
  const band = y => Math.max(0, Math.min(count - 1, Math.floor(y / BAND)));
  made.list = [...made.at].map(([node, place]) => ({ node, ...place }));
  made.list.forEach((item, i) => { for (let k = band(item.y); k <= band(item.y + item.h); k++) bands[k].nodes.push(i); });
  made.bySource = new Map();
  made.wires.forEach((wire, i) => {
    let [low, high, left, right] = [wire.y0, wire.y1, wire.x, wire.x];
    const reach = (x, y) => { low = Math.min(low, y); high = Math.max(high, y); left = Math.min(left, x); right = Math.max(right, x); };
    for (const [x, top, bottom] of wire.trunk) { reach(x, top); reach(x, bottom); }
    for (const branch of wire.branches) { reach(branch.x, branch.y0); reach(branch.x, branch.y1); }
    Object.assign(wire, { left, right, low, high });
    for (let k = band(low); k <= band(high); k++) bands[k].wires.push(i);
    (made.bySource.get(wire.source) || made.bySource.set(wire.source, []).get(wire.source)).push(wire);
  });
  made.jumps.forEach((jump, i) => { for (const k of new Set([band(jump.from.y), band(jump.to.y)])) bands[k].jumps.push(i); });
  const stamp = { nodes: new Int32Array(made.list.length), wires: new Int32Array(made.wires.length), jumps: new Int32Array(made.jumps.length) };
  let turn = 0;
  made.within = (left, top, right, bottom) => {
    turn++;
    const shown = { nodes: [], wires: [], jumps: [] };
    const show = (kind, i, item) => {
      if (stamp[kind][i] === turn) return;
      stamp[kind][i] = turn;
      shown[kind].push(item);
    };
    for (let k = band(top); k <= band(bottom); k++) {
      for (const i of bands[k].nodes) {
        const { x, y, w, h } = made.list[i];
        if (x <= right && x + w >= left && y <= bottom && y + h >= top) show("nodes", i, made.list[i]);
      }
      for (const i of bands[k].wires) {
        const wire = made.wires[i];
        if (wire.left <= right && wire.right >= left && wire.low <= bottom && wire.high >= top) show("wires", i, wire);
      }
      for (const i of bands[k].jumps) show("jumps", i, made.jumps[i]);
    }
    return shown;
  };
  made.hit = (x, y) => {
    for (const i of bands[band(y)].nodes) { const item = made.list[i]; if (x >= item.x && x <= item.x + item.w && y >= item.y && y <= item.y + item.h) return { node: item.node }; }
    let title = null;
    for (const box of made.boxes) if (x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + HEAD) title = { box: box.scope };
    return title;
  };
  return made;
};
return { scene, HEAD };
})();
