// Charts count what Live follows.

import { assert, connect, go, openConsole, reads, see, Server, test, until } from "./support.js";

test("calls, outcomes and times are charted, before and after the page was opened", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { good: { run: () => "ok" }, bad: { run: () => Promise.reject(new Error("no")) } });
  for (let index = 0; index < 3; index += 1) await server.execute("client_laptop_good");
  const page = await openConsole(test, server, { page: "charts" });
  await see(page.getByText(/^3 calls/));
  await see(page.getByText("100 % succeeded"));
  await server.execute("client_laptop_bad");
  await see(page.getByText(/^4 calls/));
  await see(page.getByText("75.0 % succeeded"));
  const outcomes = page.getByRole("region", { name: "Outcomes", exact: true });
  const legend = async () => (await outcomes.locator(".legend li").allInnerTexts()).map((text) => text.trim());
  await reads(legend, ["Success 3", "Error 1"]);
  await see(page.getByRole("region", { name: "Time to execute", exact: true }).getByText(/^p50 [\d.]+ ms · p95 [\d.]+ ms$/));
  await see(page.getByRole("region", { name: "Time to approval", exact: true }).getByText("no call needed approval"));
  await page.getByText("15 min").click();
  await see(page.getByText(/^4 calls/));
  const bars = await page.locator(".area.made").getAttribute("d");
  assert.match(bars ?? "", /^M/);
  for (const title of ["Calls made", "Outcomes"]) {
    const axis = await page.getByRole("region", { name: title, exact: true }).locator(".axis").allInnerTexts();
    assert.ok(axis.length === 2 && axis.every((text) => /^[1-9]\d*$/.test(text)), `${title}: ${axis}`);
  }
});

test("a point says its values, and a call that was denied has no time to execute", async (test) => {
  const server = await Server.start(test, { config: `[agents.default.permission]\nclient_tools = "ask"\n` });
  await connect(server, "laptop", { read: { run: () => "ok" } });
  const post = async (path: string, body: unknown) => {
    const response = await fetch(`${server.url}/${path}`, { method: "POST", body: JSON.stringify(body) });
    return (await response.json().catch(() => undefined)) as { id: string };
  };
  const session = await post("session", { clientID: "laptop" });
  const turn = post(`session/${session.id}/message`, { parts: [{ type: "text", text: "call read {}" }] });
  const page = await openConsole(test, server);
  await page.getByRole("button", { name: "Deny" }).click();
  await turn;
  await go(page, "Charts");
  const chart = (name: string) => page.getByRole("region", { name, exact: true });
  await see(chart("Time to approval").getByText(/^p50 [\d.]+ m?s/));
  await see(chart("Time to execute").getByText("no call was executed"));
  // Its dot can be seen, and pointed at.
  const dots = chart("Time to approval").locator(".p95 .dots");
  assert.ok((await dots.evaluate((dot) => Number.parseFloat(getComputedStyle(dot).strokeWidth))) >= 6);
  await until("the point under the mouse is the call's", async () => {
    const box = await dots.boundingBox();
    if (box) await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    return /p50 [\d.]+ m?s/.test((await chart("Time to approval").locator(".tip").allInnerTexts()).join(" "));
  });
});
