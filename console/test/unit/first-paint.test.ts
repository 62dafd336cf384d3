import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

const DIST = resolve(import.meta.dirname, "../../../crates/server/console");
/** In bytes. */
const MOST = 200_000;

test("all that the page loads is small", () => {
  const index = readFileSync(join(DIST, "index.html"), "utf8");
  const loaded = [...index.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map(([, path]) => path ?? "");
  assert.ok(loaded.some((path) => path.endsWith(".js")) && loaded.some((path) => path.endsWith(".css")), index);
  // Nothing is loaded later, which would not be counted here.
  const assets = readdirSync(join(DIST, "assets")).filter((name) => !/\.(br|gz)$/.test(name));
  assert.deepEqual(assets.map((name) => `assets/${name}`).sort(), loaded.filter((path) => path.startsWith("assets/")).sort());
  for (const ending of ["br", "gz"]) {
    const size = ["index.html", ...loaded].reduce((sum, path) => sum + statSync(join(DIST, `${path}.${ending}`)).size, 0);
    assert.ok(size < MOST, `${size} bytes (${ending})`);
  }
});
