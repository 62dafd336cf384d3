// Calls of before: more than the server lists at once, and those of an earlier process.

import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { BINARY, startServer } from "../../../sdk/typescript/test/package/server.js";
import { callFilter, callRows, connect, miss, openConsole, type Page, reads, readsText, see, Server, test, type TestContext, UNREACHABLE } from "./support.js";

test("older calls are shown when asked for, and all of them are charted", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { first: { run: () => "ok" }, quick: { run: () => "ok" } });
  await server.execute("client_laptop_first");
  for (let index = 0; index < 49; index += 1) await server.execute("client_laptop_quick");
  const page = await openShort(test, server, "live");
  const card = page.getByRole("region", { name: "Calls" });
  const note = card.locator(".card-head .note");
  await readsText(note, "the latest 20");
  await callFilter(page).fill("first");
  await see(card.getByText("No call fits the filter."));
  await see(card.getByText("Only the latest 20 are searched."));
  const button = card.getByRole("button", { name: "Show older calls" });
  await button.click();
  await readsText(note, "0 of the latest 40");
  await button.click();
  await see(callRows(page).filter({ hasText: "first" }));
  await readsText(note, "1 of 50");
  await miss(button);
  // Charts read all of their time, also if they are opened only now.
  const charts = await openShort(test, server, "charts");
  await see(charts.getByText(/^50 calls/));
  await see(charts.getByText("Success 50"));
});

test("a call of a server that was killed is under way in the next", async (test) => {
  const folder = await newFolder(test);
  // Of a program that becomes the server: it tells whom to kill.
  const binary = join(folder, "handback");
  await writeFile(binary, `#!/bin/sh\necho $$ > ${folder}/pid\nexec ${BINARY} "$@"\n`);
  await chmod(binary, 0o755);
  const settings = { arguments: ["--data", await newFolder(test)], ephemeral: false };
  const { server } = await startServer(test, { ...settings, binary });
  const post = (path: string, body: unknown) => fetch(`${server.url}/client-tools/${path}`, { method: "POST", body: JSON.stringify(body) });
  await post("register", { clientID: "laptop", tools: [{ id: "hello" }] });
  await post("execute", { toolID: "client_laptop_hello", wait: false });
  process.kill(Number(await readFile(join(folder, "pid"), "utf8")), "SIGKILL");
  const again = await startServer(test, settings);
  const guest = { url: again.server.url, guest: () => undefined };
  // The server goes before the page.
  const page = await openConsole(test, guest, { expected: UNREACHABLE });
  await reads(() => callRows(page).locator(".state").allInnerTexts(), ["Queued"]);
});

/** A console for which the server lists 20 calls at once, and not 1,000. */
async function openShort(test: TestContext, server: Server, name: string): Promise<Page> {
  const page = await openConsole(test, server, { page: name });
  await page.route("**/client-tools/calls?*", (route) => route.continue({ url: route.request().url().replace("limit=1000", "limit=20") }));
  await page.reload();
  return page;
}

async function newFolder(test: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "handback-console-"));
  test.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
