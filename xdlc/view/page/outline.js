"use strict";
// Lists beside the graph: the tree of scopes, the worst ops of the overlay, problems, changes. And all ops, as a table.
const Outline = (() => {
const { h, add, clear, clean, short, count } = Base;
const { OP } = Net;
const PAGE = 100, WORST = 10;

const figure = (app, overlay, value) => {
  if (value == null || overlay.key === "type") return null;
  const kind = overlay.kind === "number" ? overlay.marks && Colors.level(overlay, value) : overlay.colors?.[value];
  const words = overlay.kind === "number" ? app.figure(overlay, value) : short(value, 18);
  return h("span", { class: "figure " + (["alarm", "warn"].includes(kind) ? "mark " + kind : "muted") }, words);
};
const named = (text, most) => h("span", { class: "name" }, Paint.tail(Paint.cut(text, 4000), most));
const opLink = (app, pane, node, graph = pane.graph) => {
  const net = pane.netOf(graph), isShown = graph === pane.graph && pane === app.active;
  return h("button", {
    type: "button", class: "link row op", "data-op": isShown ? node : null, title: clean(net.name(node)).slice(0, 400),
    onclick: () => app.choose(pane, node, { graph }),
  }, h("span", { class: "type" }, clean(net.does(node)).slice(0, 40)), " ", named(net.name(node), 34));
};
// Rows of a list; more of them on demand.
const rows = (items, draw, most = PAGE) => {
  const list = h("ul", { class: "rows" }), grow = from => {
    add(list, items.slice(from, from + most).map(item => h("li", {}, draw(item))));
    const left = items.length - from - most;
    if (left <= 0) return;
    const next = () => {
      more.remove();
      grow(from + most);
    };
    const more = h("li", {}, h("button", { type: "button", class: "link muted", onclick: next }, `${left} more`));
    list.append(more);
  };
  grow(0);
  return list;
};

// Scopes that are open at the start: those around everything.
const around = net => {
  const open = new Set();
  for (let scope = net.top; scope.scopes.length === 1 && !scope.ops.length;) { scope = net.scopes[scope.scopes[0]]; open.add(scope.id); }
  return open;
};
const tree = (app, pane) => {
  const { net, overlay } = pane;
  if (!pane.expanded.has(pane.graph)) pane.expanded.set(pane.graph, around(net));
  const expanded = pane.expanded.get(pane.graph);
  const branch = scope => {
    const items = [...scope.scopes.map(id => [net.scopes[id].first, id, true]), ...scope.ops.map(i => [i, i, false])].sort((a, b) => a[0] - b[0]);
    return rows(items, ([, id, isScope]) => {
      if (!isScope) return [opLink(app, pane, id), figure(app, overlay, pane.values[id])];
      const child = net.scopes[id], box = h("div", { class: "branch" });
      const twist = h("button", {
        type: "button", class: "twist", "aria-label": `Contents of ${short(child.name, 60)}`,
        onclick: () => turn(!expanded.has(id)),
      });
      const turn = open => {
        twist.setAttribute("aria-expanded", open);
        clear(box);
        if (open) { expanded.add(id); box.append(branch(child)); } else expanded.delete(id);
      };
      turn(expanded.has(id));
      const link = h("button", {
        type: "button", class: "link row", "data-op": net.nodes + id, title: clean(child.name).slice(0, 400),
        onclick: () => app.choose(pane, net.nodes + id, { fold: true }),
      }, named(child.name, 30), h("span", { class: "muted small" }, ` ${child.count}`));
      return [h("div", { class: "scope" }, twist, link, figure(app, overlay, pane.worst[id])), box];
    });
  };
  return branch(net.top);
};
const worst = (app, pane) => {
  const { overlay } = pane;
  if (overlay.kind !== "number") return [];
  const present = pane.values.map((value, i) => [value, i]).filter(([value]) => value != null);
  return present.sort((a, b) => overlay.low_is_bad ? a[0] - b[0] : b[0] - a[0]).slice(0, WORST);
};
const states = new Set(["changed", "only_a", "only_b"]);
const changesList = (app, root) => {
  const diff = app.content.diff, box = h("div", {}), tally = new Map();
  for (const row of diff.ops) tally.set(row[4], (tally.get(row[4]) || 0) + 1);
  const changed = row => {
    const side = row[1] == null ? 1 : 0, { words, color } = Colors.STATES[row[4]];
    const text = row[4] === "changed" ? count(row[5].length, "change") : words;
    return [opLink(app, app.panes[side], row[2 * side + 1], row[2 * side]), h("span", { class: "figure mark " + color }, text)];
  };
  const draw = () => clear(box).append(rows(diff.ops.filter(row => states.has(row[4])), changed));
  const check = state => {
    const toggled = event => {
      event.currentTarget.checked ? states.add(state) : states.delete(state);
      draw();
    };
    return h("label", { class: "check" },
      h("input", { type: "checkbox", checked: states.has(state) ? "" : null, onchange: toggled }),
      `${Colors.STATES[state].words} ${tally.get(state)}`);
  };
  add(root, [h("div", { class: "states" }, Object.keys(Colors.STATES).filter(state => tally.has(state)).map(check)), box]);
  draw();
};

const remembered = new Map();
const block = (key, title, open, fill) => {
  let filled = false;
  const body = h("div", {}), node = h("details", {}, h("summary", {}, title), body);
  const ready = () => {
    if (!node.open || filled) return;
    filled = true;
    fill(body);
  };
  node.open = remembered.get(key) ?? open;
  node.addEventListener("toggle", () => {
    remembered.set(key, node.open);
    ready();
  });
  ready();
  return node;
};
// Lists stay as they are until another graph or overlay is shown; what is chosen is marked.
const draw = (app, root) => {
  const pane = app.active;
  const isHidden = unfold(pane);
  if (isHidden || root.shows?.app !== app || root.shows.net !== pane.net || root.shows.overlay !== pane.overlay) {
    root.shows = { app, net: pane.net, overlay: pane.overlay };
    lists(app, root);
  }
  for (const button of root.querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
  for (const button of root.querySelectorAll(`[data-op="${pane.chosen}"]`)) button.setAttribute("aria-current", "true");
  if (isHidden) root.querySelector(".branch [aria-current]")?.scrollIntoView({ block: "nearest" });
};
// Opens what the chosen node is in; returns whether something was closed.
const unfold = pane => {
  const { net, chosen } = pane, expanded = pane.expanded.get(pane.graph), size = expanded?.size;
  if (chosen == null || !expanded) return false;
  for (const scope of net.around(chosen)) expanded.add(scope);
  return expanded.size > size;
};
const lists = (app, root) => {
  const pane = app.active, { overlay, side } = pane, bad = worst(app, pane), diff = app.content.diff;
  const problem = ([words, graph, node]) =>
    [node == null ? null : opLink(app, pane, node, graph ?? 0), h("span", { class: "small" }, short(words, 160))];
  const ranked = ([value, node]) => [opLink(app, pane, node), figure(app, overlay, value)];
  const put = (key, title, open, fill) => root.append(block(key, title, open, fill));
  clear(root);
  if (diff) put("changes", `Changes (${diff.ops.filter(row => row[4] !== "same").length})`, true, body => changesList(app, body));
  if (side.problems.length) {
    put("problems", `Problems (${side.problems.length})`, side.problems.length < 30, body => body.append(rows(side.problems, problem)));
  }
  if (bad.length) {
    const word = overlay.low_is_bad || overlay.marks ? "Worst" : "Largest";
    put("worst", `${word} ${bad.length}: ${overlay.title}`, true, body => body.append(rows(bad, ranked)));
  }
  put("tree", `Outline (${count(pane.net.n, "op")})`, !Base.middle.matches, body => body.append(tree(app, pane)));
};

// ------------------------------------------------------------------ all ops as a table
const order = { key: "place", down: false };
const list = (app, root, most = PAGE) => {
  const pane = app.active, { net, overlay } = pane, wanted = app.words(), hasFigures = overlay.key !== "type";
  const shapes = i => net.op(i)[OP.outputs].slice(0, 3).map(tensor => Paint.shape(net.graph.tensors[tensor][2])).join(", ");
  const keys = { place: i => i, type: i => net.does(i), name: i => net.name(i), value: i => pane.values[i] ?? null };
  const chosen = [...Array(net.n).keys()].filter(i => app.matches(pane, pane.graph, i, wanted)).sort((a, b) => {
    const [x, y] = [keys[order.key](a), keys[order.key](b)];
    if (x == null || y == null) return (x == null) - (y == null) || a - b;
    return (x < y ? -1 : x > y ? 1 : 0) * (order.down ? -1 : 1) || a - b;
  });
  const sort = key => {
    order.down = order.key === key && !order.down;
    order.key = key;
    list(app, root, most);
    root.querySelector(`[data-key="${key}"]`).focus();
  };
  const column = ([key, label]) => {
    const isOrder = key === order.key, arrow = isOrder ? (order.down ? " \u2193" : " \u2191") : "";
    return h("th", { scope: "col", class: key, "aria-sort": isOrder ? (order.down ? "descending" : "ascending") : null },
      key in keys ? h("button", { type: "button", "data-key": key, onclick: () => sort(key) }, clean(label) + arrow) : label);
  };
  const columns = [["place", "Place"], ["type", "Type"], ["name", "Name"], ["shapes", "Outputs"]];
  if (hasFigures) columns.push(["value", overlay.title]);
  const choose = i => {
    app.choose(pane, i, { quiet: true });
    for (const row of root.querySelectorAll("tr.open")) row.classList.remove("open");
    root.querySelector(`[data-op="${i}"]`)?.closest("tr").classList.add("open");
  };
  const line = i => h("tr", { class: i === pane.chosen ? "open" : null },
    h("td", { class: "place" }, i + 1),
    h("td", {}, clean(net.does(i)).slice(0, 60)),
    h("td", {}, h("button", { type: "button", class: "link name", "data-op": i, onclick: () => choose(i) }, short(net.name(i), 90))),
    h("td", { class: "shapes muted" }, shapes(i)),
    hasFigures && h("td", { class: "value" }, figure(app, overlay, pane.values[i])));
  const summary = `${count(chosen.length, "operation")}${wanted.length ? " that match the search" : ""}`;
  add(clear(root), [
    h("p", { class: "muted small", role: "status" }, summary),
    h("table", { class: "ops" }, h("caption", { class: "hidden" }, `Operations of ${short(net.graph.name || "graph", 60)}`),
      h("thead", {}, h("tr", {}, columns.map(column))), h("tbody", {}, chosen.slice(0, most).map(line))),
  ]);
  if (chosen.length <= most) return;
  const more = () => {
    list(app, root, most + 5 * PAGE);
    root.querySelectorAll("tbody button")[most]?.focus();
  };
  root.append(h("button", { type: "button", class: "more", onclick: more }, `Show more (${chosen.length - most} left)`));
};
return { draw, list };
})();
