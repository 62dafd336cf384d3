// Builds the console anew and compares it with the committed files, which the server embeds.

import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const root = resolve(import.meta.dirname, "..");
const fresh = await mkdtemp(join(tmpdir(), "handback-console-"));
try {
  const run = (...command) => execFileSync(process.execPath, command, { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  run("node_modules/vite/bin/vite.js", "build", "--outDir", fresh, "--emptyOutDir", "--logLevel", "error");
  run("scripts/precompress.mjs", fresh);
  const [committed, built] = [await contents(resolve(root, "../crates/server/console")), await contents(fresh)];
  const names = [...new Set([...committed.keys(), ...built.keys()])].sort();
  const differing = names.filter((name) => committed.get(name) !== built.get(name));
  if (differing.length > 0) {
    console.error(`crates/server/console is not what console/src builds to: run \`make console\` and commit it.\n  ${differing.join("\n  ")}`);
    process.exitCode = 1;
  }
} finally {
  await rm(fresh, { recursive: true, force: true });
}

/** What every file says, by its name. Compressed ones count by what is in them: another Node may compress otherwise. */
async function contents(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const read = async (file) => [relative(folder, file), unpack(file, await readFile(file)).toString("latin1")];
  return new Map(await Promise.all(files.map(read)));
}

function unpack(file, bytes) {
  if (file.endsWith(".br")) return brotliDecompressSync(bytes);
  return file.endsWith(".gz") ? gunzipSync(bytes) : bytes;
}
