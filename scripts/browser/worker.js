// Python with xdlc, which reads files for the page. Nothing is fetched: what Pyodide asks for is in memory.
let started = null;
const url = (content, type) => URL.createObjectURL(new Blob([content], { type }));

const start = async ({ files, python }) => {
  // A page in a folder may start classic workers alone; Pyodide refuses workers that have importScripts.
  self.importScripts = undefined;
  self.fetch = async address => {
    const name = String(address.url ?? address).split("/").pop();
    if (!files[name]) throw new TypeError(`the page has no file ${name}`);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return new Response(files[name], { headers: { "Content-Type": type } });
  };
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all(
    ["pyodide.mjs", "pyodide.asm.mjs"].map(name => import(url(files[name], "text/javascript"))));
  const lock = JSON.parse(new TextDecoder().decode(files["pyodide-lock.json"]));
  const pyodide = await loadPyodide({ indexURL: "memory://page/", createPyodideModule, lockFileContents: { ...lock, packages: {} } });
  const folder = pyodide.runPython("import sysconfig; sysconfig.get_path('purelib')");
  for (const name of Object.keys(files).filter(name => name.endsWith(".whl") || name === "xdlc.zip")) {
    pyodide.unpackArchive(files[name], name.endsWith(".whl") ? "wheel" : "zip", { extractDir: folder });
  }
  for (const name of Object.keys(files)) delete files[name];
  pyodide.runPython(python);
  return pyodide;
};

// The bytes of a file. A browser says "permission problems" of files that are too large for it.
const bytesOf = file => file.arrayBuffer().catch(error => {
  throw new Error(`${file.name}, ${(file.size / 2 ** 30).toFixed(1)} GiB: ${error.name === "NotReadableError" ? "the browser cannot read it" : error.message}`);
});

const open = async ({ number, files }) => {
  let reader = null;
  try {
    const pyodide = await started;
    reader = pyodide.globals.get("Reader")(step => postMessage({ number, step }));
    for (const file of files) reader.add(file.name, new Uint8Array(await bytesOf(file)));
    const { problems, note, content } = reader.answer().toJs({ dict_converter: Object.fromEntries });
    if (problems) postMessage({ number, problems });
    else postMessage({ number, note, content });
  } catch (error) {
    const lines = String(error.message ?? error).trim().split("\n");
    postMessage({ number, problems: ["The files are too large for this browser, or they changed, or xdlc has a fault.", lines.at(-1)] });
  } finally {
    reader?.close();
    reader?.destroy();
  }
};

let queue = Promise.resolve();
self.onmessage = ({ data }) => {
  if (!started) {
    started = start(data);
    started.then(
      pyodide => postMessage({ ready: pyodide.globals.get("READY") }),
      error => postMessage({ problems: ["Python did not start in this browser.", String(error)] }));
    return;
  }
  queue = queue.then(() => open(data)).catch(error => postMessage({ number: data.number, problems: [String(error)] }));
};
