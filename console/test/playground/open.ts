// `open-url`: addresses that the page opens because the model wants it.

import { assert, miss, openConsole, type Page, reads, REFUSED, see, Server, test, UNREACHABLE, until } from "../browser/support.js";
import type { TestContext } from "../browser/support.js";
import { box, card, log, newSession, openPlayground, prompt, say, Site } from "./support.js";

const CLIENT = "playground-test-1";

/** The pages that were opened beside those of the test. */
function opened(page: Page): string[] {
  const urls: string[] = [];
  page.context().on("page", (view) => {
    void view.waitForURL(/^http/).then(() => urls.push(view.url()));
  });
  return urls;
}

/**
 * A playground in which nobody has done anything: its pop-ups are blocked. Whatever Playwright looks at in a page counts as
 * a click there: so the server tells how far it is.
 */
async function openUntouched(test: TestContext, server: Server): Promise<{ page: Page; id: string }> {
  const id = await newSession(server, CLIENT);
  const page = await openConsole(test, server, { page: `session/${id}`, expected: REFUSED });
  await until("the page is connected", () => isConnected(server, 1));
  return { page, id };
}

async function isConnected(server: Server, connections: number): Promise<boolean> {
  const clients = await server.get<{ connections: number; tools: number }[]>("clients");
  return clients.some((client) => client.connections === connections && client.tools === 5);
}

/** Waits until the server has seen the end of all calls. */
async function untilOver(server: Server): Promise<void> {
  await until("the call is over", async () => {
    const calls = await server.get<{ state: string }[]>("calls");
    return calls.length > 0 && calls.every(({ state }) => state === "done");
  });
}

function open(page: Page): ReturnType<Page["getByRole"]> {
  return page.getByRole("button", { name: /^Open / });
}

test("the address is opened, and the model answers from the ack", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server);
  const urls = opened(page);
  await say(page, `Open ${site.url}`);
  await see(card(page, "Open a page", "Done").getByText("Opened", { exact: true }));
  await see(log(page).getByText(/open-url answered: {"status":"success","output":{"url":"[^"]+","viewKey":"view-[0-9a-f]+"}/));
  await until("the page was opened", () => urls.length === 1);
  assert.deepEqual([urls, site.visits], [[site.url], ["/there"]]);
  // The address is text, and can be opened again.
  await see(card(page, "Open a page").getByText(site.url, { exact: true }));
  assert.equal(await card(page, "Open a page").getByRole("link", { name: site.url }).count(), 0);
  await page.bringToFront();
  await open(page).click();
  await until("it was opened again", () => site.visits.length === 2);
  await see(card(page, "Open a page").getByText("Opened", { exact: true }));
});

test("a pop-up that is blocked is a failure, and Open opens it", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const { page, id } = await openUntouched(test, server);
  await prompt(server, id, CLIENT, `Open ${site.url}`);
  await untilOver(server);
  await see(card(page, "Open a page", "Failed").getByText("The browser blocked it: press Open"));
  await see(log(page).getByText('open-url failed: {"status":"failed","errorText":"The browser blocked the pop-up'));
  assert.deepEqual(site.visits, []);
  await open(page).click();
  await until("it was opened", () => site.visits.length === 1);
  await see(card(page, "Open a page").getByText("Opened, but the call was already over"));
});

test("an older address can be opened after a reload", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const { page, id } = await openUntouched(test, server);
  await prompt(server, id, CLIENT, `Open ${site.url}`);
  await untilOver(server);
  await see(card(page, "Open a page", "Failed"));
  await page.reload();
  await see(card(page, "Open a page", "Failed").getByText("The browser blocked it: press Open"));
  await open(page).click();
  await until("it was opened", () => site.visits.length === 1);
  await see(card(page, "Open a page").getByText("Opened, but the call was already over"));
});

test("a call that waits while the page is reloaded is taken up, once", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server, { expected: UNREACHABLE });
  await page.context().route("**/api/tools/claim", (route) => route.abort());
  await say(page, `Open ${site.url}`);
  await see(card(page, "Open a page", "Running").getByText("The server could not be asked: trying again"));
  await page.reload();
  await see(card(page, "Open a page", "Running").getByText("The server could not be asked: trying again"));
  // Somebody is there again.
  await box(page).click();
  await page.context().unroute("**/api/tools/claim");
  await see(card(page, "Open a page", "Done").getByText("Opened", { exact: true }));
  await see(log(page).getByText('open-url answered: {"status":"success"'));
  assert.deepEqual(site.visits, ["/there"]);
});

