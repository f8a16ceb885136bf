"use strict";
// Layered layout of one box: ranks along the edges, few crossings, straight long edges. Linear in nodes and edges for each sweep.
const Layout = (() => {
const GAP_X = 20, GAP_Y = 32, DUMMY = 8, LONG = 40, ARROWS = 24;

// Edges that close a circle, as a group may be before and after a node.
const backward = (n, out, edges) => {
  const state = new Uint8Array(n), next = new Int32Array(n), back = new Uint8Array(edges.length);
  for (let root = 0; root < n; root++) {
    if (state[root]) continue;
    const way = [root];
    state[root] = 1;
    while (way.length) {
      const v = way[way.length - 1];
      if (next[v] === out[v].length) { state[v] = 2; way.pop(); continue; }
      const e = out[v][next[v]++], w = edges[e].b;
      if (state[w] === 1) back[e] = 1;
      else if (!state[w]) { state[w] = 1; way.push(w); }
    }
  }
  return back;
};

// Rank of each item: the longest way from a source. Ports are in the first and last rank.
const ranked = (items, links) => {
  const n = items.length, down = items.map(() => []), left = new Int32Array(n), rank = new Int32Array(n);
  for (const [a, b] of links) { down[a].push(b); left[b]++; }
  const first = items.some(item => item.port === "in") ? 1 : 0, order = [];
  for (let v = 0; v < n; v++) { if (items[v].port !== "in") rank[v] = first; if (!left[v]) order.push(v); }
  const sources = order.length;
  for (let i = 0; i < order.length; i++) for (const w of down[order[i]]) {
    rank[w] = Math.max(rank[w], rank[order[i]] + 1);
    if (!--left[w]) order.push(w);
  }
  for (let i = 0; i < sources; i++) {  // a source stands right above its first reader
    const v = order[i];
    if (items[v].port || !down[v].length) continue;
    rank[v] = down[v].reduce((least, w) => Math.min(least, rank[w]), Infinity) - 1;
  }
  let last = 0;
  for (let v = 0; v < n; v++) if (items[v].port !== "out") last = Math.max(last, rank[v]);
  for (let v = 0; v < n; v++) if (items[v].port === "out") rank[v] = last + 1;
  return rank;
};

// items: {w, h, port: "in" | "out" | undefined} in order of execution. edges: {a, b, ad, bd, key}: from item a at ad right of
// its middle to b at bd right of its; edges of the same a and key share their way. Sets x (of the middle) and y (of the
// top) of each item. Returns size and wires: {a, key, x, y0, y1 (end of the item, of its rank), trunk: [[x, top, bottom]
// by rank], branches: [{edge, upto, x, y0, y1}]}; an edge over more than LONG ranks has no branch but is in jumps.
const layered = (items, edges) => {
  const n = items.length;
  if (!n) return { w: 0, h: 0, wires: [], jumps: [] };
  const out = items.map(() => []);
  edges.forEach((edge, e) => { if (edge.a !== edge.b) out[edge.a].push(e); });
  const back = backward(n, out, edges), links = [];
  edges.forEach((edge, e) => { if (edge.a !== edge.b) links.push(back[e] ? [edge.b, edge.a] : [edge.a, edge.b]); });
  const rank = ranked(items, links), layerOf = Array.from(rank), up = items.map(() => []), down = items.map(() => []);
  const wires = new Map(), jumps = [];
  const join = (u, v, ud, vd) => { down[u].push([v, vd - ud]); up[v].push([u, ud - vd]); };
  edges.forEach((edge, e) => {
    if (edge.a === edge.b) return;
    const [a, b, ad, bd] = back[e] ? [edge.b, edge.a, edge.bd, edge.ad] : [edge.a, edge.b, edge.ad, edge.bd];
    if (rank[b] - rank[a] > LONG) { jumps.push(e); return; }
    const key = `${a}/${back[e] ? "back" : ""}${edge.key}`;
    if (!wires.has(key)) wires.set(key, { a, ad, key: edge.key, back: back[e], chain: [], branches: [] });
    const wire = wires.get(key);
    let at = wire.chain.length ? wire.chain[Math.min(wire.chain.length, rank[b] - rank[a] - 1) - 1] ?? a : a;
    while (wire.chain.length < rank[b] - rank[a] - 1) {
      const dummy = layerOf.length;
      layerOf.push(rank[a] + wire.chain.length + 1); up.push([]); down.push([]);
      join(at, dummy, at === a ? ad : 0, 0);
      wire.chain.push(dummy);
      at = dummy;
    }
    join(at, b, at === a ? ad : 0, bd);
    wire.branches.push({ edge: e, b, bd, upto: rank[b] - rank[a] - 1 });
  });
  const m = layerOf.length, layers = [];
  for (let v = 0; v < m; v++) (layers[layerOf[v]] ??= []).push(v);
  for (let r = 0; r < layers.length; r++) layers[r] ??= [];
  const width = v => v < n ? items[v].w : DUMMY;

  // Fewer crossings: each row in the order of the middles of its neighbours.
  const place = new Float64Array(m), key = new Float64Array(m);
  const number = row => { let at = 0; for (const v of row) { place[v] = at + width(v) / 2; at += width(v) + GAP_X; } at /= 2; for (const v of row) place[v] -= at; };
  layers.forEach(number);
  const sweep = (row, near) => {
    if (row.length < 2) return;
    for (const v of row) { let sum = 0; for (const [u, d] of near[v]) sum += place[u] + d; key[v] = near[v].length ? sum / near[v].length : place[v]; }
    row.sort((p, q) => key[p] - key[q] || p - q);
    number(row);
  };
  for (let k = 0; k < (m < 4000 ? 10 : 4); k++) if (k % 2 === 0) layers.forEach(row => sweep(row, up)); else for (let r = layers.length - 1; r >= 0; r--) sweep(layers[r], down);

  const x = Place.places(m, layers, up, down, width, v => v >= n, GAP_X);
  let low = Infinity, high = -Infinity;
  for (let v = 0; v < m; v++) { low = Math.min(low, x[v] - width(v) / 2); high = Math.max(high, x[v] + width(v) / 2); }
  const tops = [], bottoms = [];
  let y = 0;
  layers.forEach((row, r) => {
    const tall = row.reduce((most, v) => Math.max(most, v < n ? items[v].h : 0), 0), ports = row.every(v => v < n && items[v].port);
    tops[r] = y; bottoms[r] = y + tall;
    y += tall + (r === layers.length - 1 ? 0 : ports ? GAP_Y / 2 : GAP_Y);
  });
  items.forEach((item, v) => { item.x = x[v] - low; item.y = tops[rank[v]]; });
  // Arrows to a node arrive beside each other; one from right above stays straight.
  const arrivals = items.map(() => []);
  for (const wire of wires.values()) for (const branch of wire.branches) if (items[branch.b].spread && !wire.back) arrivals[branch.b].push({ branch, from: branch.upto ? x[wire.chain[branch.upto - 1]] : x[wire.a] + wire.ad });
  arrivals.forEach((group, b) => {
    if (group.length < 2) return;
    group.sort((p, q) => p.from - q.from);
    const step = Math.min(ARROWS, (items[b].w - 40) / group.length);
    const above = group.findIndex(({ from }) => Math.abs(from - x[b]) < step / 2);
    const middle = above < 0 ? (group.length - 1) / 2 : above;
    group.forEach(({ branch }, k) => { branch.bd = (k - middle) * step; });
  });
  return { w: high - low, h: y, jumps: jumps.map(e => edges[e]), wires: [...wires.values()].map(wire => ({
    a: wire.a, key: wire.key, back: wire.back, x: items[wire.a].x + wire.ad, y0: items[wire.a].y + items[wire.a].h, y1: bottoms[rank[wire.a]],
    trunk: wire.chain.map(dummy => [x[dummy] - low, tops[layerOf[dummy]], bottoms[layerOf[dummy]]]),
    branches: wire.branches.map(({ edge, b, bd, upto }) => ({ edge: edges[edge], b, upto, x: items[b].x + bd, y0: tops[rank[b]], y1: items[b].y })) })) };
};
return { layered };
})();
