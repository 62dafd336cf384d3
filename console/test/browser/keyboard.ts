// Everything can be done without a mouse, and is named for those who do not see it.

import { assert, callRows, connect, go, miss, openConsole, type Page, reads, see, Server, test, until } from "./support.js";

test("a call is found, opened and cancelled by keys alone", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { wait: { run: () => new Promise<string>(() => {}) }, quick: { run: () => "ok" } });
  const cancelled = server.execute("client_laptop_wait");
  await until("it runs", async () => (await server.get<unknown[]>("calls?state=offered")).length === 1);
  for (let index = 0; index < 30; index += 1) await server.execute("client_laptop_quick");
  const page = await openConsole(test, server, { page: "" });
  await see(page.getByText("Connected", { exact: true }));
  await page.keyboard.press("Tab");
  await reads(() => focused(page), "Skip to the content");
  await page.keyboard.press("Enter");
  await reads(() => page.evaluate(() => document.activeElement?.id), "main");
  await tabTo(page, "Live", "Shift+Tab");
  await page.keyboard.press("Enter");
  await see(callRows(page));
  await reads(() => page.evaluate(() => document.activeElement?.id), "main");
  await tabTo(page, "Calls, the newest first", "Tab");
  await page.keyboard.press("End");
  const chosen = page.locator('[role=row][aria-selected="true"]');
  await see(chosen.filter({ hasText: "wait" }));
  await reads(() => page.getByRole("grid").getAttribute("aria-activedescendant"), await chosen.getAttribute("id"));
  await page.keyboard.press("ArrowUp");
  await see(chosen.filter({ hasText: "quick" }));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  // Or the first Tab is one in the page, and the dialog gives the focus back to where that led.
  await see(page.getByRole("dialog"));
  await tabTo(page, "Cancel the call", "Tab");
  await page.keyboard.press("Enter");
  await see(page.getByRole("dialog").getByText("Cancelled", { exact: true }));
  await cancelled;
  await reads(() => focused(page), "Close");
  await page.keyboard.press("Escape");
  await miss(page.getByRole("dialog"));
  // The browser gives the focus back to where it was.
  await reads(() => focused(page), "Calls, the newest first");
});

test("what is focused can be seen", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server);
  await see(page.getByText("Connected", { exact: true }));
  for (let index = 0; index < 10; index += 1) {
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement ?? document.body).outlineStyle);
    assert.notEqual(outline, "none", await focused(page));
  }
});

test("pages have landmarks, changes are said, tables have headers", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { quick: { run: () => "ok" } });
  await server.execute("client_laptop_quick");
  const page = await openConsole(test, server);
  await see(callRows(page));
  for (const role of ["banner", "navigation", "main", "status", "search", "grid"] as const) {
    await reads(async () => [role, await page.getByRole(role).count()], [role, 1]);
  }
  await reads(() => page.getByRole("heading", { level: 1 }).count(), 1);
  await reads(() => page.getByRole("link", { name: "Live" }).getAttribute("aria-current"), "page");
  await reads(() => page.getByRole("columnheader").count(), 7);
  await reads(() => page.getByRole("grid").getAttribute("aria-rowcount"), "2");
  await see(page.getByRole("status").filter({ hasText: "Connected" }));
  await go(page, "Charts");
  await page.getByText("As a table").first().click();
  const table = page.getByRole("region", { name: "Calls made, as a table" });
  await see(table);
  await reads(() => table.getByRole("columnheader").allInnerTexts(), ["Time", "Calls"]);
  await reads(() => table.getByRole("rowheader").count(), 60);
});

/** The name of what has the focus. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement;
    return element?.getAttribute("aria-label") ?? element?.textContent ?? "";
  });
}

async function tabTo(page: Page, name: string, key: string): Promise<void> {
  const passed: string[] = [];
  while ((await focused(page)) !== name) {
    passed.push(await focused(page));
    if (passed.length > 30) throw new Error(`there is no way to "${name}": ${passed.join(", ")}`);
    await page.keyboard.press(key);
  }
}
