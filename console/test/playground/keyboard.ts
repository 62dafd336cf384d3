// The playground without a mouse, and without eyes.

import { assert, type Page, reads, see, Server, test, until } from "../browser/support.js";
import { ASK, card, idle, log, openPlayground, say, Site } from "./support.js";

/** Goes to what has this name, by the tab key alone. */
async function tabTo(page: Page, name: string | RegExp, key = "Tab"): Promise<void> {
  const passed: string[] = [];
  const isThere = (text: string) => (typeof name === "string" ? text === name : name.test(text));
  for (let at = await focused(page); !isThere(at); at = await focused(page)) {
    passed.push(at);
    if (passed.length > 40) throw new Error(`there is no way to "${name}": ${passed.join(", ")}`);
    await page.keyboard.press(key);
  }
}

function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement as HTMLInputElement | null;
    return (element?.getAttribute("aria-label") ?? element?.labels?.[0]?.textContent ?? element?.textContent ?? "").trim();
  });
}

test("everything can be done by keyboard", async (test) => {
  const [server, site] = [await Server.start(test, { config: ASK }), await Site.start(test)];
  const page = await openPlayground(test, server);
  await tabTo(page, "Draw a red circle");
  await page.keyboard.press("Enter");
  await reads(() => focused(page), "Message");
  await see(card(page, "Draw", "Waits for you"));
  await reads(() => focused(page), "Message");
  await tabTo(page, "Edit", "Shift+Tab");
  await page.keyboard.press("Enter");
  await reads(() => focused(page), "Arguments, as JSON");
  await page.keyboard.press("Control+A");
  await page.keyboard.type('{"shape":"square"}');
  await tabTo(page, "Approve with these");
  await page.keyboard.press("Enter");
  await see(log(page).getByText("answered: Drew a black square"));
  // The card's form is gone, the focus is not.
  await reads(() => focused(page), "Message");
  await page.keyboard.type('Ask me "Who?"');
  await idle(page);
  await page.keyboard.press("Enter");
  await see(card(page, "Ask the user", "Waits for you"));
  await tabTo(page, "Approve", "Shift+Tab");
  await page.keyboard.press("Enter");
  await see(page.getByLabel("Who?"));
  await reads(() => focused(page), "Message");
  await tabTo(page, "Who?", "Shift+Tab");
  await page.keyboard.type("Me");
  await page.keyboard.press("Enter");
  await see(log(page).getByText("ask_user answered: The user answered: Me"));
  await reads(() => focused(page), "Message");
  await page.keyboard.type(`Open ${site.url}`);
  await idle(page);
  await page.keyboard.press("Enter");
  await see(card(page, "Open a page", "Waits for you"));
  await tabTo(page, "Deny", "Shift+Tab");
  await page.keyboard.press("Enter");
  await until("the reason has the focus", async () => (await focused(page)).startsWith("Reason, for the model"));
  await tabTo(page, "Back");
  await page.keyboard.press("Enter");
  await reads(() => focused(page), "Message");
  await tabTo(page, "Always", "Shift+Tab");
  await page.keyboard.press("Enter");
  await see(card(page, "Open a page", "Done").getByText("Opened", { exact: true }));
  await page.bringToFront();
  await tabTo(page, /^Open http/, "Shift+Tab");
  await page.keyboard.press("Enter");
  await until("it was opened twice", () => site.visits.length === 2);
  await page.bringToFront();
  await tabTo(page, "New conversation", "Shift+Tab");
  await page.keyboard.press("Enter");
  await reads(() => focused(page), "Message");
  await see(page.getByRole("button", { name: "Draw a red circle" }));
});

test("the conversation is a log that is read out, and everything has a name", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await reads(() => page.getByRole("heading", { level: 1 }).count(), 1);
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  await reads(() => log(page).getAttribute("aria-live"), "polite");
  await reads(() => page.getByRole("heading", { level: 1 }).count(), 1);
  const nameless = await page
    .getByRole("main")
    .locator("button, input, textarea, a, canvas, article, pre")
    .evaluateAll((all) => all.filter((element) => !(element.getAttribute("aria-label") ?? element.textContent)?.trim()).length);
  assert.equal(nameless, 0);
});
