// The connection to the server: lost, found, and behind a key.

import { createHash } from "node:crypto";

import { assert, callRows, connect, go, miss, openConsole, reads, REFUSED, see, Server, streamsOf, test, UNREACHABLE, until } from "./support.js";

const KEY = "a-key-for-the-console";
const CONFIG = `[auth]
keys = ["${createHash("sha256").update(KEY).digest("hex")}"]
tokenSecret = "${"0123456789abcdef".repeat(4)}"
`;

test("a lost connection is shown, and found again by itself", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server, { expected: new RegExp(`${UNREACHABLE.source}|${REFUSED.source}`) });
  await see(page.getByText("Connected", { exact: true }));
  await connect(server, "laptop", { wait: { run: () => new Promise<string>(() => {}) } });
  await server.execute("client_laptop_wait", { wait: false });
  await see(callRows(page).filter({ hasText: "Running" }));
  const presence = page.getByRole("region", { name: "Clients" }).locator(".badge");
  await reads(() => presence.allInnerTexts(), ["Connected"]);
  await server.stop();
  await see(page.getByRole("alert").filter({ hasText: "The connection to the server is lost." }));
  await see(page.getByText("Reconnecting", { exact: true }));
  // What was known of clients and calls before may not be so now.
  await reads(() => presence.allInnerTexts(), ["Unknown"]);
  await reads(() => callRows(page).locator(".badge").allInnerTexts(), ["Unknown"]);
  await server.restart();
  await see(page.getByText("Connected", { exact: true }));
  await reads(() => presence.allInnerTexts(), ["Connected"]);
  await miss(page.getByRole("alert"));
  // The server was told to remember nothing: what became of the call cannot be known.
  await see(callRows(page).filter({ hasText: "Unknown" }));
  await connect(server, "phone", { locate: { run: () => "here" } });
  await server.execute("client_phone_locate");
  await see(callRows(page).filter({ hasText: "locate" }).filter({ hasText: "Success" }));
});

test("there is one stream of events: of everything where that is shown, and what was not heard is read", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { hello: { run: () => "ok" }, locate: { run: () => "here" }, greet: { run: () => "hi" } });
  const page = await openConsole(test, server, { page: "" });
  await see(page.getByText("Connected", { exact: true }));
  const streams = streamsOf(page);
  await page.reload();
  await see(page.getByText("Connected", { exact: true }));
  await reads(streams.open, ["?clientID=own"]);
  await server.execute("client_laptop_hello");
  await go(page, "Live");
  await see(callRows(page).filter({ hasText: "hello" }).filter({ hasText: "Success" }));
  await reads(streams.open, [""]);
  await server.execute("client_laptop_locate");
  await see(callRows(page).filter({ hasText: "locate" }).filter({ hasText: "Success" }));
  await go(page, "Charts");
  await go(page, "Playground");
  await reads(streams.open, ["?clientID=own"]);
  await server.execute("client_laptop_greet");
  await go(page, "Live");
  await see(callRows(page).filter({ hasText: "greet" }).filter({ hasText: "Success" }));
  await reads(streams.open, [""]);
  assert.deepEqual(streams.opened, ["?clientID=own", "", "?clientID=own", ""]);
});

test("the key is asked for, kept for the tab, and sent", async (test) => {
  const server = await Server.start(test, { config: CONFIG });
  const page = await openConsole(test, server, { expected: REFUSED });
  await see(page.getByRole("heading", { name: "This server asks for a key" }));
  await page.getByLabel("Application key").fill("wrong");
  await page.keyboard.press("Enter");
  await see(page.getByText("The key was not accepted."));
  await page.getByLabel("Application key").fill(KEY);
  await page.keyboard.press("Enter");
  await see(page.getByText("Connected", { exact: true }));
  await miss(page.getByRole("dialog"));
  await connect(server, "laptop", { hello: { run: () => "ok" } }, KEY);
  await see(page.getByText("laptop", { exact: true }));
  await page.reload();
  await see(page.getByText("Connected", { exact: true }));
  await see(page.getByText("laptop", { exact: true }));
  assert.equal(await page.getByRole("dialog").count(), 0);
  // Another tab has to be told again.
  const other = await page.context().newPage();
  await other.goto(server.url);
  await see(other.getByRole("heading", { name: "This server asks for a key" }));
  await until("no address has the key", () => !page.url().includes(KEY));
});

test("a client token is not a key, and the key can be changed", async (test) => {
  const server = await Server.start(test, { config: CONFIG });
  const headers = { authorization: `Bearer ${KEY}` };
  const made = await fetch(`${server.url}/auth/client-token`, { method: "POST", headers, body: '{"clientID":"laptop"}' });
  const { token } = (await made.json()) as { token: string };
  const page = await openConsole(test, server, { expected: REFUSED });
  await page.getByLabel("Application key").fill(token);
  await page.keyboard.press("Enter");
  await see(page.getByRole("alert").filter({ hasText: "This is a client token." }).filter({ hasText: "auth.keys" }));
  await see(page.getByRole("heading", { name: "This server asks for a key" }));
  await page.getByLabel("Application key").fill(KEY);
  await page.keyboard.press("Enter");
  await miss(page.getByRole("dialog"));
  await see(page.getByText("Connected", { exact: true }));
  await page.getByRole("button", { name: "Key", exact: true }).click();
  await see(page.getByRole("heading", { name: "Change the key" }));
  await page.getByLabel("Application key").fill("wrong");
  await page.keyboard.press("Enter");
  await see(page.getByText("The key was not accepted."));
  // The old one goes on until another is good.
  await page.getByRole("button", { name: "Close" }).click();
  await miss(page.getByRole("dialog"));
  await see(page.getByText("Connected", { exact: true }));
});
