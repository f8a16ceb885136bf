"use strict";
// What is drawn of a scene, with either pen. One path for each colour; less is drawn when all is small.
const Paint = (() => {
const TEXT_FROM = 0.45, WIRES_FROM = 0.06, FINE_FROM = 0.2, SHAPES_FROM = 0.75, DOTS_BELOW = 0.02, LEAST_BOX = 2, TALL_BOX = 150;
const { FLAG, OP } = Net;
const CUT = 28;
const tail = (text, most = CUT) => text.length <= most ? text : "\u2026" + text.slice(1 - most);
const lead = (text, most) => text.length <= most ? text : text.slice(0, most - 1) + "\u2026";
const cut = (text, most = 200) => Base.clean(text.length > most ? text.slice(0, most) + "\u2026" : text);
// A source model may not know the rank of a tensor.
const shape = dims => !dims ? "?" : dims.length ? dims.map(n => n ?? "?").join("\u00d7") : "scalar";

// What stands on a node: lines and marks, made when first drawn.
const labels = (net, made, node) => {
  if (node >= net.nodes) {
    const scope = net.scopes[node - net.nodes];
    return { first: tail(cut(scope.name, 4000), 24), second: Base.count(scope.count, "op"), flags: 0, group: true };
  }
  if (node >= net.n) {
    const [name, dtype, dims] = net.graph.tensors[net.tensorOf(node)];
    return { first: tail(cut(name, 4000), 20), second: lead(`${dtype} ${shape(dims)}`, 24), flags: 0, end: true };
  }
  const op = net.op(node), name = cut(op[OP.name].length > 400 ? op[OP.name].slice(-400) : op[OP.name], 400);
  const inputs = op[OP.inputs].filter(tensor => tensor >= 0).map(tensor => net.graph.tensors[tensor]);
  const weights = inputs.find(([, , dims, role]) => role === "static" && dims?.length > 1);
  const third = weights ? lead(shape(weights[2]), 20) : "";
  return { first: lead(cut(net.does(node)), 20), second: tail(name, third ? CUT - 1 - third.length : CUT), third, flags: op[OP.flags] || 0, bodies: op[OP.bodies] };
};

const trace = (pen, wire, branch, bend) => {
  pen.move(wire.x, wire.y0);
  let x = wire.x, y = wire.y1;
  pen.line(x, y);
  const step = (nx, ny) => {
    if (Math.abs(nx - x) < 0.8 || !bend) pen.line(nx, ny);
    else { const middle = (y + ny) / 2; pen.curve(x, middle, nx, middle, nx, ny); }
    x = nx; y = ny;
  };
  for (let k = 0; k < branch.upto; k++) { const [tx, top, bottom] = wire.trunk[k]; step(tx, top); if (bottom > top) { pen.line(tx, bottom); y = bottom; } }
  step(branch.x, branch.y0);
  pen.line(branch.x, branch.y1);
};
// All of a wire: the way that its branches share once, then each branch from where it leaves.
const whole = (pen, wire, bend) => {
  let longest = wire.branches[0];
  for (const branch of wire.branches) if (branch.upto > longest.upto) longest = branch;
  trace(pen, wire, longest, bend);
  for (const branch of wire.branches) {
    if (branch === longest) continue;
    const [x, y] = branch.upto ? [wire.trunk[branch.upto - 1][0], wire.trunk[branch.upto - 1][2]] : [wire.x, wire.y1];
    pen.move(x, y);
    if (Math.abs(branch.x - x) < 0.8 || !bend) pen.line(branch.x, branch.y0);
    else { const middle = (y + branch.y0) / 2; pen.curve(x, middle, branch.x, middle, branch.x, branch.y0); }
    pen.line(branch.x, branch.y1);
  }
};
const tip = (pen, x, y) => { pen.move(x, y); pen.line(x - 3.5, y - 6); pen.line(x + 3.5, y - 6); pen.line(x, y); };
// One path of items, drawn in one style.
const strokes = (pen, items, draw, style) => {
  if (!items.length) return;
  pen.begin();
  for (const item of items) draw(item);
  pen.end(style);
};
const batches = () => { const map = new Map(); return { put: (key, item) => (map.get(key) || map.set(key, []).get(key)).push(item), map }; };
const hatch = (pen, { x, y, w, h }) => {
  for (let c = 8; c < w + h; c += 8) {
    pen.move(Math.max(x, x + c - h), y + Math.min(h, c));
    pen.line(Math.min(x + w, x + c), y + Math.max(0, c - w));
  }
};

// state: {theme, look(node), value(node), chosen, twins: Set, hits: Set}. view: part of the plane and its zoom.
const paint = (pen, made, view, state) => {
  const { theme, look } = state, { z } = view, net = made.net, hair = 1 / Math.max(z, 0.05);
  const shown = made.within(view.left, view.top, view.right, view.bottom);
  const inView = box => box.x <= view.right && box.x + box.w >= view.left && box.y <= view.bottom && box.y + box.h >= view.top;
  const boxes = made.boxes.filter(box => box.h * z > LEAST_BOX && inView(box));
  const outline = box => pen.rect(box.x, box.y, box.w, box.h, z < FINE_FROM ? 0 : 10);
  for (const box of boxes) strokes(pen, [box], outline, { fill: Colors.shade(theme, box.depth) });
  strokes(pen, boxes, outline, { stroke: theme.edge, width: Math.max(1, hair) });

  const bend = z >= FINE_FROM;
  if (z >= WIRES_FROM) {
    const down = shown.wires.filter(wire => !wire.back), back = shown.wires.filter(wire => wire.back);
    const line = wire => whole(pen, wire, bend);
    strokes(pen, down, line, { stroke: theme.wire, width: Math.max(1.1, 0.9 * hair) });
    strokes(pen, back, line, { stroke: theme.wire, width: Math.max(1.2, hair), dash: [6, 4] });
    if (z >= TEXT_FROM) {
      const arrows = down.flatMap(wire => wire.branches.filter(branch => branch.arrow));
      strokes(pen, arrows, branch => tip(pen, branch.x, branch.y1), { fill: theme.wire });
    }
    jumps(pen, made, shown, view, state);
  }
  if (state.chosen != null) around(pen, made, state, hair);

  const fills = batches(), stripes = batches(), outlines = batches();
  const flagsOf = item => item.node < net.n ? net.flags(item.node) : state.flags(item.node);
  const small = z < FINE_FROM, dots = z < DOTS_BELOW ? new Set() : null;
  for (const item of shown.nodes) {
    if (dots) {
      const dot = Math.round(item.x * z) * 65536 + Math.round(item.y * z);
      if (dots.has(dot)) continue;
      dots.add(dot);
    }
    const color = look(item.node);
    fills.put(!small ? color.fill : color.strong === theme.line ? theme.edge : color.strong, item);
    if (small) continue;
    if (item.node < net.n || item.node >= net.nodes) stripes.put(color.strong, item);
    const flags = flagsOf(item);
    const isInserted = item.node < net.n && flags & FLAG.inserted;
    outlines.put(flags & FLAG.refused ? "refused" : flags & FLAG.wrong ? "wrong" : isInserted ? "inserted" : "plain", item);
  }
  const body = small
    ? item => pen.rect(item.x, item.y, Math.max(item.w, 1 / z), Math.max(item.h, 1 / z), 0)
    : item => pen.rect(item.x, item.y, item.w, item.h, radius(net, item));
  for (const [fill, items] of fills.map) strokes(pen, items, body, { fill });
  if (small) {
    const bad = shown.nodes.filter(item => flagsOf(item) & (FLAG.refused | FLAG.wrong));
    strokes(pen, bad, item => pen.rect(item.x, item.y, item.w, item.h, 0), { stroke: theme.alarm, width: 2 * hair });
  } else {
    const host = z >= 0.3 ? shown.nodes.filter(item => item.node < net.n && net.flags(item.node) & FLAG.host) : [];
    strokes(pen, host, item => hatch(pen, item), { stroke: theme.muted, width: 1, alpha: 0.3 });
    for (const [fill, items] of stripes.map) strokes(pen, items, item => pen.rect(item.x, item.y + 5, 4, item.h - 10, 0), { fill });
    const styles = {
      plain: { stroke: theme.edge, width: 1 },
      inserted: { stroke: theme.ink, width: 1.5, dash: [2, 3] },
      refused: { stroke: theme.alarm, width: 2.4 },
      wrong: { stroke: theme.alarm, width: 3.2 },
    };
    for (const [kind, items] of outlines.map) strokes(pen, items, body, styles[kind]);
    const under = item => {
      pen.move(item.x + 8, item.y + item.h + 3);
      pen.line(item.x + item.w - 8, item.y + item.h + 3);
    };
    strokes(pen, shown.nodes.filter(item => item.node >= net.nodes), under, { stroke: theme.edge, width: 1.5 });
  }
  const ring = (isIn, color, width) => {
    const gap = 2 * hair, around = item => pen.rect(item.x - gap, item.y - gap, item.w + 2 * gap, item.h + 2 * gap, small ? 0 : 9);
    strokes(pen, shown.nodes.filter(item => isIn(item.node)), around, { stroke: color, width: width * hair });
  };
  if (state.hits.size) ring(node => state.hits.has(node), theme.c2, 2);
  if (state.twins.size) ring(node => state.twins.has(node), theme.c3, 3);
  if (state.chosen != null) ring(node => node === state.chosen, theme.c1, 3);
  if (z >= TEXT_FROM) texts(pen, made, shown, view, state);
  titles(pen, made, boxes, view, state);
};
const radius = (net, item) => item.node < net.n ? 7 : item.node < net.nodes ? 14 : 7;

const jumps = (pen, made, shown, view, { theme }) => {
  if (!shown.jumps.length) return;
  pen.begin();
  for (const { from, to } of shown.jumps) { pen.move(from.x, from.y); pen.line(from.x + 14, from.y + 12); pen.move(to.x - 14, to.y - 12); pen.line(to.x, to.y); }
  pen.end({ stroke: theme.wire, width: Math.max(1.2, 1 / view.z), dash: [3, 3] });
  if (view.z < TEXT_FROM) return;
  const word = node => lead(cut(node >= made.net.nodes ? made.net.scopes[node - made.net.nodes].name : made.net.name(node).slice(-200)), 26);
  for (const { from, to, source, targets } of shown.jumps) {
    pen.text(from.x + 17, from.y + 16, "to " + word(targets[0]) + (targets.length > 1 ? ` +${targets.length - 1}` : ""), { fill: theme.muted, size: 10, mono: true });
    pen.text(to.x - 17, to.y - 12, "from " + word(source), { fill: theme.muted, size: 10, mono: true, anchor: "end" });
  }
};
// Wires of what is chosen: what it reads and who reads it.
const around = (pen, made, { theme, chosen }, hair) => {
  const width = Math.max(2, 2 * hair), wiresOf = node => made.bySource.get(node) || [];
  const read = (made.before.get(chosen) || []).flatMap(wiresOf).flatMap(wire =>
    wire.branches.filter(branch => branch.targets.includes(chosen)).map(branch => [wire, branch]));
  strokes(pen, read, ([wire, branch]) => trace(pen, wire, branch, true), { stroke: theme.c2, width });
  strokes(pen, wiresOf(chosen), wire => whole(pen, wire, true), { stroke: theme.c1, width });
};
const texts = (pen, made, shown, view, state) => {
  const { theme } = state, net = made.net;
  for (const item of shown.nodes) {
    const label = made.labels.get(item.node) || made.labels.set(item.node, labels(net, made, item.node)).get(item.node);
    const [ink, dim] = Colors.inks(theme, state.look(item.node).fill), value = state.value(item.node);
    if (label.end) {
      pen.text(item.x + item.w / 2, item.y + 12.5, label.first, { fill: ink, size: 10.5, bold: true, mono: true, anchor: "middle" });
      pen.text(item.x + item.w / 2, item.y + 23.5, label.second, { fill: dim, size: 9, mono: true, anchor: "middle" });
      continue;
    }
    const left = item.x + 12, mark = label.flags & FLAG.wrong ? "\u2717 " : label.bodies ? "\u25c8 " : label.group ? "\u25b8 " : "";
    pen.text(left, item.y + (label.group ? 21 : 17.5), mark + lead(label.first, Math.floor((item.w - 34 - 6.4 * value.length) / 8.2)), { fill: ink, size: 12.5, bold: true });
    if (value) pen.text(item.x + item.w - 10, item.y + (label.group ? 21 : 17.5), value, { fill: dim, size: 11, anchor: "end" });
    pen.text(left, item.y + (label.group ? 38 : 33), label.second, { fill: dim, size: 10.2, mono: !label.group });
    if (label.third) pen.text(item.x + item.w - 10, item.y + 33, label.third, { fill: dim, size: 9, anchor: "end" });
  }
  if (view.z < SHAPES_FROM) return;
  for (const wire of shown.wires) {
    if (!wire.own) continue;
    const { x, y, anchor } = beside(wire);
    pen.text(wire.x + x, y, lead(shape(net.graph.tensors[wire.tensor][2]), 24), { fill: theme.muted, size: 9, anchor });
  }
};
// Where the label of a wire touches none of its ways: on the side that they do not lead to, or between them.
const STEM = 16, NEAR = 4;
const beside = wire => {
  const ends = wire.branches.map(({ upto, x }) => (upto ? wire.trunk[0][0] : x) - wire.x);
  const left = Math.max(...ends.filter(end => end < -NEAR)), right = Math.min(...ends.filter(end => end > NEAR));
  const hasStem = wire.y1 - wire.y0 >= STEM, forks = left > -Infinity && right < Infinity;
  if (hasStem || !forks) {
    const isLeft = right < Infinity && !forks;
    return { x: isLeft ? -6 : 6, y: wire.y0 + 13, anchor: isLeft ? "end" : "start" };
  }
  const isFree = ends.every(end => Math.abs(end) > NEAR);
  if (isFree) return { x: (left + right) / 4, y: wire.y1 + 25, anchor: "middle" };
  return right < -left ? { x: -6, y: wire.y1 + 25, anchor: "end" } : { x: 6, y: wire.y1 + 25, anchor: "start" };
};
// Titles of open boxes stand on plates, as wires and ops may be below them.
// They keep their size on the screen, if the box has room for it.
const titles = (pen, made, boxes, view, { theme }) => {
  const taken = [];
  for (const box of boxes) {
    const size = Math.min(Math.max(12, 11 / view.z), box.h * view.z > TALL_BOX ? 400 : 20);
    const room = Math.floor((box.w - 24) / (size * 0.66)), { name } = made.net.scopes[box.scope];
    if (room < Math.min(12, name.length + 2) || size * view.z < 7) continue;
    const words = "\u25be " + tail(cut(name, 4000), Math.min(40, room - 2));
    const x = box.x + 12, y = box.y + Math.max(18, size + 2), w = words.length * size * 0.66;
    if (taken.some(other => x < other.x + other.w && x + w > other.x && y - size < other.y && y > other.y - other.size)) continue;
    taken.push({ x, y, w, size });
    const plate = () => pen.rect(x - size / 3, y - size, w + size / 3, size * 1.4, size / 3);
    strokes(pen, [plate], draw => draw(), { fill: Colors.shade(theme, box.depth) });
    pen.text(x, y, words, { fill: theme.muted, size, bold: true });
  }
};
return { paint, cut, tail, lead, shape };
})();
