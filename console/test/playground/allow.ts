// Calls that somebody has to allow.

import { assert, miss, readsText, REFUSED, see, Server, test } from "../browser/support.js";
import { ASK, card, log, openPlayground, say, Site } from "./support.js";

test("a call that is approved runs; one that is always approved is not asked for again", async (test) => {
  const server = await Server.start(test, { config: ASK });
  const page = await openPlayground(test, server);
  await say(page, "Draw a red circle");
  const waiting = card(page, "Draw", "Waits for you");
  await see(waiting);
  await readsText(waiting.getByLabel("Arguments of Draw"), JSON.stringify({ shape: "circle", color: "red" }, null, 2));
  await waiting.getByRole("button", { name: "Approve" }).click();
  await see(log(page).getByText("answered: Drew a red circle"));
  await say(page, "Draw a blue square");
  await page.getByRole("button", { name: "Always" }).click();
  await see(log(page).getByText("answered: Drew a blue square"));
  await say(page, "Draw a green line");
  await see(log(page).getByText("answered: Drew a green line"));
  assert.equal(await waiting.count(), 0);
});

test("a call that is denied does not run, and the model reads the reason", async (test) => {
  const server = await Server.start(test, { config: ASK });
  const page = await openPlayground(test, server);
  await say(page, "Draw a red circle");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.getByLabel("Reason, for the model").fill("I do not like red.");
  await page.keyboard.press("Enter");
  await see(card(page, "Draw", "Denied").getByText("I do not like red."));
  await see(log(page).getByText("draw failed: I do not like red."));
  await say(page, "Draw a blue circle");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.getByRole("button", { name: "Deny it" }).click();
  await see(card(page, "Draw", "Denied").nth(1));
  assert.equal(await page.getByRole("img", { name: "A drawing" }).count(), 0);
  await page.reload();
  await see(card(page, "Draw", "Denied").nth(1));
});

test("arguments can be edited; what does not fit is said, by the page or by the server", async (test) => {
  const server = await Server.start(test, { config: ASK });
  const page = await openPlayground(test, server, { expected: REFUSED });
  await say(page, "Draw a red circle");
  await page.getByRole("button", { name: "Edit" }).click();
  const text = page.getByLabel("Arguments, as JSON");
  const approve = page.getByRole("button", { name: "Approve with these" });
  await text.fill("{shape}");
  await approve.click();
  await see(page.getByRole("alert").filter({ hasText: "This is no JSON" }));
  await text.fill('["circle"]');
  await approve.click();
  await see(page.getByRole("alert").filter({ hasText: "The arguments are a JSON object" }));
  await text.fill('{"shape":"elephant"}');
  await approve.click();
  await see(page.getByRole("alert").filter({ hasText: "shape" }));
  await text.fill('{"shape":"triangle","color":"teal"}');
  await approve.click();
  await see(log(page).getByText("answered: Drew a teal triangle"));
  await see(page.getByRole("img", { name: "A drawing: a teal triangle, 30 wide, around 50,30" }));
});

test("an ask is there after a reload, and open-url is asked for like any other", async (test) => {
  const [server, site] = [await Server.start(test, { config: ASK }), await Site.start(test)];
  const page = await openPlayground(test, server);
  await say(page, `Open ${site.url}`);
  await see(card(page, "Open a page", "Waits for you"));
  await page.reload();
  await see(card(page, "Open a page", "Waits for you"));
  assert.deepEqual(site.visits, []);
  await page.getByRole("button", { name: "Approve" }).click();
  await see(card(page, "Open a page", "Done").getByText("Opened", { exact: true }));
  await see(log(page).getByText('open-url answered: {"status":"success"'));
  assert.deepEqual(site.visits, ["/there"]);
});

test("an ask that is answered elsewhere is gone here", async (test) => {
  const server = await Server.start(test, { config: ASK });
  const page = await openPlayground(test, server);
  await say(page, "Draw a red circle");
  await see(card(page, "Draw", "Waits for you"));
  const [ask] = (await (await fetch(`${server.url}/permission`)).json()) as { id: string }[];
  await fetch(`${server.url}/permission/${ask?.id}/reply`, { method: "POST", body: JSON.stringify({ reply: "once" }) });
  await see(log(page).getByText("answered: Drew a red circle"));
  await miss(page.getByRole("button", { name: "Approve" }));
});
