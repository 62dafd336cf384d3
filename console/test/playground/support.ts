// A playground in a real Chromium, and what it is asked to open.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { type Locator, openConsole, type Page, see, type Server, type TestContext, until } from "../browser/support.js";

export const ASK = `[agents.default.permission]\nclient_tools = "ask"\n`;

/** Opens the playground, ready to be spoken to. */
export async function openPlayground(
  test: TestContext,
  server: Server,
  options: Parameters<typeof openConsole>[2] = {},
  key?: string,
): Promise<Page> {
  const page = await openConsole(test, server, { page: "", ...options });
  if (key !== undefined) {
    await page.getByLabel("Application key").fill(key);
    await page.keyboard.press("Enter");
  }
  await see(page.getByText("Connected", { exact: true }));
  return page;
}

/** Says something, by keyboard, once the turn before has ended. */
export async function say(page: Page, text: string): Promise<void> {
  await box(page).fill(text);
  await idle(page);
  await box(page).press("Enter");
}

/** Waits until no turn is under way: the last words of one are shown before it ends, and Enter sends nothing until then. */
export async function idle(page: Page): Promise<void> {
  await see(page.getByRole("button", { name: "Send" }));
}

export function box(page: Page): Locator {
  return page.getByRole("textbox", { name: "Message" });
}

export function log(page: Page): Locator {
  return page.getByRole("log");
}

/** The card of a call, by the title of its tool and how it stands. */
export function card(page: Page, title: string, word = ""): Locator {
  return page.getByRole("article", { name: `${title}: ${word}` });
}

/** The session that the page shows, by its address. */
export async function sessionOf(page: Page): Promise<string> {
  await until("the address names the session", () => page.url().includes("#/session/"));
  return decodeURIComponent(page.url().split("#/session/")[1] ?? "");
}

/** A page of the web, as far as the tests are concerned. */
export class Site {
  static async start(test: TestContext): Promise<Site> {
    const site = new Site();
    const server = createServer((request, response) => {
      if (request.url !== "/favicon.ico") site.visits.push(request.url ?? "");
      response.writeHead(200, { "content-type": "text/html" });
      response.end('<!doctype html><link rel="icon" href="data:,"><title>A page</title><h1>A page</h1>');
    });
    await new Promise<void>((listens) => server.listen(0, "127.0.0.1", listens));
    test.after(() => {
      server.closeAllConnections();
      server.close();
    });
    site.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/there`;
    return site;
  }

  url = "";
  readonly visits: string[] = [];
}

/** Says something in the name of the session's client, without anybody at the page. */
export async function prompt(server: Server, sessionID: string, clientID: string, text: string): Promise<void> {
  const body = { parts: [{ type: "text", text }], clientID, tools: { "open-url": true } };
  const path = `${server.url}/session/${encodeURIComponent(sessionID)}/prompt_async`;
  const response = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
}

/** A session that a playground may show. */
export async function newSession(server: Server, clientID: string): Promise<string> {
  const response = await fetch(`${server.url}/session`, { method: "POST", body: JSON.stringify({ clientID }) });
  return ((await response.json()) as { id: string }).id;
}
