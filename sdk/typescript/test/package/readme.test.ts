// What the README shows is what happens: its TypeScript is checked, and what is marked to run gives what stands below it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { BINARY, startServer } from "./server.js";

const run = promisify(execFile);
const PACKAGE = resolve(import.meta.dirname, "../..");
/** The page that everybody reads first. */
const FRONT_PAGE = resolve(PACKAGE, "../../README.md");

/** What a block that imports nothing goes on from: what the first one has made. */
const BEFORE = `
import { createHandback } from "@handback/client";
import { z } from "zod";
const { client, server } = await createHandback();
const parameters = z.object({ city: z.string() });
await client.clientTools.register("weather", { description: "The weather in a city", parameters }, ({ city }) => \`Sunny in \${city}\`);
const session = await client.startSession();
`;
const AFTER = "await server.close();\n";

interface Block {
  source: string;
  runs: boolean;
  output: string | undefined;
}

function blocksOf(readme: string): Block[] {
  const blocks = [...readme.matchAll(/^```ts( run)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)];
  return blocks.map(([, mark, source = "", output]) => {
    const whole = source.includes("import ") ? source : `${BEFORE}${source}${AFTER}`;
    return { source: `${whole}\nexport {};\n`, runs: mark !== undefined, output };
  });
}

test("what the README shows is what happens", async (test) => {
  const blocks = blocksOf(await readFile(join(PACKAGE, "README.md"), "utf8"));
  assert.ok(blocks.filter(({ runs }) => runs).length >= 4, "the blocks were not found");
  const project = await mkdtemp(join(tmpdir(), "handback-readme-"));
  test.after(() => rm(project, { recursive: true, force: true }));
  await mkdir(join(project, "node_modules/@handback"), { recursive: true });
  await mkdir(join(project, "node_modules/@types"));
  await symlink(PACKAGE, join(project, "node_modules/@handback/client"));
  for (const name of ["zod", "@types/node"]) await symlink(join(PACKAGE, "node_modules", name), join(project, "node_modules", name));
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
  for (const [number, { source }] of blocks.entries()) await writeFile(join(project, `block-${number}.ts`), source);

  const compilerOptions = {
    strict: true,
    target: "es2022",
    module: "nodenext",
    lib: ["es2022", "dom"],
    types: ["node"],
    skipLibCheck: true,
    outDir: "built",
    rootDir: ".",
  };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const checked = await run(process.execPath, [tsc, "--project", project]).catch((error: { stdout: string }) => error);
  assert.equal(checked.stdout, "");

  const { server } = await startServer(test);
  for (const [number, { runs, output }] of blocks.entries()) {
    if (!runs) continue;
    const path = join(project, `built/block-${number}.js`);
    // The server that already runs is one of this test.
    await writeFile(path, (await readFile(path, "utf8")).replaceAll("http://127.0.0.1:4096", server.url));
    const env = { ...process.env, HANDBACK_BINARY: BINARY, HOME: project };
    const { stdout } = await run(process.execPath, [path], { cwd: project, env, timeout: 60_000 });
    if (output !== undefined) assert.equal(stdout, output, `block ${number}`);
  }
});

test("ten lines are enough", async () => {
  for (const page of [join(PACKAGE, "README.md"), FRONT_PAGE]) {
    const [, first = ""] = /^```(?:ts|ts run|js)\n(.*?)^```/ms.exec(await readFile(page, "utf8")) ?? [];
    const lines = first.split("\n").filter((line) => line.trim() !== "");
    assert.ok(lines.length > 0 && lines.length <= 10, `${lines.length} lines in ${page}`);
  }
});
