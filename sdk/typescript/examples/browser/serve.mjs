// Serves the page of this folder, and the built package beside it:
//
//   npm run build && node examples/browser/serve.mjs

import { readFile, realpath } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, sep } from "node:path";

const root = await realpath(join(import.meta.dirname, "../.."));
/** What may be read, from the folder of the package. */
const folders = ["examples/browser", "dist", "node_modules/eventsource-parser/dist"];
const types = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".map": "application/json" };

const server = createServer(async ({ url = "/" }, response) => {
  try {
    const { pathname } = new URL(url, "http://localhost");
    const path = await realpath(join(root, pathname === "/" ? "examples/browser/index.html" : decodeURIComponent(pathname)));
    const type = types[/** @type {keyof typeof types} */ (extname(path))];
    if (!type || !folders.some((folder) => path.startsWith(join(root, folder) + sep))) throw new Error("not to be read");
    response.writeHead(200, { "content-type": `${type}; charset=utf-8`, "cache-control": "no-cache" });
    response.end(await readFile(path));
  } catch {
    response.writeHead(404).end("There is nothing here.");
  }
});

server.listen(Number(process.env["PORT"] ?? 8080), "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`open http://127.0.0.1:${port}`);
});
