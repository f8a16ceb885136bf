"use strict";
// Two pens with the same strokes: one draws on a canvas, one makes elements of SVG.
const Pens = (() => {
const FONTS = { sans: 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif', mono: 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace' };

const canvas = context => {
  let lastFont = "";
  return {
    begin: () => context.beginPath(),
    move: (x, y) => context.moveTo(x, y),
    line: (x, y) => context.lineTo(x, y),
    curve: (a, b, c, d, x, y) => context.bezierCurveTo(a, b, c, d, x, y),
    rect: (x, y, w, h, r) => r ? context.roundRect(x, y, w, h, r) : context.rect(x, y, w, h),
    end: ({ fill, stroke, width, dash, alpha }) => {
      context.globalAlpha = alpha ?? 1;
      if (fill) {
        context.fillStyle = fill;
        context.fill();
      }
      if (stroke) {
        context.strokeStyle = stroke;
        context.lineWidth = width;
        context.setLineDash(dash || []);
        context.stroke();
      }
      context.globalAlpha = 1;
    },
    text: (x, y, words, { fill, size, bold, mono, anchor }) => {
      const font = `${bold ? "600 " : ""}${size}px ${mono ? FONTS.mono : FONTS.sans}`;
      if (lastFont !== font) context.font = lastFont = font;
      context.fillStyle = fill;
      context.textAlign = anchor === "end" ? "right" : anchor === "middle" ? "center" : "left";
      context.fillText(words, x, y);
    },
  };
};

const round = value => String(Math.round(value * 10) / 10);
const svg = group => {
  let d = [];
  const put = (mark, ...values) => d.push(mark + values.map(round).join(" "));
  return {
    begin: () => { d = []; },
    move: (x, y) => put("M", x, y),
    line: (x, y) => put("L", x, y),
    curve: (...places) => put("C", ...places),
    rect: (x, y, w, h, r) => {
      if (!r) { put("M", x, y); put("h", w); put("v", h); put("h", -w); d.push("Z"); return; }
      const q = Math.min(r, w / 2, h / 2), arc = (dx, dy) => put("a", q, q, 0, 0, 1, dx, dy);
      put("M", x + q, y); put("h", w - 2 * q); arc(q, q); put("v", h - 2 * q); arc(-q, q); put("h", 2 * q - w); arc(-q, -q); put("v", 2 * q - h); arc(q, -q); d.push("Z");
    },
    end: ({ fill, stroke, width, dash, alpha }) => {
      if (!d.length) return;
      group.append(Base.s("path", {
        d: d.join(""), fill: fill || "none", stroke, opacity: alpha,
        "stroke-width": stroke && round(width), "stroke-dasharray": dash?.map(round).join(" "),
      }));
    },
    text: (x, y, words, { fill, size, bold, mono, anchor }) => group.append(Base.s("text", {
      x: round(x), y: round(y), fill, "font-size": round(size), "font-weight": bold ? 600 : null,
      "font-family": mono ? FONTS.mono : FONTS.sans, "text-anchor": anchor,
    }, words)),
  };
};
return { canvas, svg };
})();
