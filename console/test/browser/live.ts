// Live follows what happens.

import { assert, callFilter, callRows, connect, miss, openConsole, reads, readsText, REFUSED, see, Server, test, until } from "./support.js";

const CONFIG = `[agents.default.permission]\nclient_tools = "ask"\n`;

/** A tool that ends when the test says so. */
function held() {
  const waiting: ((output: string) => void)[] = [];
  return {
    tool: { run: () => new Promise<string>((resolve) => waiting.push(resolve)) },
    release: (output: string) => waiting.splice(0).forEach((resolve) => resolve(output)),
  };
}

test("a call is followed from its beginning to its end", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server);
  await see(page.getByText("No calls yet."));
  const { tool, release } = held();
  await connect(server, "laptop", { wait: tool });
  await see(page.getByRole("region", { name: "Clients" }).getByText("1 connection · 1 tool"));
  const call = server.execute("client_laptop_wait", { input: { a: 1 }, sessionID: "ses_7", requestID: "req_1" });
  const row = callRows(page);
  await see(row.filter({ hasText: "Running" }));
  assert.equal(await row.count(), 1);
  release("It is over.");
  assert.equal((await call).status, 200);
  await see(row.filter({ hasText: "Success" }));
  await see(row.getByText(/^[\d.]+ m?s$/));
  await reads(async () => (await row.getByRole("gridcell").allInnerTexts()).slice(1, 6), ["wait", "laptop", "ses_7", "Success", "1"]);
  await row.click();
  const dialog = page.getByRole("dialog");
  await see(dialog.getByText("It is over."));
  await readsText(dialog.getByLabel("Input"), '{\n  "a": 1\n}');
  await reads(() => dialog.locator(".timeline tbody th").allInnerTexts(), ["Approval", "Queue", "Execute"]);
  for (const time of await dialog.locator(".timeline .ms").allInnerTexts()) assert.match(time, /^[\d.]+ m?s$/);
  await dialog.getByRole("button", { name: "Close" }).click();
  await miss(dialog);
});

test("a call that waits for its client is seen to be taken", async (test) => {
  const server = await Server.start(test);
  const { tool, release } = held();
  const body = JSON.stringify({ clientID: "laptop", tools: [{ id: "wait", description: "" }] });
  await fetch(`${server.url}/client-tools/register`, { method: "POST", body });
  const page = await openConsole(test, server);
  const call = server.execute("client_laptop_wait");
  await see(callRows(page).filter({ hasText: "Queued" }));
  await connect(server, "laptop", { wait: tool });
  await see(callRows(page).filter({ hasText: "Running" }));
  release("done");
  await call;
  await see(callRows(page).filter({ hasText: "Success" }));
});

test("calls that were made before the page was opened are there, the newest first", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { one: { run: () => "1" }, two: { run: () => Promise.reject(new Error("no")) } });
  await server.execute("client_laptop_one");
  await server.execute("client_laptop_two");
  const page = await openConsole(test, server);
  const rows = async () => (await callRows(page).allInnerTexts()).map((row) => row.match(/one|two|Success|Error/g)?.join(" "));
  await reads(rows, ["two Error", "one Success"]);
});

test("several calls with the same ids are told apart", async (test) => {
  const server = await Server.start(test);
  const [first, second] = [held(), held()];
  let count = 0;
  const run = () => (count++ === 0 ? first.tool.run() : second.tool.run());
  await connect(server, "laptop", { wait: { run } });
  const page = await openConsole(test, server);
  const call = server.execute("client_laptop_wait", { requestID: "first" });
  await see(callRows(page).filter({ hasText: "Running" }));
  const later = server.execute("client_laptop_wait", { requestID: "second" });
  await until("both run", async () => (await callRows(page).filter({ hasText: "Running" }).count()) === 2);
  first.release("done");
  await call;
  // The older one is the lower one.
  await see(callRows(page).nth(1).filter({ hasText: "Success" }));
  await see(callRows(page).nth(0).filter({ hasText: "Running" }));
  second.release("done, too");
  await later;
});

