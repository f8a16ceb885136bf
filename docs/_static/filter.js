// Put a filter above the long tables of a page: words that a row must contain, and a value for each column of few values.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("article table.docutils")].filter((table) => table.tBodies[0]?.rows.length > 25);
  if (!tables.length) return;
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows].map((row) => ({ row, table, text: row.textContent.toLowerCase() })));
  const bar = document.createElement("form");
  bar.className = "filter";
  bar.onsubmit = () => false;
  const input = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter: words of a row", name: "filter" });
  input.setAttribute("aria-label", "Filter the tables of this page");
  const count = document.createElement("output");
  bar.append(input);
  const choices = tables.length === 1 ? columns(tables[0]) : [];
  for (const { name, index, values } of choices) {
    const select = document.createElement("select");
    select.setAttribute("aria-label", name);
    select.dataset.column = index;
    select.append(new Option(`${name}: all`, ""), ...values.map((value) => new Option(`${name}: ${value || "(empty)"}`, `=${value}`)));
    bar.append(select);
  }
  bar.append(count);
  tables[0].closest(".table-wrapper, table").before(bar);

  function apply() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...bar.querySelectorAll("select")].filter((select) => select.value);
    let shown = 0;
    for (const { row, text } of rows) {
      const fits = words.every((word) => text.includes(word))
        && chosen.every((select) => row.cells[select.dataset.column].textContent.trim() === select.value.slice(1));
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
    const query = input.value ? `?filter=${encodeURIComponent(input.value)}` : location.pathname;
    try { history.replaceState(null, "", query + location.hash); } catch { /* a page of a file keeps its address */ }
  }

  function columns(table) {
    return [...table.tHead.rows[0].cells].map((cell, index) => {
      const values = [...new Set([...table.tBodies[0].rows].map((row) => row.cells[index]?.textContent.trim()))].sort();
      return { name: cell.textContent.trim(), index, values };
    }).filter(({ values }) => values.length > 1 && values.length <= 12);
  }

  input.value = new URLSearchParams(location.search).get("filter") ?? "";
  bar.addEventListener("input", apply);
  apply();
});
