"use strict";
// Places in rows, after Brandes and Koepf: chains and long edges become straight lines where they cross none; the mean of the
// two middle ones of four such placements. Linear in nodes and edges.
const Place = (() => {
// Edges that cross a long edge yield to it.
const crossed = (layers, up, isDummy, place) => {
  const yields = new Set();
  for (let r = 1; r < layers.length; r++) {
    const row = layers[r];
    let low = 0, from = 0;
    row.forEach((v, i) => {
      const upper = isDummy(v) && up[v].length && isDummy(up[v][0][0]) ? up[v][0][0] : -1;
      if (upper < 0 && i < row.length - 1) return;
      const high = upper < 0 ? layers[r - 1].length : place[upper];
      for (; from <= i; from++) for (const [u] of up[row[from]]) if ((place[u] < low || place[u] > high) && !(isDummy(u) && isDummy(row[from]))) yields.add(`${u}>${row[from]}`);
      low = high;
    });
  }
  return yields;
};

// Nodes that stand above each other form blocks; shift is that of a node in its block.
const blocks = (m, rows, near, place, sign, isFree) => {
  const root = Int32Array.from({ length: m }, (_, v) => v), taken = new Uint8Array(m), shift = new Float64Array(m);
  for (const row of rows) {
    let last = -1;
    for (const v of row) {
      const ways = near[v].length > 1 ? [...near[v]].sort((a, b) => place[a[0]] - place[b[0]]) : near[v], middle = (ways.length - 1) / 2;
      for (let i = Math.floor(middle); i >= 0 && i <= Math.ceil(middle); i++) {
        const [u, d] = ways[i];
        if (root[v] !== v || taken[u] || place[u] <= last || !isFree(u, v)) continue;
        taken[u] = 1;
        root[v] = root[u];
        shift[v] = shift[u] + sign * d;
        last = place[u];
      }
    }
  }
  return { root, shift };
};

// As far left as the gaps in all rows let each block go, then as near to its right neighbours as it may.
const compact = (m, rows, { root, shift }, width, gap) => {
  const after = new Map(), left = new Int32Array(m), x = new Float64Array(m), order = [];
  for (const row of rows) for (let i = 1; i < row.length; i++) {
    const u = row[i - 1], v = row[i], apart = (width(u) + width(v)) / 2 + gap + shift[u] - shift[v];
    (after.get(root[u]) || after.set(root[u], []).get(root[u])).push([root[v], apart]);
    left[root[v]]++;
  }
  for (let v = 0; v < m; v++) if (root[v] === v && !left[v]) order.push(v);
  for (let i = 0; i < order.length; i++) for (const [v, apart] of after.get(order[i]) || []) {
    x[v] = Math.max(x[v], x[order[i]] + apart);
    if (!--left[v]) order.push(v);
  }
  for (let i = order.length - 1; i >= 0; i--) {
    let most = Infinity;
    for (const [v, apart] of after.get(order[i]) || []) most = Math.min(most, x[v] - apart);
    if (most < Infinity) x[order[i]] = Math.max(x[order[i]], most);
  }
  return Float64Array.from({ length: m }, (_, v) => x[root[v]] + shift[v]);
};

// layers: rows of nodes in order. up, down: for each node [[neighbour, right of it where this one wants to be]].
const places = (m, layers, up, down, width, isDummy, gap) => {
  const plans = [], at = new Int32Array(m), mirrored = new Int32Array(m);
  for (const row of layers) row.forEach((v, i) => { at[v] = i; mirrored[v] = row.length - 1 - i; });
  const yields = crossed(layers, up, isDummy, at);
  for (const near of [up, down]) for (const sign of [1, -1]) {
    let rows = sign > 0 ? layers : layers.map(row => [...row].reverse());
    if (near === down) rows = [...rows].reverse();
    const isFree = near === up ? (u, v) => !yields.has(`${u}>${v}`) : (u, v) => !yields.has(`${v}>${u}`);
    const x = compact(m, rows, blocks(m, rows, near, sign > 0 ? at : mirrored, sign, yields.size ? isFree : () => true), width, gap);
    if (sign < 0) for (let v = 0; v < m; v++) x[v] = -x[v];
    let low = Infinity, high = -Infinity;
    for (let v = 0; v < m; v++) { low = Math.min(low, x[v] - width(v) / 2); high = Math.max(high, x[v] + width(v) / 2); }
    plans.push({ x, low, high, sign });
  }
  const least = plans.reduce((best, plan) => plan.high - plan.low < best.high - best.low ? plan : best);
  for (const plan of plans) { const move = plan.sign > 0 ? least.low - plan.low : least.high - plan.high; for (let v = 0; v < m; v++) plan.x[v] += move; }
  const all = new Float64Array(4);
  return Float64Array.from({ length: m }, (_, v) => { plans.forEach((plan, i) => { all[i] = plan.x[v]; }); all.sort(); return (all[1] + all[2]) / 2; });
};
return { places };
})();
