// What docs/agui.md shows is what happens: its programs are type-checked and run with both generations of the client,
// its configuration is used, its tables are compared with a server and with what it is made of. Its commands are run by
// the tests of the command line, its Rust by those of the Rust SDK.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { GREET, Laptop } from "../support/laptop.js";
import { test, until, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { BINARY, Server } from "../support/server.js";
import { ask } from "./setup.js";

const FOREIGN = resolve(import.meta.dirname, "..");
const ROOT = resolve(FOREIGN, "..");
const GUIDE = await readFile(join(ROOT, "docs/agui.md"), "utf8");
const DEPENDENCIES = JSON.parse(await readFile(join(FOREIGN, "package.json"), "utf8")).dependencies;
const run = promisify(execFile);

/** What stands under a heading. @param {string} heading */
function section(heading) {
  const found = GUIDE.split(/^## /m).find((section) => section.startsWith(`${heading}\n`));
  return found ?? assert.fail(`there is no section "${heading}"`);
}

/**
 * The blocks of a language, in order.
 *
 * @param {string} language
 * @param {string} [text]
 */
const blocksOf = (language, text = GUIDE) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, block]) => block);

/**
 * A block of a section, and the one after it, which is what comes of it.
 *
 * @param {string} heading
 */
function example(heading) {
  const [source = assert.fail("there is no program")] = blocksOf("js", section(heading));
  const [printed = assert.fail("it prints nothing")] = blocksOf("text", section(heading));
  return { source, printed };
}

/** The rows of the table with this head in a section. @param {string} heading @param {string} head */
function table(heading, head) {
  const [, rows] = section(heading).split(`${head}\n`);
  assert.ok(rows, `there is no table ${head}`);
  const [text] = /^(\|.*\n)+/.exec(rows) ?? assert.fail("the table has no rows");
  return [...text.matchAll(/^\| (.*) \|$/gm)].map(([, row]) => row.split(" | ")).slice(1);
}

/** The first program, and the one with the two lines that are changed later. */
const FIRST = example("The first five minutes").source;
const MIXED = blocksOf("js", section("Three kinds of tools"))[0]
  .trim()
  .split("\n")
  .reduce((source, line) => {
    const [start] = /^const \w+ = /.exec(line) ?? assert.fail(line);
    const found = source.split("\n").find((old) => old.startsWith(start)) ?? assert.fail(`nothing to change: ${line}`);
    return source.replace(found, () => line);
  }, FIRST);
const ASKING = example("Asking before a call runs").source;
const FAILING = example("When something goes wrong").source;

/**
 * A folder in which the client is installed, as npm would: the programs find it by its own name.
 *
 * @param {import("node:test").TestContext} test
 * @param {string} installed
 */
async function project(test, installed) {
  const folder = join(FOREIGN, "test-output", `guide-${installed}-${process.pid}`);
  await mkdir(join(folder, "node_modules/@ag-ui"), { recursive: true });
  test.after(() => rm(folder, { recursive: true, force: true }));
  await symlink(join(FOREIGN, "node_modules", installed), join(folder, "node_modules/@ag-ui/client"));
  return folder;
}

/**
 * Runs a program against a server; gives what it prints.
 *
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 * @param {string} installed
 * @param {string} source
 */
async function execute(test, server, installed, source) {
  const file = join(await project(test, installed), "program.mjs");
  await writeFile(file, source.replaceAll("http://127.0.0.1:4096", server.url));
  const { stdout, stderr } = await within("the program is done", run(process.execPath, [file]));
  assert.equal(stderr, "");
  return stdout;
}

/**
 * Attaches the command that the guide attaches, until the test is over.
 *
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 */
async function attach(test, server) {
  const [, command = assert.fail("nothing is attached")] = /^\$ handback (attach .*) &$/m.exec(GUIDE) ?? [];
  const env = { ...process.env, HANDBACK_URL: server.url };
  const attached = spawn("sh", ["-c", `exec "$0" ${command}`, BINARY], { env, stdio: "ignore" });
  const gone = new Promise((gone) => attached.once("close", gone));
  test.after(async () => {
    attached.kill("SIGKILL");
    await within("the client is gone", gone);
  });
  await until("the tool is there", async () => (await ask(server, "/client-tools/tools/laptop")).body.length === 1);
}

