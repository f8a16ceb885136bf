"use strict";
// Below the graph: the overlay over all ops in order. Beside it: what its colours mean.
const Strip = (() => {
const { h, clear, add } = Base;

const draw = (app, canvas) => {
  const pane = app.active, { net, overlay, values } = pane, box = canvas.getBoundingClientRect(), ratio = Math.min(2, devicePixelRatio || 1);
  if (!box.width || !net.n) return;
  canvas.width = Math.round(box.width * ratio); canvas.height = Math.round(box.height * ratio);
  const pen = canvas.getContext("2d"), W = box.width, H = box.height, step = W / net.n;
  pen.scale(ratio, ratio);
  pen.fillStyle = app.theme.card; pen.fillRect(0, 0, W, H);
  const numbers = values.filter(value => typeof value === "number");
  const high = numbers.reduce((a, b) => Math.max(a, b), 0), low = numbers.reduce((a, b) => Math.min(a, b), 0);
  const isWorse = (a, b) => overlay.kind === "number" && (overlay.low_is_bad ? a < b : a > b);
  // Ops that share a pixel are one bar: the worst of them.
  const size = Math.max(1, Math.ceil(1 / step));
  for (let i = 0; i < net.n; i += size) {
    let value = null;
    for (const each of values.slice(i, i + size)) if (each != null && (value == null || isWorse(each, value))) value = each;
    if (value == null) continue;
    pen.fillStyle = Colors.look(app.theme, overlay, value, pane.peak).strong;
    if (overlay.kind === "number") {
      const top = H - 2 - (H - 6) * (value - low) / (high - low || 1);
      pen.fillRect(i * step, top, Math.max(1, step * size * 0.85), Math.max(1, H - 2 - top));
    } else pen.fillRect(i * step, 6, Math.max(1, step * size * 0.95), H - 12);
  }
  const mark = (node, color, w) => {
    pen.fillStyle = color;
    pen.fillRect(Math.min(W - w, (node + 0.5) * step - w / 2), 0, w, H);
  };
  for (const node of pane.hits) if (node < net.n) mark(node, app.theme.c2, 1);
  if (pane.chosen != null && pane.chosen < net.n) mark(pane.chosen, app.theme.ink, 2);
};

const legend = (app, root) => {
  const pane = app.active, { overlay, values } = pane;
  clear(root);
  const swatch = color => {
    const node = h("span", { class: "swatch" });
    node.style.background = color;
    return node;
  };
  root.append(h("b", {}, overlay.title));
  if (overlay.kind === "class") {
    const tally = new Map();
    for (const value of values) if (value != null) tally.set(value, (tally.get(value) || 0) + 1);
    add(root, [...tally].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([value, n]) => h("span", {},
      swatch(Colors.look(app.theme, overlay, value).strong), Base.short(value, 24), h("span", { class: "muted" }, ` ${n}`))));
  } else if (overlay.marks) {
    const [alarm, warn] = overlay.marks.map(value => app.figure(overlay, value)), way = overlay.low_is_bad ? "below" : "from";
    const words = { alarm: `${way} ${alarm}`, warn: `${way} ${warn}`, good: "better" };
    add(root, Object.entries(words).map(([level, text]) => h("span", {}, swatch(app.theme[level]), text)));
  } else {
    const ramp = [0.1, 0.3, 0.5, 0.7, 0.9].map(share => swatch(Colors.mix(app.theme.line, app.theme.c1, share)));
    add(root, [h("span", {}, "0"), h("span", { class: "ramp" }, ramp), h("span", {}, app.figure(overlay, pane.peak))]);
  }
  // What outlines and hatches mean, if there are any.
  const tally = new Map();
  for (let i = 0; i < pane.net.n; i++) for (const mark of Net.marks(pane.net.flags(i))) tally.set(mark, (tally.get(mark) || 0) + 1);
  for (const mark of Net.MARKS) {
    if (!mark.kind || !tally.has(mark)) continue;
    const edge = h("span", { class: "swatch edge-" + mark.kind });
    root.append(h("span", {}, edge, mark.words, h("span", { class: "muted" }, ` ${tally.get(mark)}`)));
  }
  root.append(h("span", { class: "muted help" }, [overlay.help, overlay.from && `From ${overlay.from}.`].filter(Boolean).map(words => Base.short(words, 120)).join(" ")));
};
return { draw, legend };
})();
