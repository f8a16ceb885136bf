// Put a filter above each long table: words that a row must contain, and a choice for each column of few values.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("article table.docutils")].filter((table) => table.tBodies[0]?.rows.length > 25);
  tables.forEach((table, number) => addFilter(table, number ? `filter${number + 1}` : "filter"));
});

function addFilter(table, name) {
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const bar = document.createElement("form");
  bar.className = "filter";
  bar.onsubmit = () => false;
  const input = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter: words of a row" });
  input.setAttribute("aria-label", "Filter the rows of the table");
  input.value = new URLSearchParams(location.search).get(name) ?? "";
  bar.append(input);
  for (const { title, index, values } of columnsOfFewValues(table)) {
    const select = document.createElement("select");
    select.setAttribute("aria-label", title);
    select.dataset.column = index;
    select.append(new Option(`${title}: all`, ""), ...values.map((value) => new Option(`${title}: ${value || "(empty)"}`, `=${value}`)));
    bar.append(select);
  }
  const count = document.createElement("output");
  bar.append(count);
  table.closest(".table-wrapper, table").before(bar);

  function apply() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...bar.querySelectorAll("select")].filter((select) => select.value);
    const fits = (row, text) => words.every((word) => text.includes(word))
      && chosen.every((select) => row.cells[select.dataset.column].textContent.trim() === select.value.slice(1));
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !fits(row, texts[index]);
      shown += !row.hidden;
    });
    count.textContent = `${shown} of ${rows.length} rows`;
  }
  bar.addEventListener("input", apply);
  apply();
}

function columnsOfFewValues(table) {
  const rows = [...table.tBodies[0].rows];
  return [...table.tHead.rows[0].cells].map((cell, index) => {
    const values = [...new Set(rows.map((row) => row.cells[index]?.textContent.trim()))].sort();
    return { title: cell.textContent.trim(), index, values };
  }).filter(({ values }) => values.length > 1 && values.length <= 8);
}
