// The console in a real Chromium, shown by a real server.

import assert from "node:assert/strict";
import { accessSync, constants } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { after, type TestContext } from "node:test";
import { inspect, isDeepStrictEqual } from "node:util";

import { ClientToolsManager, type ToolDefinition, type ToolHandler } from "@handback/client";
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page, type Request } from "playwright-core";

import { PATIENCE, test } from "../../../sdk/typescript/test/support/patience.js";
import { Server } from "../../../sdk/typescript/test/support/server.js";
import { until } from "../../../sdk/typescript/test/support/until.js";

export { assert, Server, test, until };
export type { Locator, Page, TestContext };

const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];
/** Pop-ups are blocked as they are for everybody. */
const UNUSUAL = ["--disable-popup-blocking"];
const PICTURES = resolve(import.meta.dirname, "../../test-output");

/** One for all tests; each has a context of its own. */
let browser: Promise<Browser> | undefined;

after(async () => {
  await (await browser)?.close();
});

interface Options extends BrowserContextOptions {
  /** The part after `#/`. */
  page?: string;
  /** Failures that the test brings about; what else the page complains about fails the test. */
  expected?: RegExp;
}

/** Opens the console. */
export async function openConsole(test: TestContext, server: Pick<Server, "url" | "guest">, options: Options = {}): Promise<Page> {
  const { page: path = "live", expected, ...rest } = options;
  browser ??= chromium.launch({ executablePath: findChromium(), args: ARGUMENTS, ignoreDefaultArgs: UNUSUAL });
  const context = await (await browser).newContext({ viewport: { width: 1280, height: 860 }, ...rest });
  const complaints: string[] = [];
  context.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error().stack)));
  // It leaves before the server does, or it would complain.
  server.guest({ disconnect: () => context.close() });
  test.after(() => {
    assert.deepEqual(
      complaints.filter((complaint) => !expected?.test(complaint)),
      [],
    );
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.goto(`${server.url}/#/${path}`);
  return page;
}

/** What Chromium itself says about a server that is not there, or says no. */
export const UNREACHABLE = /net::ERR_/;
export const REFUSED = /the server responded with a status of 4\d\d/;

/** Waits until something is shown. */
export async function see(shown: Locator): Promise<void> {
  await shown.first().waitFor({ state: "visible" });
}

/** Waits until something is not shown any more. */
export async function miss(shown: Locator): Promise<void> {
  await until(`${shown} is gone`, async () => (await shown.count()) === 0);
}

/** Waits until what is read is this. A page changes in steps, and who looks once may look between two of them. */
export async function reads<T>(read: () => Promise<T>, expected: T): Promise<void> {
  let last: T | undefined;
  const reading = until("it reads as expected", async () => isDeepStrictEqual((last = await read()), expected));
  await reading.catch((error: unknown) => {
    throw new Error(`it reads ${inspect(last)} and not ${inspect(expected)}`, { cause: error });
  });
}

/** The same, of one text. */
export function readsText(shown: Locator, expected: string): Promise<void> {
  return reads(() => shown.innerText(), expected);
}

/** Goes to a page by its link. */
export async function go(page: Page, name: string): Promise<void> {
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).click();
}

/** What the streams of events are about that a page opens from now on, and those that are open. */
export function streamsOf(page: Page): { opened: string[]; open: () => Promise<string[]> } {
  const topic = (request: Request) => new URL(request.url()).search.replace(/=playground-[-0-9a-f]+$/, "=own");
  const opened: string[] = [];
  const open = new Set<Request>();
  page.on("request", (request) => {
    if (new URL(request.url()).pathname !== "/event") return;
    opened.push(topic(request));
    open.add(request);
  });
  page.on("requestfailed", (request) => open.delete(request));
  page.on("requestfinished", (request) => open.delete(request));
  return { opened, open: async () => [...open].map(topic) };
}

/** The rows of calls that are in the document. */
export function callRows(page: Page): Locator {
  return page.getByRole("grid", { name: /Calls/ }).locator(".calls-all > [role=row]");
}

/** The search field of the calls. */
export function callFilter(page: Page): Locator {
  return page.getByRole("searchbox", { name: "Filter by id, tool, client or session" });
}

/** Keeps a picture of the page, for people to look at. */
export async function picture(page: Page, name: string): Promise<void> {
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), animations: "disabled" });
}

export type ToolBox = Record<string, { definition?: Partial<ToolDefinition>; run: ToolHandler<Record<string, unknown>> }>;

/** A client with tools, connected until the test is over. */
export async function connect(server: Server, clientID: string, tools: ToolBox, token?: string): Promise<ClientToolsManager> {
  const manager = new ClientToolsManager(clientID, server.url, { useWebSocket: false, token });
  for (const [id, { definition, run }] of Object.entries(tools)) {
    await manager.register(id, { description: "", ...definition } as ToolDefinition, run as ToolHandler<unknown>);
  }
  server.guest(manager);
  await manager.connect();
  return manager;
}

function findChromium(): string {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const candidates = folders.flatMap((folder) => names.map((name) => join(folder, name)));
  const found = process.env["CHROMIUM"] ?? candidates.find(isExecutable);
  if (found === undefined) throw new Error("there is no Chromium: install it, or say where it is with CHROMIUM");
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
