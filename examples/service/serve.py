"""Serve a DLC over HTTP with the standard library: an .npz of inputs in, an .npz of outputs back.

python examples/service/serve.py net_quantized.dlc --port 8000
"""

import argparse
import io
import json
import zipfile
from concurrent.futures import TimeoutError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import xdlc

LARGEST = 64 << 20  # bytes of a request, packed or unpacked
PATIENCE = 2.0  # seconds that a run may wait and last


def unpacked(body: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz; refuse a small one that unpacks to much."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
            raise ValueError(f"the arrays have more than {LARGEST} bytes")
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        return dict(arrays)


def answerer(session: xdlc.Session) -> type[BaseHTTPRequestHandler]:
    """Return a class that answers requests by one session, which all threads share."""

    class Answer(BaseHTTPRequestHandler):
        timeout = 10  # seconds without a byte from the client

        def do_GET(self) -> None:
            sides = {"inputs": session.graph.inputs, "outputs": session.graph.outputs}
            shapes = {side: {t.name: [*t.shape] for t in tensors} for side, tensors in sides.items()}
            self.reply(200, "application/json", json.dumps(shapes).encode())

        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", 0))
                if not 0 <= size <= LARGEST:
                    return self.reply(413, "text/plain", b"the request is too large")
                feeds = unpacked(self.rfile.read(size))
                outputs = session.submit(feeds, deadline=PATIENCE).result()
            except (xdlc.errors.BackendError, TimeoutError) as error:
                return self.reply(503, "text/plain", str(error).encode())
            except (xdlc.XdlcError, ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile) as error:
                return self.reply(400, "text/plain", str(error).encode())
            body = io.BytesIO()
            np.savez(body, **outputs)
            return self.reply(200, "application/octet-stream", body.getvalue())

        def reply(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve a DLC over HTTP.")
    parser.add_argument("dlc")
    parser.add_argument("--port", type=int, default=8000)
    words = parser.parse_args()
    with xdlc.Session(words.dlc) as session:
        ThreadingHTTPServer(("127.0.0.1", words.port), answerer(session)).serve_forever()
