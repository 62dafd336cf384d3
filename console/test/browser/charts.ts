// Charts count what Live follows.

import { assert, connect, openConsole, reads, see, Server, test } from "./support.js";

test("calls, outcomes and times are charted, before and after the page was opened", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { good: { run: () => "ok" }, bad: { run: () => Promise.reject(new Error("no")) } });
  for (let index = 0; index < 3; index += 1) await server.execute("client_laptop_good");
  const page = await openConsole(test, server, { page: "charts" });
  await see(page.getByText("3 calls"));
  await see(page.getByText("100 % succeeded"));
  await server.execute("client_laptop_bad");
  await see(page.getByText("4 calls"));
  await see(page.getByText("75.0 % succeeded"));
  const outcomes = page.getByRole("region", { name: "Outcomes", exact: true });
  const legend = async () => (await outcomes.locator(".legend li").allInnerTexts()).map((text) => text.trim());
  await reads(legend, ["Success 3", "Error 1"]);
  await see(page.getByRole("region", { name: "Time to execute", exact: true }).getByText(/^p50 [\d.]+ ms · p95 [\d.]+ ms$/));
  await see(page.getByRole("region", { name: "Time to approval", exact: true }).getByText("no call was asked for"));
  await page.getByText("15 min").click();
  await see(page.getByText("4 calls"));
  const bars = await page.locator(".area.rate").getAttribute("d");
  assert.match(bars ?? "", /^M/);
});
