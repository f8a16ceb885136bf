"use strict";
// One graph on a canvas: its camera, what is open, what is chosen; pointer and wheel.
const Pane = (() => {
const { h, s, clear } = Base;
const MOST = 3, MAP = { w: 150, h: 190, gap: 12 };

// app hears: choose(pane, node), toggle(pane, scope), focus(pane). signal ends what listens.
const pane = (app, side, sideIndex, signal) => {
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-describedby": "said" }), context = canvas.getContext("2d", { alpha: false });
  const title = h("p", { class: "pane-title" }), root = h("div", { class: "pane" }, title, canvas);
  const me = {
    side, sideIndex, root, canvas, title, graph: 0, net: null, made: null, open: null, chosen: null,
    twins: new Set(), hits: new Set(), view: { z: 1, x: 0, y: 0 },
    looks: new Map(), nets: new Map(), opens: new Map(), expanded: new Map(),
  };
  let W = 0, H = 0, ratio = 1, waits = false, map = null;

  const netOf = index => {
    if (!me.nets.has(index)) me.nets.set(index, Net.net(side.graphs[index]));
    return me.nets.get(index);
  };
  me.netOf = netOf;
  me.show = index => {
    me.graph = index;
    me.net = netOf(index);
    if (!me.opens.has(index)) me.opens.set(index, Net.opened(me.net));
    me.open = me.opens.get(index);
    me.chosen = null;
    me.twins = new Set();
    me.label();
    me.relayout();
    me.begin();
  };
  me.label = () => {
    canvas.setAttribute("aria-label", `Graph ${Base.short(me.net.graph.name, 60)} of ${Base.short(side.file, 60)}. Arrow keys walk along it, Enter opens a group, question mark lists the keys.`);
  };
  me.relayout = () => {
    me.made = Scene.scene(me.net, me.open);
    me.tally();
    map = null;
    me.dirty();
  };
  // Figures of the overlay on nodes and groups of this graph.
  me.tally = () => {
    const overlay = me.overlay = app.overlayOf(sideIndex), values = overlay.graphs[me.graph] || [];
    me.values = values;
    me.worst = Net.rated(me.net, overlay, values);
    me.peak = values.reduce((most, value) => typeof value === "number" && value > most ? value : most, 0);
    me.groupFlags = me.net.scopes.map(() => 0);
    for (let i = 0; i < me.net.n; i++) {
      const flags = me.net.flags(i) & (Net.FLAG.refused | Net.FLAG.wrong);
      if (flags) for (const id of me.net.around(i)) me.groupFlags[id] |= flags;
    }
    me.looks = new Map();
    map = null;
    me.dirty();
  };
  me.valueOf = node => node < me.net.n ? me.values[node] ?? null : node >= me.net.nodes ? me.worst[node - me.net.nodes] : null;
  const look = node => {
    if (!me.looks.has(node)) {
      const isEnd = node >= me.net.n && node < me.net.nodes, ends = { strong: app.theme.muted, fill: app.theme.soft };
      me.looks.set(node, isEnd ? ends : Colors.look(app.theme, me.overlay, me.valueOf(node), me.peak));
    }
    return me.looks.get(node);
  };
  const state = () => ({
    theme: app.theme, look, chosen: me.chosen, twins: me.twins, hits: me.hits,
    value: node => me.overlay.kind === "number" ? app.figure(me.overlay, me.valueOf(node)) : "",
    flags: node => node >= me.net.nodes ? me.groupFlags[node - me.net.nodes] : 0,
  });
  const part = () => {
    const { x, y, z } = me.view;
    return { z, left: -x / z, top: -y / z, right: (W - x) / z, bottom: (H - y) / z };
  };

  me.dirty = () => { if (!waits) { waits = true; requestAnimationFrame(() => { waits = false; me.draw(); }); } };
  me.draw = () => {
    if (!me.made || !W) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = app.theme.bg;
    context.fillRect(0, 0, W, H);
    me.stamp(context);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    minimap();
  };
  const mapPlace = () => {
    const w = Math.max(28, Math.min(MAP.w, MAP.h * me.made.w / me.made.h)), tall = Math.max(28, Math.min(MAP.h, MAP.w * me.made.h / me.made.w));
    return { x: W - w - MAP.gap, y: H - tall - MAP.gap, w, h: tall };
  };
  const needsMap = () => { const { left, top, right, bottom } = part(); return W > 320 && (left > 0 || top > 0 || right < me.made.w || bottom < me.made.h) && me.made.list.length > 12; };
  const minimap = () => {
    me.mapped = needsMap();
    if (!me.mapped) return;
    const place = mapPlace(), kx = place.w / me.made.w, ky = place.h / me.made.h;
    if (!map) {
      map = h("canvas", { width: Math.ceil(place.w * ratio), height: Math.ceil(place.h * ratio) });
      const pen = map.getContext("2d");
      pen.scale(ratio, ratio);
      pen.fillStyle = app.theme.card;
      pen.fillRect(0, 0, place.w, place.h);
      pen.globalAlpha = 0.06; pen.fillStyle = app.theme.ink;
      for (const box of me.made.boxes) pen.fillRect(box.x * kx, box.y * ky, box.w * kx, box.h * ky);
      pen.globalAlpha = 1;
      for (const item of me.made.list) {
        const { strong } = look(item.node);
        pen.fillStyle = strong === app.theme.line ? app.theme.edge : strong;
        pen.fillRect(item.x * kx, item.y * ky, Math.max(0.8, item.w * kx), Math.max(0.8, item.h * ky));
      }
    }
    context.drawImage(map, place.x, place.y, place.w, place.h);
    const { left, top, right, bottom } = part(), fit = (value, most) => Math.max(0, Math.min(most, value));
    const x0 = fit(left * kx, place.w), x1 = fit(right * kx, place.w), y0 = fit(top * ky, place.h), y1 = fit(bottom * ky, place.h);
    context.strokeStyle = app.theme.edge; context.lineWidth = 1; context.setLineDash([]);
    context.strokeRect(place.x - 0.5, place.y - 0.5, place.w + 1, place.h + 1);
    context.strokeStyle = app.theme.c1; context.lineWidth = 2;
    context.strokeRect(place.x + x0, place.y + y0, Math.max(3, x1 - x0), Math.max(3, y1 - y0));
  };
  const jumpTo = (x, y) => {
    const place = mapPlace();
    me.view.x = W / 2 - me.view.z * me.made.w * (x - place.x) / place.w;
    me.view.y = H / 2 - me.view.z * me.made.h * (y - place.y) / place.h;
    me.dirty();
  };
  const inMap = (x, y) => {
    const { x: left, y: top, w, h: tall } = mapPlace();
    return me.mapped && x >= left && y >= top && x <= left + w && y <= top + tall;
  };

  me.resize = () => {
    const box = canvas.getBoundingClientRect(), first = !W;
    if (!box.width || !box.height) return;
    const grown = box.width - W;
    ratio = Math.min(2, devicePixelRatio || 1);
    W = box.width; H = box.height;
    canvas.width = Math.round(W * ratio); canvas.height = Math.round(H * ratio);
    if (first) me.begin(); else me.view.x += grown / 2;
    map = null;
    me.draw();
  };
  me.begin = () => {
    if (!W || !me.made) return;
    const all = Math.min((W - 40) / me.made.w, (H - 40) / me.made.h), z = all >= 0.55 ? Math.min(1, all) : 0.85;
    const first = me.made.at.get(me.made.order[0]);
    me.view = { z, x: W / 2 - z * (me.made.w * z > W && first ? first.x + first.w / 2 : me.made.w / 2), y: me.made.h * z < H ? (H - z * me.made.h) / 2 : 20 };
    me.dirty();
  };
  me.fit = () => {
    const z = Math.min(1.2, (W - 40) / me.made.w, (H - 40) / me.made.h);
    me.view = { z, x: (W - z * me.made.w) / 2, y: (H - z * me.made.h) / 2 };
    me.dirty();
  };
  me.zoom = (factor, x = W / 2, y = H / 2) => {
    const least = Math.min(0.1, (W - 40) / me.made.w, (H - 40) / me.made.h), z = Math.max(least, Math.min(MOST, me.view.z * factor)), share = z / me.view.z;
    me.view = { z, x: x - (x - me.view.x) * share, y: y - (y - me.view.y) * share };
    me.dirty();
  };
  me.pan = (dx, dy) => { me.view.x += dx; me.view.y += dy; me.dirty(); };
  me.center = (node, near = false) => {
    const item = me.made.at.get(node);
    if (!item || !W) return;
    if (me.view.z < 0.3) me.view.z = 0.7;
    const x = item.x + item.w / 2, y = item.y + item.h / 2, at = { x: me.view.x + x * me.view.z, y: me.view.y + y * me.view.z };
    if (near && at.x > 120 && at.y > 60 && at.x < W - 120 && at.y < H - 60) return me.dirty();
    me.view.x = W / 2 - x * me.view.z; me.view.y = H / 2 - y * me.view.z;
    me.dirty();
  };
  // Opens what a node is in.
  me.reveal = node => {
    const folded = me.net.around(node).filter(id => !me.open.has(id));
    folded.forEach(id => me.open.add(id));
    if (folded.length) me.relayout();
  };
  // Folds or opens a scope; what is under the pointer stays there.
  me.toggle = scope => {
    const wasOpen = me.open.has(scope), group = me.net.nodes + scope;
    const placeOf = () => me.made.at.get(group) || me.made.boxes.find(box => box.scope === scope);
    const before = placeOf();
    if (wasOpen) me.open.delete(scope); else me.open.add(scope);
    me.relayout();
    const after = placeOf();
    if (before && after) { me.view.x += (before.x + before.w / 2 - after.x - after.w / 2) * me.view.z; me.view.y += (before.y - after.y) * me.view.z; }
    return !wasOpen;
  };
  me.openAll = on => { me.open.clear(); if (on) me.net.scopes.forEach(scope => me.open.add(scope.id)); me.relayout(); };
  me.standsFor = node => node < me.net.nodes ? me.made.standIn[node] : node;

  // The same strokes as elements; what is in view, or all.
  me.svg = (whole = false) => {
    const view = whole ? { z: 1, left: -20, top: -20, right: me.made.w + 20, bottom: me.made.h + 20 } : part();
    const w = view.right - view.left, tall = view.bottom - view.top;
    const words = `Graph ${Paint.cut(me.net.graph.name)} of ${Paint.cut(side.file)}`, group = s("g");
    const svg = s("svg", {
      viewBox: `${view.left} ${view.top} ${w} ${tall}`, width: Math.round(w * view.z), height: Math.round(tall * view.z),
      role: "img", "aria-label": words,
    }, s("title", {}, words), s("rect", { x: view.left, y: view.top, width: w, height: tall, fill: app.theme.bg }), group);
    Paint.paint(Pens.svg(group), me.made, view, state());
    return svg;
  };
  // What is in view on a canvas, whose pen stands at the corner of the pane.
  me.stamp = pen => {
    pen.translate(me.view.x, me.view.y);
    pen.scale(me.view.z, me.view.z);
    Paint.paint(Pens.canvas(pen), me.made, part(), state());
  };
  me.size = () => ({ w: W, h: H });

  // ------------------------------------------------------------------ pointer
  const points = new Map();
  let moved = 0, spread = 0, mapping = false;
  const spot = event => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  const find = ({ x, y }) => me.made.hit((x - me.view.x) / me.view.z, (y - me.view.y) / me.view.z);
  const on = (kind, act, options) => canvas.addEventListener(kind, act, { signal, ...options });
  on("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    const at = spot(event);
    points.set(event.pointerId, at);
    moved = 0;
    mapping = points.size === 1 && inMap(at.x, at.y);
    if (mapping) jumpTo(at.x, at.y);
  });
  on("pointermove", event => {
    const at = spot(event), from = points.get(event.pointerId);
    if (!from) { const item = !inMap(at.x, at.y) && find(at); canvas.classList.toggle("over", !!item); canvas.title = item ? app.tooltip(me, item) : ""; return; }
    points.set(event.pointerId, at);
    moved += Math.abs(at.x - from.x) + Math.abs(at.y - from.y);
    if (mapping) return jumpTo(at.x, at.y);
    if (points.size === 2) {
      const [a, b] = [...points.values()], apart = Math.hypot(a.x - b.x, a.y - b.y);
      if (spread) me.zoom(apart / spread, (a.x + b.x) / 2, (a.y + b.y) / 2);
      spread = apart;
    }
    me.pan((at.x - from.x) / points.size, (at.y - from.y) / points.size);
  });
  const lift = event => { points.delete(event.pointerId); spread = 0; };
  on("pointerup", event => {
    lift(event);
    if (mapping || moved > 5) return;
    const item = find(spot(event));
    app.focus(me);
    if (item?.box != null) app.toggle(me, item.box); else app.choose(me, item ? item.node : null, { stay: true });
  });
  on("pointercancel", lift);
  on("dblclick", event => { const item = find(spot(event)); if (item?.node >= me.net.nodes) app.toggle(me, item.node - me.net.nodes); });
  on("wheel", event => {
    event.preventDefault();
    const at = spot(event), scale = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) me.zoom(Math.exp(-event.deltaY * scale / 120), at.x, at.y);
    else if (event.shiftKey) me.pan(-(event.deltaX || event.deltaY) * scale, 0);
    else me.pan(-event.deltaX * scale, -event.deltaY * scale);
  }, { passive: false });
  on("focus", () => app.focus(me));
  return me;
};
return { pane };
})();