test("of two tabs one opens the address: the one that somebody uses", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server, { expected: REFUSED });
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  const other = await page.context().newPage();
  await other.goto(page.url());
  await until("the other tab is connected", () => isConnected(server, 2));
  await page.bringToFront();
  await say(page, `Open ${site.url}`);
  await see(card(page, "Open a page", "Done").getByText("Opened", { exact: true }));
  await see(log(other).getByText('open-url answered: {"status":"success"'));
  assert.deepEqual(site.visits, ["/there"]);
});

test("of two tabs that somebody uses, one opens the address, and the other one says so", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server, { expected: new RegExp(`${UNREACHABLE.source}|${REFUSED.source}`) });
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  const other = await page.context().newPage();
  await other.goto(page.url());
  await see(log(other).getByText("answered: Drew a red circle"));
  await page.context().route("**/api/tools/ack", (route) => route.abort());
  await say(page, `Open ${site.url}`);
  const tabs = [page, other];
  const isOpening = async (tab: Page) => (await log(tab).getByText("Another tab is opening it").count()) === 1;
  await until("one of them has it", async () => (await Promise.all(tabs.map(isOpening))).filter(Boolean).length === 1);
  await page.context().unroute("**/api/tools/ack");
  for (const tab of tabs) await see(card(tab, "Open a page", "Done"));
  const said = () => Promise.all(tabs.map((tab) => tab.locator(".opening .note").innerText()));
  await reads(async () => (await said()).sort(), ["Another tab has opened it", "Opened"]);
  assert.deepEqual(site.visits, ["/there"]);
});

test("an ack that fails is shown, and sent again until it is taken", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server, { expected: /status of 500/ });
  const acks: string[] = [];
  let isBroken = true;
  await page.route("**/api/tools/ack", async (route) => {
    acks.push(route.request().postData() ?? "");
    await (isBroken ? route.fulfill({ status: 500, body: "{}" }) : route.continue());
  });
  await say(page, `Open ${site.url}`);
  await see(card(page, "Open a page", "Running").getByText("Opened. The server could not be told: trying again"));
  await until("it was tried more than once", () => acks.length > 1);
  isBroken = false;
  await see(card(page, "Open a page", "Done").getByText("Opened", { exact: true }));
  await see(log(page).getByText('open-url answered: {"status":"success"'));
  assert.deepEqual([new Set(acks).size, site.visits], [1, ["/there"]]);
});

test("a call that is not acked in time has timed out", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server, { expected: new RegExp(`${UNREACHABLE.source}|${REFUSED.source}`) });
  await page.route("**/api/tools/ack", (route) => route.abort());
  await say(page, `call open-url {"url":"${site.url}","timeoutSec":1}`);
  await see(card(page, "Open a page", "Timed out").getByText("Opened, but the server could not be told"));
  await see(log(page).getByText('open-url answered: {"status":"timeout"}'));
  await page.unroute("**/api/tools/ack");
  await open(page).click();
  await see(card(page, "Open a page", "Timed out").getByText("Opened, but the call was already over"));
  await page.reload();
  await see(card(page, "Open a page", "Timed out").getByText("It was not opened in time"));
});

test("a call whose turn is stopped is cancelled, and not opened later", async (test) => {
  const [server, site] = [await Server.start(test), await Site.start(test)];
  const page = await openPlayground(test, server, { expected: new RegExp(`${UNREACHABLE.source}|${REFUSED.source}`) });
  await page.route("**/api/tools/claim", (route) => route.abort());
  await say(page, `Open ${site.url}`);
  await see(card(page, "Open a page", "Running").getByText("The server could not be asked: trying again"));
  await page.getByRole("button", { name: "Stop" }).click();
  await see(card(page, "Open a page", "Cancelled"));
  await page.unroute("**/api/tools/claim");
  await see(card(page, "Open a page").getByText("The call was already over"));
  assert.deepEqual(site.visits, []);
  await miss(page.getByRole("button", { name: "Stop" }));
});
