// What the tests ask of the page.
const Checks = (() => {
// Places that overlap, leave their box or flow up.
const layout = () => {
  const made = View.app.active.made, off = [];
  const cut = (a, b) => a.x < b.x + b.w - 0.5 && b.x < a.x + a.w - 0.5 && a.y < b.y + b.h - 0.5 && b.y < a.y + a.h - 0.5;
  for (let i = 0; i < made.list.length; i++) for (let j = 0; j < i; j++) if (cut(made.list[i], made.list[j])) off.push(["overlap", i, j]);
  const isIn = (id, scope) => { for (; id >= 0; id = made.net.scopes[id].parent) if (id === scope) return true; return false; };
  for (const box of made.boxes) for (const item of made.list) {
    const home = item.node < made.net.nodes ? made.net.scope(item.node) : made.net.scopes[item.node - made.net.nodes].parent;
    const inside = item.x >= box.x && item.y >= box.y && item.x + item.w <= box.x + box.w && item.y + item.h <= box.y + box.h;
    if (isIn(home, box.scope) !== inside || !inside && cut(item, box)) off.push(["box", box.scope, item.node]);
  }
  for (const wire of made.wires) for (const branch of wire.branches) if (!wire.back && branch.y1 < wire.y0) off.push(["up", wire.source]);
  return off;
};
// Least contrast of texts on what they stand on.
const contrast = () => {
  const app = View.app, all = [];
  for (const overlay of app.overlays(0)) for (const value of overlay.graphs[0]) {
    const fill = Colors.look(app.theme, overlay, value, 729).fill;
    for (const ink of Colors.inks(app.theme, fill)) all.push(Colors.contrast(ink, fill));
  }
  for (let depth = 0; depth < 20; depth++) {
    all.push(Colors.contrast(app.theme.muted, Colors.shade(app.theme, depth)));
  }
  const numbers = text => text.match(/\d+/g).map(part => (+part).toString(16).padStart(2, "0"));
  const placeholder = getComputedStyle(document.getElementById("search"), "::placeholder").color;
  all.push(Colors.contrast("#" + numbers(placeholder).slice(0, 3).join(""), app.theme.card));
  const pairs = ["ink card", "ink bg", "ink soft", "muted card", "muted bg", "muted soft", "alarm card", "c1 card"];
  for (const pair of pairs) all.push(Colors.contrast(...pair.split(" ").map(name => app.theme[name])));
  return Math.min(...all);
};
// Least contrast of texts of the picture on all that is drawn below them, and the text that has it.
const drawn = whole => {
  const picture = document.body.appendChild(View.app.active.svg(whole)), below = [];
  let worst = [21, ""];
  for (const node of picture.querySelectorAll("rect, path, text")) {
    if (node.tagName !== "text") { below.push(node); continue; }
    const box = node.getBBox(), middle = new DOMPoint(0, box.y + box.height / 2), paint = name => node.getAttribute(name);
    for (middle.x = box.x; middle.x <= box.x + box.width; middle.x += 0.5) {
      let ground = View.app.theme.bg;
      for (const item of below) {
        const [fill, stroke, alpha] = ["fill", "stroke", "opacity"].map(name => item.getAttribute(name));
        if (fill !== "none" && item.isPointInFill(middle)) ground = Colors.mix(ground, fill, alpha ?? 1);
        if (stroke && item.isPointInStroke(middle)) ground = Colors.mix(ground, stroke, alpha ?? 1);
      }
      const contrast = Colors.contrast(paint("fill"), ground);
      if (contrast < worst[0]) worst = [contrast, node.textContent];
    }
  }
  picture.remove();
  return worst;
};
// Controls and pictures without a name for screen readers.
const nameless = () => {
  const named = node => node.getAttribute("aria-label") || (node.tagName === "TABLE" ? node.caption : node).textContent.trim() || node.labels?.length;
  const all = [...document.querySelectorAll("button, select, input, canvas, table, [role=img]")];
  return all.filter(node => !node.closest("[aria-hidden=true]") && !named(node)).map(node => node.outerHTML);
};
const search = words => { const box = document.getElementById("search"); box.value = words; box.dispatchEvent(new Event("input")); return View.app.hits.length; };
return { layout, contrast, drawn, nameless, search };
})();
