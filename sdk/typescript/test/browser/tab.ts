// A tab whose tools the test has in its hands.

import type { TestContext } from "node:test";

import type { BrowserContext, Page } from "playwright-core";

import type { CallEvent, ClientToolsOptions, StateEvent } from "../../src/index.js";
import { Log } from "../support/patience.js";
import { newContext, servePage } from "./browser.js";

/** What a page tells. */
export type News =
  | { tab: Tab; what: "state"; event: StateEvent }
  | { tab: Tab; what: "call"; event: CallEvent }
  /** A handler runs, and ends when it is told to with `finish`. */
  | { tab: Tab; what: "run"; event: { requestID: string; attempt: number } };

/** What the page has for the test. */
interface Hands {
  finish(output: string): void;
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
    const context = await newContext(test, expected);
    const tabs = new Tabs(context, await servePage(test, "/tab.html", PAGE));
    await context.exposeBinding("tell", ({ page }, what, event) => {
      const tab = tabs.#tabs.get(page);
      if (tab) tabs.news.add({ tab, what, event } as News);
    });
    return tabs;
  }

  /** All that happens in all of them. */
  readonly news = new Log<News>();
  readonly context: BrowserContext;
  readonly #tabs = new Map<Page, Tab>();
  readonly #location: string;

  private constructor(context: BrowserContext, location: string) {
    this.context = context;
    this.#location = location;
  }

  /** Opens one more, and waits until its tools can be called. */
  async add(url: string, options: ClientToolsOptions = {}): Promise<Tab> {
    const page = await this.context.newPage();
    const tab = new Tab(this.news, page);
    this.#tabs.set(page, tab);
    const opened = tab.next("open");
    await page.goto(`${this.#location}#${encodeURIComponent(JSON.stringify({ clientID: "browser", url, options }))}`);
    await opened;
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

  constructor(news: Log<News>, page: Page) {
    this.#news = news;
    this.page = page;
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
