// The executor in a real Chromium, which blocks pop-ups as it does for everybody.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, type TestContext } from "node:test";

import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

import type { FrontendCallState, FrontendToolExecutor, FrontendToolRequest } from "../../src/index.js";
import { servePage } from "../browser/browser.js";
import { Log, test, within } from "../support/patience.js";
import { until } from "../support/until.js";
import { type Backend, startBackend } from "./backend.js";

const RELOADED = "outcome unknown: the page was reloaded while it ran";
const BLOCKED = "The browser blocked the pop-up; press Open to open it";

const PAGE = `<!doctype html>
<title>A tab</title>
<link rel="icon" href="data:,">
<button id="execute">Execute</button>
<button id="retry">Open</button>
<script type="importmap">{ "imports": {
  "@handback/client": "/dist/index.js",
  "eventsource-parser": "/node_modules/eventsource-parser/dist/index.js"
} }</script>
<script type="module">
  import { FrontendToolExecutor, openUrl } from "@handback/client";
  const { url, request, isAtOnce } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  // A server that wants to be left alone, if the test says so.
  const busy = () => new Response("{}", { status: 429, headers: { "retry-after": "50" } });
  const sendOrNot = (input, init) => (window.isBusy && input.endsWith("/ack") ? busy() : fetch(input, init));
  const executor = new FrontendToolExecutor({ baseUrl: url, fetch: async (input, init) => sendOrNot(input, init) });
  executor.register("open-url", openUrl());
  executor.register("side", openUrl({ viewKey: "side" }));
  executor.register("never", () => new Promise(() => undefined));
  executor.register("busy", () => void (window.isBusy = true));
  executor.subscribe(() => console.log(JSON.stringify([...executor.getSnapshot().values()])));
  document.querySelector("#execute").onclick = () => executor.execute(request);
  document.querySelector("#retry").onclick = () => executor.retry(request);
  window.executor = executor;
  if (isAtOnce) executor.execute(request);
</script>`;

let browser: Promise<Browser> | undefined;
after(async () => (await browser)?.close());

function launch(): Promise<Browser> {
  const find = "command -v chromium || command -v chromium-browser || command -v google-chrome";
  const executablePath = process.env["CHROMIUM"] ?? execFileSync("sh", ["-c", find], { encoding: "utf8" }).trim();
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];
  return chromium.launch({ executablePath, args, ignoreDefaultArgs: ["--disable-popup-blocking"] });
}

/** A browser without a past, a server, and a page in between. */
class Tabs {
  static async open(test: TestContext): Promise<Tabs> {
    browser ??= launch();
    const context = await (await browser).newContext();
    const errors: unknown[] = [];
    context.on("weberror", (error) => errors.push(error.error()));
    test.after(async () => {
      await context.close();
      assert.deepEqual(errors, []);
    });
    const tabs = new Tabs(context, await startBackend(test), await servePage(test, "/executor.html", PAGE));
    // Not by a function of the test: Playwright answers it as if somebody had just clicked, and nothing would be blocked.
    context.on("console", (message) => {
      const page = message.page();
      if (message.type() !== "log" || !page) return;
      for (const state of JSON.parse(message.text()) as FrontendCallState[]) tabs.states.add({ page, state });
    });
    return tabs;
  }

  readonly context: BrowserContext;
  readonly backend: Backend;
  readonly states = new Log<{ page: Page; state: FrontendCallState }>();
  readonly #location: string;

  private constructor(context: BrowserContext, backend: Backend, location: string) {
    this.context = context;
    this.backend = backend;
    this.#location = location;
  }

  /** The address of the page for a call, which it may execute as soon as it is loaded: without a click of anybody. */
  address(request: FrontendToolRequest, { isAtOnce = false, host = "127.0.0.1" } = {}): string {
    const settings = encodeURIComponent(JSON.stringify({ url: this.backend.url, request, isAtOnce }));
    return `${this.#location.replace("127.0.0.1", host)}#${settings}`;
  }

  async add(address: string): Promise<Page> {
    const page = await this.context.newPage();
    await page.goto(address);
    return page;
  }

  /** Waits until a page shows a call so. */
  async shown(page: Page, phase: FrontendCallState["phase"]): Promise<FrontendCallState> {
    return (await this.states.until(`it is ${phase}`, (told) => told.page === page && told.state.phase === phase)).state;
  }

  async request(toolName: string, input: object = {}): Promise<FrontendToolRequest> {
    return { toolCallId: await this.backend.call(), toolName, input };
  }

  async outcome({ toolCallId }: FrontendToolRequest): Promise<Record<string, unknown>> {
    const { requestedAt, ...outcome } = (await this.backend.outcome(toolCallId)) as Record<string, unknown>;
    return outcome;
  }

  /** Clicks, and gives the page that opens. */
  async clickAndOpen(page: Page, button: string): Promise<Page> {
    const opening = within("a page is opened", this.context.waitForEvent("page"));
    await page.click(button);
    return opening;
  }
}

const claimantOf = (page: Page) =>
  page.evaluate(() => (JSON.parse(sessionStorage.getItem("handback:claimant") ?? "{}") as { name?: string }).name);

/** Executes a call in a page. Playwright evaluates as if somebody had just clicked. */
const executeIn = (page: Page, request: FrontendToolRequest) =>
  page.evaluate((request) => (globalThis as unknown as { executor: FrontendToolExecutor }).executor.execute(request), request);

