// The moving picture of the README: it can be made again, and the committed one is what the script makes.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import sharp from "sharp";

import { assert, test } from "./browser/support.js";

const root = resolve(import.meta.dirname, "..");
/** The largest picture that a README should load, in bytes. */
const LARGEST = 500_000;

test("the README's picture can be made, and is the committed one's like", async (test) => {
  const folder = await mkdtemp(join(tmpdir(), "handback-picture-"));
  test.after(() => rm(folder, { recursive: true }));
  const file = join(folder, "handback.webp");
  // The script is a test of its own, and not part of this one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  await promisify(execFile)(process.execPath, ["--import", "tsx", "scripts/picture.mjs", file], { cwd: root, env, signal: test.signal });
  const [made, committed] = [await look(file), await look(join(root, "../docs/handback.webp"))];
  assert.deepEqual(made.film, committed.film);
  for (const { bytes } of [made, committed]) assert.ok(bytes < LARGEST, `${bytes} bytes`);
  assert.ok(made.film.delay.length >= 8, "frames that are alike are one");
});

async function look(file: string) {
  const picture = await readFile(file);
  const { format, width, height, loop, delay = [] } = await sharp(picture).metadata();
  return { bytes: picture.length, film: { format, width, height, loop, delay } };
}
