"use strict";
// A page that reads DLCs with xdlc in a worker, and draws them. All files of Python are texts of the page.
const Open = (() => {
const { $, clean } = Base;
const state = $("state"), problem = $("problem"), chooser = $("files");
const theme = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = theme.matches ? "dark" : "light";

const say = text => { state.textContent = clean(text); };
const fail = lines => {
  View.stop();
  $("view").hidden = true;
  document.body.classList.remove("shows");
  problem.textContent = lines.map(clean).join("\n");
  problem.hidden = false;
  document.documentElement.dataset.state = "failed";
};

// A gzip in base64 as bytes.
const bytes = async id => {
  const raw = atob($(id).textContent.trim()), packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  $(id).remove();
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
};

const draw = content => {
  document.body.classList.add("shows");
  $("view").hidden = false;
  View.app = View.start(content);
};

let worker = null, asked = 0;
const received = ({ data }) => {
  if (data.ready) { document.documentElement.dataset.state = "ready"; say(data.ready); return; }
  if (data.number !== undefined && data.number !== asked) return;
  if (data.step) say(data.step);
  if (data.problems) { say("xdlc could not open the files."); fail(data.problems); }
  if (data.content) {
    try { draw(JSON.parse(data.content)); } catch (error) { fail(["The browser could not draw the files.", String(error)]); return; }
    say(data.note);
    document.documentElement.dataset.state = "shown";
  }
};

const ask = files => {
  if (!files.length || !worker) return;
  problem.hidden = true;
  document.documentElement.dataset.state = "reading";
  say("Reading the files.");
  worker.postMessage({ number: ++asked, files: [...files] });
};

const start = async () => {
  say("Starting Python.");
  const names = [...document.querySelectorAll("script[data-file]")].map(node => node.id);
  const files = Object.fromEntries(await Promise.all(names.map(async id => [id, await bytes(id)])));
  const code = new Blob([$("worker").textContent], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(code));
  worker.addEventListener("message", received);
  worker.addEventListener("error", event => fail(["Python did not start in this browser.", event.message || ""]));
  worker.postMessage({ files, python: $("python").textContent }, Object.values(files));
  if (chooser.files.length) ask(chooser.files);
};

chooser.addEventListener("change", () => ask(chooser.files));
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, event => {
    event.preventDefault();
    document.body.classList.toggle("drops", kind === "dragover");
    if (kind === "drop") ask(event.dataTransfer.files);
  });
}
start().catch(error => fail(["Python did not start in this browser.", String(error)]));
return { ask };
})();
