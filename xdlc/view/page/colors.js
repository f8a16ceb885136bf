"use strict";
// Colours of the theme as numbers, colours of overlays, and the ink that stays readable on them.
const Colors = (() => {
const NAMES = ["bg", "card", "ink", "muted", "line", "soft", "alarm", "warn", "good", "c1", "c2", "c3", "c4", "c5", "c6"];
const split = color => [1, 3, 5].map(i => parseInt(color.slice(i, i + 2), 16));
const joined = parts => "#" + parts.map(part => Math.round(part).toString(16).padStart(2, "0")).join("");
const mix = (from, to, share) => { const a = split(from), b = split(to); return joined(a.map((part, i) => part + (b[i] - part) * share)); };
const light = color => { const [r, g, b] = split(color).map(part => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const READABLE = 4.5, TINT = 0.2, STEPS = 8, SHADE = 0.028, DEEPEST = 4;

const palette = () => {
  const style = getComputedStyle(document.documentElement), theme = { cache: new Map() };
  for (const name of NAMES) {
    const text = style.getPropertyValue("--" + name).trim();
    theme[name] = text.length === 4 ? "#" + [...text.slice(1)].map(c => c + c).join("") : text;
  }
  return theme;
};
// Ground of an open group: darker with each group around it, as long as texts stay readable.
const shade = (theme, depth) => mix(theme.bg, theme.ink, SHADE * Math.min(depth, DEEPEST));
// Inks of a first and a second line on a fill.
const inks = (theme, fill) => {
  if (!theme.cache.has(fill)) {
    const best = contrast(fill, theme.ink) >= READABLE ? theme.ink : contrast(fill, "#000000") > contrast(fill, "#ffffff") ? "#000000" : "#ffffff";
    theme.cache.set(fill, [best, contrast(fill, theme.muted) >= READABLE ? theme.muted : best]);
  }
  return theme.cache.get(fill);
};

const level = (overlay, value) => {
  const [alarm, warn] = overlay.marks;
  if (overlay.low_is_bad) return value < alarm ? "alarm" : value < warn ? "warn" : "good";
  return value >= alarm ? "alarm" : value >= warn ? "warn" : "good";
};
// Strong colour and fill of a value; peak is the largest of the overlay.
const look = (theme, overlay, value, peak) => {
  if (value == null) return { strong: theme.line, fill: theme.card };
  if (overlay.kind === "number" && !overlay.marks) {
    const share = Math.round(STEPS * Math.sqrt(Math.max(0, value) / (peak || 1))) / STEPS;
    return { strong: mix(theme.line, theme.c1, share), fill: mix(theme.card, theme.c1, 0.45 * share) };
  }
  const strong = theme[overlay.kind === "number" ? level(overlay, value) : overlay.colors?.[value]] || theme.line;
  return { strong, fill: strong === theme.line ? theme.card : mix(theme.card, strong, TINT) };
};

const GROUPS = [
  [/conv|matmul|fullyconnected|gemm|linear|lstm|gru|rnn|attention/i, "compute", "c1"], [/norm|softmax/i, "normalize", "c3"],
  [/pool|reduce|argm|topk|cumul/i, "reduce", "c5"], [/quantize|convert|cast/i, "convert", "c6"],
  [/reshape|transpose|permute|concat|split|slice|gather|scatter|pad|tile|expand|squeeze|pack|depthtospace|spacetodepth|batchtospace|spacetobatch|flatten|resize|upsample|crop|shuffle/i, "move values", "c4"],
  [/element|eltwise|neuron|relu|sigmoid|tanh|gelu|swish|add|sub|mul|div|clip|erf|exp|sqrt|pow|where|prelu/i, "elementwise", "c2"],
];
const OTHER = "other";
// Overlay that a file always has: what its ops are.
const ofTypes = side => ({ key: "type", title: "Type", unit: "", help: "What kind of work each operation does.", kind: "class", marks: null, from: "", notes: null,
  colors: Object.fromEntries(GROUPS.map(([, word, color]) => [word, color])),
  graphs: side.graphs.map(graph => {
    const words = graph.types.map(type => GROUPS.find(([test]) => test.test(type))?.[1] ?? OTHER);
    return graph.ops.map(op => words[op[1]]);
  }) });
const STATES = {
  changed: { words: "changed", color: "warn", chip: "warn" },
  only_a: { words: "only before", color: "alarm", chip: "alarm" },
  only_b: { words: "only after", color: "good", chip: "good" },
  moved: { words: "moved", color: "c3", chip: "unsure" },
  same: { words: "same", color: "" },
};
// Overlay of what the diff says of each op of a side.
const ofDiff = (content, sideIndex) => {
  const graphs = content.sides[sideIndex].graphs.map(graph => new Array(graph.ops.length).fill(null));
  for (const row of content.diff.ops) { const op = row[2 * sideIndex + 1]; if (op != null) graphs[row[2 * sideIndex]][op] = STATES[row[4]].words; }
  return { key: "diff", title: "Diff", unit: "", help: "What differs between the two files.", kind: "class", marks: null, from: "", notes: null, graphs,
    colors: Object.fromEntries(Object.values(STATES).filter(state => state.color).map(({ words, color }) => [words, color])) };
};
return { palette, shade, inks, mix, contrast, look, level, ofTypes, ofDiff, STATES };
})();