test("the filter looks at names, ids, states and outcomes", async (test) => {
  const server = await Server.start(test);
  const tools = { read: { run: () => "ok" }, write: { run: () => Promise.reject(new Error("no")) } };
  await connect(server, "laptop", tools);
  await connect(server, "phone", tools);
  for (const tool of ["laptop_read", "laptop_write", "phone_read"]) await server.execute(`client_${tool}`, { sessionID: `ses_${tool}` });
  const page = await openConsole(test, server);
  const shown = async (count: number) => {
    await until(`${count} calls are shown`, async () => (await callRows(page).count()) === count);
    return (await callRows(page).getByRole("gridcell").allInnerTexts()).filter((_, index) => [1, 2].includes(index % 7));
  };
  await shown(3);
  const text = callFilter(page);
  await text.fill("PHONE read");
  assert.deepEqual(await shown(1), ["read", "phone"]);
  await see(page.getByText("1 of 3"));
  await text.fill("ses_laptop_w");
  assert.deepEqual(await shown(1), ["write", "laptop"]);
  await text.fill("nothing like it");
  await see(page.getByText("No call fits the filter."));
  await page.getByRole("button", { name: "Clear" }).click();
  await shown(3);
  await page.getByLabel("Outcome").selectOption("Error");
  assert.deepEqual(await shown(1), ["write", "laptop"]);
  await page.getByLabel("Outcome").selectOption("Every outcome");
  await page.getByLabel("State").selectOption("Running");
  await see(page.getByText("No call fits the filter."));
});

test("clients are in natural order, and can be searched", async (test) => {
  const server = await Server.start(test);
  const tools = [{ id: "hello" }];
  for (const clientID of ["client10", "client2", "phone", "client1"]) {
    await fetch(`${server.url}/client-tools/register`, { method: "POST", body: JSON.stringify({ clientID, tools }) });
  }
  const page = await openConsole(test, server);
  const card = page.getByRole("region", { name: "Clients" });
  const names = () => card.locator(".client-name").allInnerTexts();
  await reads(names, ["client1", "client2", "client10", "phone"]);
  const text = card.getByRole("searchbox", { name: "Search clients" });
  await text.fill("CLIENT 1");
  await reads(names, ["client1", "client10"]);
  await see(card.getByText("2 of 4"));
  await text.fill("tablet");
  await see(card.getByText("No client has a name like that."));
  await text.fill("");
  await reads(async () => (await names()).length, 4);
});

test("the bars of all calls have one scale", async (test) => {
  const server = await Server.start(test);
  const { tool, release } = held();
  await connect(server, "laptop", { quick: { run: () => "ok" }, slow: tool });
  const slow = server.execute("client_laptop_slow");
  // It takes longer than each of these, however slow the machine is.
  for (let index = 0; index < 10; index += 1) await server.execute("client_laptop_quick");
  release("done");
  await slow;
  const page = await openConsole(test, server);
  const widths = async (name: string) => {
    const bars = await callRows(page).filter({ hasText: name }).locator(".small-track").all();
    const shares = bars.map((bar) => bar.evaluate((track) => {
      const drawn = [...track.children].reduce((sum, { clientWidth }) => sum + clientWidth, 0);
      return drawn / track.clientWidth;
    }));
    return Promise.all(shares);
  };
  await reads(async () => (await widths("slow")).map(Math.round), [1]);
  const quick = await widths("quick");
  assert.equal(quick.length, 10);
  assert.ok(quick.some((share) => share < 0.5) && quick.every((share) => share <= 1), String(quick));
  for (const text of await callRows(page).locator(".took").allInnerTexts()) assert.match(text, /^[\d.]+ m?s$/);
});

test("a call can be cancelled", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { wait: held().tool });
  const call = server.execute("client_laptop_wait");
  const page = await openConsole(test, server);
  await callRows(page).filter({ hasText: "Running" }).click();
  await page.getByRole("button", { name: "Cancel the call" }).click();
  const { status, body } = await call;
  assert.deepEqual([status, (body as { code: string }).code], [409, "CANCELLED"]);
  await see(page.getByRole("dialog").getByText("Cancelled", { exact: true }));
  await miss(page.getByRole("button", { name: "Cancel the call" }));
  await see(page.getByRole("dialog").getByLabel("Error"));
});