for (const host of ["127.0.0.1", "localhost"]) {
  const origin = host === "localhost" ? "another site" : "the same origin";

  test(`an address of ${origin} is opened, and its page has no way back`, async (test) => {
    const tabs = await Tabs.open(test);
    const target = tabs.address(await tabs.request("none"), { host });
    const request = await tabs.request("open-url", { url: target });
    const page = await tabs.add(tabs.address(request));
    const opened = await tabs.clickAndOpen(page, "#execute");
    await opened.waitForURL(target);
    const { output, counted } = await tabs.shown(page, "done");
    const { url, viewKey } = output as { url: string; viewKey: string };
    assert.deepEqual([url, counted], [target, true]);
    assert.match(viewKey, /^view-[0-9a-f]{16}$/);
    assert.deepEqual(await tabs.outcome(request), { status: "success", output: { url, viewKey } });
    assert.equal(await opened.evaluate(() => window.opener as unknown), null);
    assert.equal(await page.evaluate(() => location.href), tabs.address(request));
  });
}

test("a pop-up that the browser blocks is a failure; a click on Open opens it, and the state says it came too late", async (test) => {
  const tabs = await Tabs.open(test);
  const target = tabs.address(await tabs.request("none"), { host: "localhost" });
  const request = await tabs.request("open-url", { url: target });
  const page = await tabs.add(tabs.address(request, { isAtOnce: true }));
  const blocked = await tabs.shown(page, "done");
  assert.deepEqual([blocked.outcome, blocked.errorText, blocked.counted], ["failed", BLOCKED, true]);
  assert.deepEqual(await tabs.outcome(request), { status: "failed", errorText: BLOCKED });
  assert.deepEqual(tabs.context.pages(), [page]);

  const opened = await tabs.clickAndOpen(page, "#retry");
  await opened.waitForURL(target);
  assert.equal(await opened.evaluate(() => window.opener as unknown), null);
  const late = await tabs.shown(page, "failed");
  assert.deepEqual([late.outcome, late.counted, late.ackStatus], ["success", false, 409]);
  assert.match(late.error ?? "", /^the call was already over/);
});

test("a second address under the same name is opened, too, and no page has a way back", async (test) => {
  const tabs = await Tabs.open(test);
  const target = (host: string) => tabs.address({ toolCallId: host, toolName: "none", input: {} }, { host });
  const page = await tabs.add(tabs.address(await tabs.request("none")));
  for (const host of ["localhost", "127.0.0.1", "localhost"]) {
    const state = await executeIn(page, await tabs.request("side", { url: target(host) }));
    assert.deepEqual([state?.outcome, state?.output], ["success", { url: target(host), viewKey: "side" }]);
    const opened = () => tabs.context.pages().filter((other) => other.url() === target(host));
    await until("it is opened", () => opened().length > 0);
    for (const other of opened()) assert.equal(await other.evaluate(() => window.opener as unknown), null);
  }
});

test("an address that is not of the web is never opened, not even by a click", async (test) => {
  const tabs = await Tabs.open(test);
  const page = await tabs.add(tabs.address(await tabs.request("none")));
  const hostile = ["javascript:document.title='hurt'", " JavaScript:alert(1)", "java\nscript:alert(1)", "data:text/html,hurt"];
  for (const url of [...hostile, "blob:null/1", "file:///etc/passwd", "about:blank", "//localhost", "/executor.html"]) {
    const request = await tabs.request("open-url", { url });
    const state = await executeIn(page, request);
    assert.deepEqual([state?.phase, state?.outcome], ["done", "failed"], url);
    assert.match(state?.errorText ?? "", /^only http: and https: are opened|is not a whole URL/);
  }
  assert.deepEqual(tabs.context.pages(), [page]);
  assert.equal(await page.title(), "A tab");
});

test("after a reload the tab has its name, and a call that was begun is not run again", async (test) => {
  const tabs = await Tabs.open(test);
  const request = await tabs.request("never");
  const page = await tabs.add(tabs.address(request, { isAtOnce: true }));
  await tabs.shown(page, "running");
  const name = await claimantOf(page);
  assert.match(name ?? "", /^[0-9a-f]{32}$/);
  await page.reload();
  const state = await tabs.shown(page, "done");
  assert.deepEqual([state.outcome, state.errorText, state.counted], ["failed", RELOADED, true]);
  assert.deepEqual(await tabs.outcome(request), { status: "failed", errorText: RELOADED });
  assert.equal(await claimantOf(page), name);
});

test("a tab whose storage is a copy takes another name, and leaves the call to the first", async (test) => {
  const tabs = await Tabs.open(test);
  const request = await tabs.request("never");
  const page = await tabs.add(tabs.address(request, { isAtOnce: true }));
  await tabs.shown(page, "running");
  // A window that a page opens gets a copy of its storage, as a duplicated tab does.
  const copy = within("a page is opened", tabs.context.waitForEvent("page"));
  await page.evaluate((address) => void window.open(address), tabs.address(request, { isAtOnce: true }));
  await tabs.shown(await copy, "elsewhere");
  const [name, copied] = await Promise.all([page, await copy].map(claimantOf));
  assert.ok(name && copied && name !== copied);
  assert.equal(await tabs.backend.outcome(request.toolCallId), undefined);
  const own = await tabs.request("nothing");
  assert.equal((await executeIn(await copy, own))?.phase, "done");
});

test("an ack that waits for its next try is sent when the page is left", async (test) => {
  const tabs = await Tabs.open(test);
  const request = await tabs.request("busy");
  const page = await tabs.add(tabs.address(request, { isAtOnce: true }));
  const isRefused = ({ state }: { state: FrontendCallState }) => state.ackStatus === 429;
  await tabs.states.until("the server wants to be left alone", isRefused);
  await page.evaluate(() => void Object.assign(globalThis, { isBusy: false }));
  // A link, as the browser itself would follow one: nothing of the page stays.
  await page.goto("about:blank");
  await until("the ack has arrived", async () => (await tabs.backend.outcome(request.toolCallId)) !== undefined);
  assert.deepEqual(await tabs.outcome(request), { status: "success" });
});
