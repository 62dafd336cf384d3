// A tab whose tools the test has in its hands.

import type { TestContext } from "node:test";

import type { BrowserContext, Page } from "playwright-core";

import type { CallEvent, ClientToolsManager, ClientToolsOptions, StateEvent } from "../../src/index.js";
import { Log } from "../support/patience.js";
import { newContext, siteUrl } from "./browser.js";

/** What a page tells. */
export type News =
  | { tab: Tab; what: "state"; event: StateEvent }
  | { tab: Tab; what: "call"; event: CallEvent }
  /** A handler runs, and ends when it is told to with `finish`. */
  | { tab: Tab; what: "run"; event: { requestID: string; attempt: number } };

interface Settings {
  clientID: string;
  url: string;
  options: ClientToolsOptions;
}

/** What the page has for the test. */
interface Hands {
  manager: ClientToolsManager;
  finish: (output: string) => void;
  tell: (what: string, event: unknown) => Promise<void>;
}

const PAGE = `<!doctype html>
<title>A tab</title>
<link rel="icon" href="data:,">
<script type="importmap">{ "imports": {
  "@handback/client": "/dist/index.js",
  "eventsource-parser": "/node_modules/eventsource-parser/dist/index.js"
} }</script>
<script type="module">
  import { ClientToolsManager } from "@handback/client";
  const { clientID, url, options } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const manager = new ClientToolsManager(clientID, url, options);
  window.manager = manager;
  manager.on("state", ({ state, retryIn }) => window.tell("state", { state, retryIn }));
  manager.on("call", (event) => window.tell("call", event));
  for (const effect of ["read", "write"]) {
    await manager.register(effect, { description: effect, effect }, async (input, { requestID, attempt }) => {
      const finished = new Promise((finish) => (window.finish = finish));
      await window.tell("run", { requestID, attempt });
      return finished;
    });
  }
  await manager.connect();
</script>`;

/** The tabs of one browser. */
export class Tabs {
  static async open(test: TestContext, expected?: RegExp): Promise<Tabs> {
    const context = await newContext(test, expected ? { expected } : {});
    const tabs = new Tabs(context);
    await context.exposeBinding("tell", ({ page }, what, event) => {
      const tab = tabs.#tabs.get(page);
      if (tab) tabs.news.add({ tab, what, event } as News);
    });
    await context.route("**/tab.html", (route) => route.fulfill({ contentType: "text/html", body: PAGE }));
    return tabs;
  }

  /** All that happens in all of them. */
  readonly news = new Log<News>();
  readonly context: BrowserContext;
  readonly #tabs = new Map<Page, Tab>();

  private constructor(context: BrowserContext) {
    this.context = context;
  }

  /** Opens one more, and waits until its tools can be called. */
  async add(url: string, options: ClientToolsOptions = {}): Promise<Tab> {
    const page = await this.context.newPage();
    const tab = new Tab(this.news, page, { clientID: "browser", url, options });
    this.#tabs.set(page, tab);
    await tab.load();
    return tab;
  }

  /** The handlers that were started for a call. */
  runs(requestID: string): Tab[] {
    const runs = this.news.all.filter(({ what, event }) => what === "run" && event.requestID === requestID);
    return runs.map(({ tab }) => tab);
  }

  /** The tab in which a call runs, once one does. */
  async running(requestID: string): Promise<Tab> {
    const isIt = ({ what, event }: News) => what === "run" && event.requestID === requestID;
    return (await this.news.until(`${requestID} runs`, isIt)).tab;
  }
}

export class Tab {
  readonly page: Page;
  readonly #news: Log<News>;
  readonly #settings: Settings;

  constructor(news: Log<News>, page: Page, settings: Settings) {
    this.#news = news;
    this.page = page;
    this.#settings = settings;
  }

  async load(): Promise<void> {
    const opened = this.next("open");
    await this.page.goto(`${await siteUrl()}/tab.html#${encodeURIComponent(JSON.stringify(this.#settings))}`);
    await opened;
  }

  /** Loads the page anew, and waits until its tools can be called again. */
  async reload(): Promise<void> {
    const opened = this.next("open");
    await this.page.reload();
    await opened;
  }

  /** Waits until the connection becomes so once more. */
  async next(state: StateEvent["state"]): Promise<void> {
    const before = this.#news.all.length;
    const isIt = (news: News) => news.tab === this && news.what === "state" && news.event.state === state;
    await this.#news.until(`a tab is ${state}`, (news) => isIt(news) && this.#news.all.indexOf(news) >= before);
  }

  /** Lets the handler that was started last give this. */
  async finish(output: string): Promise<void> {
    await this.page.evaluate((output) => (globalThis as unknown as Hands).finish(output), output);
  }
}
