"use strict";
// What leaves the page: pictures of all panes beside each other, as files or on paper.
const Sheet = (() => {
const { h, s, add, clear, clean, short } = Base;
const GAP = 12, HEAD = 26, SHARP = 2;

// Left edge of each of some pictures, and the size of all; two have their files' names above.
const sheet = sizes => {
  const head = sizes.length > 1 ? HEAD : 0, lefts = [];
  let w = 0;
  for (const size of sizes) {
    lefts.push(w);
    w += size.w + GAP;
  }
  return { head, lefts, w: w - GAP, h: head + Math.max(...sizes.map(size => size.h)) };
};
const captions = (app, pen, { head, lefts }) => {
  if (!head) return;
  const style = { fill: app.theme.ink, size: 12.5, bold: true };
  app.panes.forEach((pane, i) => pen.text(lefts[i] + 8, head - 9, short(pane.side.file, 50), style));
};

const svg = (app, whole) => {
  const pictures = app.panes.map(pane => pane.svg(whole));
  if (pictures.length === 1) return pictures[0];
  const plan = sheet(pictures.map(picture => ({ w: +picture.getAttribute("width"), h: +picture.getAttribute("height") })));
  pictures.forEach((picture, i) => {
    picture.setAttribute("x", plan.lefts[i]);
    picture.setAttribute("y", plan.head);
  });
  const words = pictures.map(picture => picture.getAttribute("aria-label")).join(", "), group = s("g");
  captions(app, Pens.svg(group), plan);
  const size = { viewBox: `0 0 ${plan.w} ${plan.h}`, width: plan.w, height: plan.h };
  return s("svg", { ...size, role: "img", "aria-label": words },
    s("title", {}, words), s("rect", { width: plan.w, height: plan.h, fill: app.theme.bg }), group, pictures);
};
const png = app => {
  const sizes = app.panes.map(pane => pane.size()), plan = sheet(sizes);
  const copy = h("canvas", { width: Math.round(plan.w * SHARP), height: Math.round(plan.h * SHARP) });
  const pen = copy.getContext("2d");
  pen.scale(SHARP, SHARP);
  pen.fillStyle = app.theme.bg;
  pen.fillRect(0, 0, plan.w, plan.h);
  captions(app, Pens.canvas(pen), plan);
  app.panes.forEach((pane, i) => {
    pen.save();
    pen.translate(plan.lefts[i], plan.head);
    pen.beginPath();
    pen.rect(0, 0, sizes[i].w, sizes[i].h);
    pen.clip();
    pane.stamp(pen);
    pen.restore();
  });
  return new Promise(done => copy.toBlob(done, "image/png"));
};
// Pictures for paper: a page for each, with its caption.
const paper = (app, root) => {
  add(clear(root), app.panes.map(pane =>
    h("figure", {}, h("figcaption", { class: "muted" }, short(pane.side.file, 80)), pane.svg())));
};

const save = (app, blob, ending) => {
  const files = app.panes.map(pane => clean(pane.side.file).replace(/[^\w.-]+/g, "_").slice(-60));
  const link = h("a", { href: URL.createObjectURL(blob), download: files.join("-") + ending });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const saveSvg = (app, whole) => {
  const text = new XMLSerializer().serializeToString(svg(app, whole));
  save(app, new Blob([text], { type: "image/svg+xml" }), ".svg");
};
// Words and act of each way out.
const ways = app => [
  ["SVG of the view", () => saveSvg(app, false)],
  ["SVG of the whole graph", () => saveSvg(app, true)],
  ["PNG of the view", async () => save(app, await png(app), ".png")],
  ["Print", () => window.print()],
];
return { svg, png, paper, ways };
})();