/**
 * A text is as expected, where `…` is anything within a line. Lines without a word do not count.
 *
 * @param {string} expected
 * @param {string} found
 */
function assertFits(expected, found) {
  const squeeze = (/** @type {string} */ text) => text.trim().replace(/\n+/g, "\n");
  const escape = (/** @type {string} */ text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = squeeze(expected).split("…").map(escape).join(".*");
  assert.match(squeeze(found), new RegExp(`^${pattern}$`));
}

/**
 * A run's input with one message of the user's.
 *
 * @param {string} threadId
 * @param {string} content
 * @param {object} [more]
 */
const input = (threadId, content, more) => ({
  threadId,
  runId: "1",
  messages: [{ id: `${threadId}-1`, role: "user", content }],
  ...more,
});

/**
 * @param {Server} server
 * @param {string} path
 * @param {unknown} body JSON, or a text as it is
 */
const post = (server, path, body) =>
  fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

for (const { installed, name } of [
  { installed: "ag-ui-client-1", name: CLIENTS[0].name },
  { installed: "ag-ui-client-0", name: CLIENTS[1].name },
]) {
  test(`guide, ${name}: all programs are type-checked`, async (test) => {
    assert.deepEqual([blocksOf("js").length, blocksOf("toml").length], [4, 2], "the blocks were not found");
    const folder = await project(test, installed);
    for (const [program, source] of Object.entries({ FIRST, MIXED, ASKING, FAILING })) {
      await writeFile(join(folder, `${program.toLowerCase()}.mjs`), source);
    }
    const settings = { extends: "../../tsconfig.json", include: ["*.mjs"] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(settings));

    const tsc = join(FOREIGN, "node_modules/.bin/tsc");
    const { stdout, code } = await run(tsc, ["--project", folder]).catch((error) => error);

    assert.deepEqual([stdout, code], ["", undefined]);
  });

  test(`guide, ${name}: the first program`, async (test) => {
    const server = await Server.start(test);
    assertFits(example("The first five minutes").printed, await execute(test, server, installed, FIRST));
  });

  test(`guide, ${name}: tools of the page, of a client and of the server`, async (test) => {
    const server = await Server.start(test);
    await attach(test, server);
    assertFits(example("Three kinds of tools").printed, await execute(test, server, installed, MIXED));
  });

  test(`guide, ${name}: a call that has to be allowed`, async (test) => {
    const [config] = blocksOf("toml", section("Asking before a call runs"));
    const server = await Server.start(test, { config });
    await attach(test, server);
    assertFits(example("Asking before a call runs").printed, await execute(test, server, installed, ASKING));
  });

  test(`guide, ${name}: a run that fails`, async (test) => {
    const server = await Server.start(test);
    assertFits(example("When something goes wrong").printed, await execute(test, server, installed, FAILING));
  });
}

test("guide: the versions that it speaks of are those that are tried", async () => {
  assert.equal(DEPENDENCIES["ag-ui-client-1"], "npm:@ag-ui/client@1.0.0");
  assert.equal(DEPENDENCIES["ag-ui-client-0"], "npm:@ag-ui/client@0.0.59");
  assert.match(GUIDE, /both generations of the client, 1\.0 and 0\.0\.59/);
  assert.match(GUIDE, /npm install @ag-ui\/client@1`/);
});

// What it does is tested with the turns.
test("guide: a setting that lets runs go on without their reader", async (test) => {
  const [config] = blocksOf("toml", section("Reloads, retries and repeats"));
  const file = join(await project(test, "ag-ui-client-1"), "handback.toml");
  await writeFile(file, config);
  const { stdout } = await run(BINARY, ["config", "--json", "--config", file]);
  const { value } = JSON.parse(stdout).find(({ key }) => key === "agui.onDisconnect");
  assert.equal(value, "continue");
});

test("guide: every answer to an interrupt", async (test) => {
  const rows = table("Asking before a call runs", "| the answer | the result of the call |");
  assert.ok(rows.length >= 6, `${rows.length} rows`);
  const [config] = blocksOf("toml", section("Asking before a call runs"));
  const server = await Server.start(test, { config });
  await Laptop.connect(test, server, "laptop", { greet: GREET });
  for (const [place, row] of rows.entries()) {
    const [answer, result] = row.map((cell) => cell.replace(/^`(.*)`$/, "$1"));
    const settings = { threadId: `thread-${place}`, forwardedProps: { clientID: "laptop" } };
    const page = new AguiPage(test, server, CLIENTS[0], settings);
    await page.say('call greet {"name":"Ada"}');
    const [{ id }] = page.agent.pendingInterrupts;
    const { all } = await page.resume({ [id]: JSON.parse(answer) }).then((run) => run.events);
    const told = all.flatMap(({ type, content }) => (type === "TOOL_CALL_RESULT" ? content : []));
    assert.deepEqual([answer, told], [answer, [result]]);
    if (!JSON.parse(answer).payload?.always) continue;
    await page.say('call greet {"name":"Grace"}');
    assert.deepEqual(page.agent.pendingInterrupts, []);
    assert.equal(page.said.at(-1), "assistant: The tool `greet` answered: Hello, Grace!");
  }
});

test("guide: results of the page's own calls come along with the answers to interrupts", async (test) => {
  const [config] = blocksOf("toml", section("Asking before a call runs"));
  const server = await Server.start(test, { config });
  await Laptop.connect(test, server, "laptop", { greet: GREET });
  const settings = { tools: { locate: { run: () => "Oslo" } }, forwardedProps: { clientID: "laptop" } };
  const page = new AguiPage(test, server, CLIENTS[0], settings);
  await page.say('call greet {"name":"Ada"}\ncall locate {}');
  const [{ id, toolCallId }] = page.agent.pendingInterrupts;
  const [{ id: own }] = page.open.filter((call) => call.id !== toolCallId);
  page.add({ role: "tool", toolCallId: own, content: "Oslo" });

  await page.resume({ [id]: { status: "resolved", payload: { approved: true } } });

  assert.equal(page.runs.length, 2);
  const answer = "assistant: The tool `greet` answered: Hello, Ada!\n\nThe tool `locate` answered: Oslo";
  assert.equal(page.said.at(-1), answer);
});

test("guide: every request that is refused", async (test) => {
  const rows = table("When something goes wrong", "| when | answer |");
  const shown = Object.fromEntries(rows.map(([when, answer]) => [when, answer]));
  const server = await Server.start(test, { config: "[limits]\nbodyBytes = 10000" });
  const key = createHash("sha256").update("a key").digest("hex");
  const locked = await Server.start(test, { config: `[auth]\nkeys = ["${key}"]` });
  const tools = [{ name: "locate" }];
  const events = await (await post(server, "/agui", input("left", "call locate {}", { tools }))).text();
  const [toolCallId] = /cal_[^"]*/.exec(events) ?? assert.fail(events);
  const said = { id: "later", role: "user", content: "Never mind" };
  await (await post(server, "/agui", { threadId: "left", runId: "2", messages: [said] })).text();
  const late = { threadId: "left", runId: "3", messages: [{ id: "late", role: "tool", toolCallId, content: "Oslo" }] };
  const own = input("own", "Hello", { forwardedProps: { clientID: "laptop" } });
  await (await post(server, "/agui", own)).text();
  /** @param {Promise<Response>} asked */
  const answer = async (asked) => {
    const response = await asked;
    return `${response.status} \`${(await response.json()).code}\``;
  };

  assert.deepEqual(shown, {
    "the input is no JSON, or misses something": await answer(post(server, "/agui", "no JSON")),
    "there is nothing to answer in it": await answer(post(server, "/agui", { ...own, messages: [] })),
    "a tool of the page has the name of another": await answer(
      post(server, "/agui", input("new", "Hello", { tools: [{ name: "list_tools" }] })),
    ),
    "the key or the token is missing or wrong": await answer(post(locked, "/agui", own)),
    "the thread belongs to another client": await answer(
      post(server, "/agui", { ...own, forwardedProps: { clientID: "stranger" } }),
    ),
    "there is no such agent": await answer(post(server, "/agui/nobody", own)),
    "the conversation has gone on since": await answer(post(server, "/agui", late)),
    "it is larger than `limits.bodyBytes`": await answer(post(server, "/agui", input("large", "x".repeat(10_000)))),
  });
  const { status } = await post(server, "/agui", { threadId: "new", messages: own.messages });
  assert.equal(status, 400, "a run without an id");
});

test("guide: every code of RUN_ERROR is one that the server has, and none is missing", async () => {
  const listed = table("When something goes wrong", "| code | when |").map(([code]) => code.replaceAll("`", ""));
  const folders = ["crates/server/src/api/agui", "crates/core/src/sessions"].map((folder) => join(ROOT, folder));
  const read = async (folder) => {
    const files = (await readdir(folder)).filter((file) => file.endsWith(".rs"));
    return Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  };
  const sources = (await Promise.all(folders.map(read))).flat().join("\n");
  // All the ways in which the sources write a code.
  const written = [
    ...sources.matchAll(/\bcode: "(\w+)"\.into\(\)/g),
    ...sources.matchAll(/\bfail\(\s*"(\w+)"/g),
    ...sources.matchAll(/\(\s*"(\w+)",\s*format!/g),
    ...sources.matchAll(/TurnError::.* => "(\w+)"/g),
    ...sources.matchAll(/const CANCELLED: &str = "(\w+)"/g),
  ].map(([, code]) => code);
  assert.deepEqual(listed.toSorted(), [...new Set(written)].toSorted());
});

test("guide: every endpoint is one that the server has, and none is missing", async () => {
  const { paths } = JSON.parse(await readFile(join(ROOT, "crates/server/openapi.json"), "utf8"));
  const served = Object.entries(paths)
    .filter(([path]) => path.startsWith("/api/v1/"))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
  const rows = [...section("Threads and runs").matchAll(/^\| .* \| `([A-Z]+ \S+)` \|$/gm)];
  assert.deepEqual(rows.map(([, endpoint]) => endpoint).toSorted(), served.toSorted());
});

test("guide: what differs between the generations", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  /** The events of a run, which `meanwhile` may end. */
  const events = async (/** @type {any} */ input, meanwhile = async () => {}) => {
    const response = await post(server, "/agui", input);
    await meanwhile();
    const text = await within("the run ends", response.text());
    return [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json));
  };
  for (const protocolVersion of ["1.0", undefined]) {
    const thread = `thread-${protocolVersion}`;
    const tools = [{ name: "locate" }];
    const told = await events(input(thread, "call locate {}", { protocolVersion, tools }));
    const [started, { toolCallId }] = told;
    assert.equal(started.protocolVersion, protocolVersion);
    const pending = { type: "success", pendingToolCallIds: [toolCallId] };
    assert.deepEqual(told.at(-1).outcome, protocolVersion && pending);

    const slow = input(`slow-${protocolVersion}`, "Hello", { protocolVersion, forwardedProps: { model: "local/any" } });
    const stopped = await events(slow, async () => {
      await provider.asked();
      await post(server, `/session/${slow.threadId}/abort`, {});
    });
    const { type, code, outcome } = stopped.at(-1);
    const cancelled = protocolVersion
      ? { type: "RUN_FINISHED", code: undefined, outcome: { type: "cancelled" } }
      : { type: "RUN_ERROR", code: "cancelled", outcome: undefined };
    assert.deepEqual({ type, code, outcome }, cancelled);
  }
});