test("a result that came too late is shown, and that the tool may have run", async (test) => {
  const server = await Server.start(test);
  await connect(server, "laptop", { wait: held().tool });
  const { status } = await server.execute("client_laptop_wait", { requestID: "req_late", timeout: 200 });
  assert.equal(status, 504);
  const page = await openConsole(test, server);
  await callRows(page).filter({ hasText: "Timeout" }).click();
  const dialog = page.getByRole("dialog");
  await see(dialog.getByText("The tool may have run."));
  await miss(dialog.getByRole("region", { name: "Came too late" }));
  const result = { status: "success", title: "", output: "at last" };
  const body = JSON.stringify({ requestID: "req_late", result });
  assert.equal((await fetch(`${server.url}/client-tools/result`, { method: "POST", body })).status, 410);
  await see(dialog.getByRole("region", { name: "Came too late" }).getByText("at last"));
});

for (const { button, state, output } of [
  { button: "Allow once", state: "Success", output: "completed" },
  { button: "Deny", state: "Denied", output: "error" },
]) {
  test(`an ask is answered: ${button}`, async (test) => {
    const server = await Server.start(test, { config: CONFIG });
    await connect(server, "laptop", { read: { run: () => "what is in it" } });
    const page = await openConsole(test, server);
    const post = async (path: string, body: unknown) => {
      const response = await fetch(`${server.url}/${path}`, { method: "POST", body: JSON.stringify(body) });
      return (await response.json()) as { id: string; parts: { type: string; state?: { status: string } }[] };
    };
    const session = await post("session", { clientID: "laptop" });
    const turn = post(`session/${session.id}/message`, { parts: [{ type: "text", text: 'call read {"path":"/etc"}' }] });
    const asked = page.getByRole("listitem", { name: "read on laptop" });
    await see(asked);
    await readsText(asked.getByLabel("Input of read"), '{\n  "path": "/etc"\n}');
    await see(callRows(page).filter({ hasText: "Awaiting approval" }));
    await asked.getByRole("button", { name: button }).click();
    await miss(asked);
    // The focus is not lost with the ask.
    await reads(() => page.evaluate(() => document.activeElement?.id), "main");
    await see(callRows(page).filter({ hasText: state }));
    const [row, tool] = [callRows(page), callRows(page).locator(".tool")].map((shown) => shown.boundingBox());
    assert.ok(((await tool)?.height ?? Infinity) <= ((await row)?.height ?? 0), "the name of the tool fits into its row");
    const answer = await turn;
    const part = answer.parts.find(({ type }) => type === "tool") ?? (await lastTool(server, session.id));
    assert.equal(part?.state?.status, output);
  });
}

test("asks that waited before are there, and go when they are answered elsewhere", async (test) => {
  const server = await Server.start(test, { config: CONFIG });
  await connect(server, "laptop", { read: { run: () => "ok" } });
  const create = await fetch(`${server.url}/session`, { method: "POST", body: JSON.stringify({ clientID: "laptop" }) });
  const { id } = (await create.json()) as { id: string };
  const prompt = JSON.stringify({ parts: [{ type: "text", text: "call read {}" }] });
  await fetch(`${server.url}/session/${id}/prompt_async`, { method: "POST", body: prompt });
  let asks: { id: string }[] = [];
  await until("the call is asked for", async () => {
    asks = (await (await fetch(`${server.url}/permission`)).json()) as { id: string }[];
    return asks.length === 1;
  });
  const page = await openConsole(test, server, { expected: REFUSED });
  const asked = page.getByRole("listitem", { name: "read on laptop" });
  await see(asked);
  await fetch(`${server.url}/permission/${asks[0]?.id}/reply`, { method: "POST", body: '{"reply":"once"}' });
  await miss(asked);
  await see(callRows(page).filter({ hasText: "Success" }));
});

async function lastTool(server: Server, session: string) {
  const response = await fetch(`${server.url}/session/${session}/message`);
  const messages = (await response.json()) as { parts: { type: string; state?: { status: string } }[] }[];
  return messages.flatMap(({ parts }) => parts).find(({ type }) => type === "tool");
}
