// The package as others get it: packed, unpacked into a project of its own, type-checked, imported and bundled.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const run = promisify(execFile);
const PACKAGE = resolve(import.meta.dirname, "../..");
/** What the package may weigh in a page, in bytes, minified and compressed. Raise it knowingly. */
const MOST_COMPRESSED = 20 * 1024;

let project = "";

before(async () => {
  project = await mkdtemp(join(tmpdir(), "handback-consumer-"));
  await cp(join(import.meta.dirname, "project"), project, { recursive: true });
  await writeFile(join(project, "package.json"), '{ "type": "module", "private": true }');
  // As it was built before the tests: other tests may be reading it.
  const { stdout } = await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", project], { cwd: PACKAGE });
  const target = join(project, "node_modules/@handback/client");
  await mkdir(target, { recursive: true });
  await run("tar", ["-xzf", join(project, stdout.trim()), "--strip-components=1", "-C", target]);
  // Its dependencies and nothing else, besides what a consumer has anyway.
  const { dependencies } = JSON.parse(await readFile(join(target, "package.json"), "utf8"));
  for (const name of [...Object.keys(dependencies), "zod", "@types/node", "undici-types"]) {
    await mkdir(join(project, "node_modules", name, ".."), { recursive: true });
    await symlink(join(PACKAGE, "node_modules", name), join(project, "node_modules", name));
  }
});

after(() => rm(project, { recursive: true, force: true }));

async function check(name: string, compilerOptions: object, files: string[]): Promise<void> {
  const strict = { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noEmit: true };
  const path = join(project, `tsconfig.${name}.json`);
  const whole = { ...strict, target: "es2022", skipLibCheck: true, preserveSymlinks: true, ...compilerOptions };
  await writeFile(path, JSON.stringify({ compilerOptions: whole, files }));
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const { stdout } = await run(process.execPath, [tsc, "--project", path]).catch((error: { stdout: string }) => error);
  assert.equal(stdout, "");
}

const BUNDLER = { module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom"], types: [] };
const NODE = { module: "nodenext", moduleResolution: "nodenext", lib: ["es2022"], types: ["node"] };

test("types are right by way of a bundler, with no Node in sight", async () => {
  await check("bundler", BUNDLER, ["tool.ts", "infer.ts", "page.ts", "server.ts"]);
  // Its own declarations too, which most projects skip; not together with those of zod, which are many.
  await check("bundler.whole", { ...BUNDLER, skipLibCheck: false }, ["page.ts", "server.ts"]);
});

test("types are right for Node, with no page in sight", async () => {
  await check("node", NODE, ["tool.ts", "infer.ts", "server.ts"]);
  await check("node.whole", { ...NODE, skipLibCheck: false }, ["server.ts"]);
});

test("the licences come with it, as they are", async () => {
  for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) {
    const [packed, ours] = await Promise.all(
      [join(project, "node_modules/@handback/client", name), join(PACKAGE, "../..", name)].map((path) => readFile(path, "utf8")),
    );
    assert.equal(packed, ours);
  }
});

test("CommonJS is told what to do, or gets it where Node can", async () => {
  const script = 'console.log(typeof require("@handback/client").createHandback)';
  const running = run(process.execPath, ["--input-type=commonjs", "--eval", script], { cwd: project });
  const said = await running.then(({ stdout }) => stdout.trim(), (error: { stderr: string }) => error.stderr);
  assert.match(said, /^function$|change the require of .* to a dynamic import\(\)|ERR_REQUIRE_ESM/);
});

test("Node imports it, with what only Node has", async () => {
  const script = 'import * as client from "@handback/client"; console.log(Object.keys(client).sort().join(" "));';
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: project });
  const names =
    "ClientToolsManager FrontendToolExecutor HandbackError Http TurnFailed createHandback createHandbackClient directoryJournal localStorageJournal memoryJournal openUrl";
  assert.equal(stdout.trim(), names);
});

test("a page gets a bundle without anything of Node, and a small one", async (test) => {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(project, "page.ts")],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
    metafile: true,
    logLevel: "silent",
  });
  const inputs = Object.keys(metafile.inputs);
  assert.deepEqual(inputs.filter((input) => /node_modules\/ws\/|dist\/(node|local)\.js|directory\.js/.test(input)), []);
  const [bundle] = outputFiles;
  assert.ok(bundle);
  assert.doesNotMatch(bundle.text, /["']node:/);
  const compressed = gzipSync(bundle.contents).length;
  test.diagnostic(`the bundle of a page: ${bundle.contents.length} bytes, ${compressed} compressed`);
  assert.ok(compressed <= MOST_COMPRESSED, `${compressed} bytes are too many`);
});

test("a page that wants what only Node has is told so when it is bundled", async () => {
  const bundling = build({
    entryPoints: [join(project, "server.ts")],
    bundle: true,
    platform: "browser",
    format: "esm",
    target: "es2022",
    write: false,
    logLevel: "silent",
  });
  await assert.rejects(bundling, /No matching export in .* for import "createHandback"/);
});
