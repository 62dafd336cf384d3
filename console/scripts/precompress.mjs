// Writes .br and .gz beside every file of a folder, which the server sends as they are. The same bytes on every machine.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [folder = join(import.meta.dirname, "../../crates/server/console")] = process.argv.slice(2);
const files = (await readdir(folder, { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && /\.(html|js|css|svg)$/.test(entry.name))
  .map((entry) => join(entry.parentPath, entry.name));

for (const file of files) {
  const text = await readFile(file);
  const gzip = gzipSync(text, { level: 9 });
  // The byte that names the system it was made on.
  gzip[9] = 255;
  await writeFile(`${file}.gz`, gzip);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
  };
  await writeFile(`${file}.br`, brotliCompressSync(text, { params }));
}
