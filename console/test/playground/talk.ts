// A conversation: what is said, what comes of it, and what stays of it.

import { createHash } from "node:crypto";

import { Provider } from "../../../sdk/typescript/test/package/provider.js";
import { deferred } from "../../../sdk/typescript/test/support/patience.js";
import { SUGGESTIONS } from "../../src/playground/offer.js";
import {
  assert,
  callRows,
  go,
  miss,
  reads,
  readsText,
  REFUSED,
  see,
  Server,
  streamsOf,
  test,
  UNREACHABLE,
  until,
} from "../browser/support.js";
import { box, card, idle, log, newSession, openPlayground, prompt, say, sessionOf } from "./support.js";

test("the first visit explains itself", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await see(page.getByRole("heading", { name: "Let a model use this browser", level: 1 }));
  for (const { text } of SUGGESTIONS) await see(page.getByRole("button", { name: text }));
  await see(page.getByRole("main").getByRole("link", { name: "Live" }));
  await see(page.getByLabel("A tool of your own, in TypeScript"));
  await until("the page is a client with its tools", async () => {
    const clients = await server.get<{ connections: number; tools: number }[]>("clients");
    return clients.length === 1 && clients[0]?.connections === 1 && clients[0].tools === 5;
  });
});

test("every suggestion is answered by the tool that it is there for", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server, {
    geolocation: { latitude: 52.52, longitude: 13.405, accuracy: 20 },
    permissions: ["geolocation", "clipboard-read", "clipboard-write"],
    timezoneId: "Europe/Berlin",
  });
  // Nothing leaves the machine.
  await page.context().route("https://example.com/**", (route) => route.fulfill({ body: "there" }));
  await page.evaluate(() => navigator.clipboard.writeText("a copied text"));
  const expected: Record<(typeof SUGGESTIONS)[number]["shows"], RegExp> = {
    local_time: /local_time answered: It is .+ in the time zone Europe\/Berlin/,
    location: /location answered: Latitude 52\.52000, longitude 13\.40500, within 20 m\./,
    ask_user: /ask_user answered: The user answered: teal/,
    read_clipboard: /read_clipboard answered:\nThe clipboard has this text:\na copied text/,
    draw: /draw answered: Drew a red circle, 30 wide, around 50,30\./,
    "open-url": /open-url answered: {"status":"success","output":{"url":"https:\/\/example\.com"/,
  };
  for (const { text, shows } of SUGGESTIONS) {
    await page.bringToFront();
    await page.getByRole("button", { name: text }).click();
    assert.equal(await box(page).evaluate((element) => element === document.activeElement), true, "the box has the focus");
    if (shows === "ask_user") {
      await page.getByLabel("What is your favourite colour?").fill("teal");
      await page.keyboard.press("Enter");
    }
    await see(log(page).getByText(expected[shows]));
    await see(log(page).getByText("demo/scripted"));
    if (shows === "ask_user") await see(card(page, "Ask the user", "Done").getByText(/^[\d.]+ m?s$/));
    await page.getByRole("button", { name: "New conversation" }).click();
    await see(page.getByRole("button", { name: text }));
  }
});

test("of two tabs of a conversation, the one in which something is said does what it takes", async (test) => {
  const server = await Server.start(test);
  const first = await openPlayground(test, server);
  await say(first, "Draw a red circle");
  await see(log(first).getByText("answered: Drew a red circle"));
  const second = await first.context().newPage();
  await second.goto(first.url());
  await see(log(second).getByText("answered: Drew a red circle"));
  await until("both offer their tools", async () => {
    const [client] = await server.get<{ connections: number }[]>("clients");
    return client?.connections === 2;
  });
  const tabs = { first, second };
  // The time that each tab tells is the name of the tab.
  for (const [name, tab] of Object.entries(tabs)) await tab.evaluate((name) => (Date.prototype.toISOString = () => name), name);
  for (let round = 0; round < 4; round += 1) {
    for (const [name, tab] of Object.entries(tabs)) {
      await say(tab, "What time is it here?");
      await see(log(tab).getByText(new RegExp(`local_time answered: It is .+\\(${name}\\)`)).nth(round));
    }
  }
});

test("a reload shows the same conversation, and so does another tab", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  await say(page, "Draw a blue square");
  await see(log(page).getByText("answered: Drew a blue square"));
  await idle(page);
  const shown = await log(page).innerText();
  await page.reload();
  await see(log(page).getByText("answered: Drew a blue square"));
  await readsText(log(page), shown);
  const drawn = "A drawing: a red circle, 30 wide, around 50,30; a blue square, 30 wide, around 50,30";
  await see(page.getByRole("img", { name: drawn }));
  const other = await page.context().newPage();
  await other.goto(page.url());
  await see(log(other).getByText("answered: Drew a blue square"));
  await readsText(log(other), shown);
  await say(other, "Draw a green line");
  await see(log(page).getByText("answered: Drew a green line"));
  // The other pages are a detour.
  await go(page, "Live");
  await go(page, "Playground");
  await see(log(page).getByText("answered: Drew a green line"));
  await page.getByRole("button", { name: "New conversation" }).click();
  await miss(log(page));
  await page.reload();
  await see(page.getByRole("heading", { name: "Let a model use this browser" }));
  await page.goBack();
  await see(log(page).getByText("answered: Drew a green line"));
});

test("tools are said to be offered when they can be called", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  const held = deferred();
  await page.routeWebSocket(/client-tools/, async (socket) => {
    await held.promise;
    socket.connectToServer();
  });
  await page.reload();
  await see(page.getByText("This page is about to offer its tools as"));
  const isConnected = async () => (await server.get<{ connections: number }[]>("clients")).some((client) => client.connections > 0);
  await reads(isConnected, false);
  held.resolve();
  await see(page.getByText("This page offers its tools as"));
  assert.equal(await isConnected(), true);
});

test("a tab has one stream of events, of its conversation, and one socket", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  const streams = streamsOf(page);
  await page.reload();
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  const own = `?sessionID=${await sessionOf(page)}`;
  await reads(streams.open, [own]);
  assert.deepEqual(streams.opened.splice(0), ["?clientID=own", own]);
  const opened: string[] = [];
  page.on("request", (request) => opened.push(new URL(request.url()).pathname));
  const sockets: string[] = [];
  page.on("websocket", (socket) => sockets.push(socket.url()));
  await page.reload();
  await say(page, "What time is it here?");
  await see(log(page).getByText("local_time answered"));
  assert.deepEqual(opened.filter((path) => path === "/client-tools/clients"), [], "what is not shown is not read");
  await go(page, "Live");
  await see(callRows(page).filter({ hasText: "local_time" }).filter({ hasText: "Success" }));
  await go(page, "Playground");
  await say(page, "Draw a blue square");
  await see(log(page).getByText("answered: Drew a blue square"));
  await reads(streams.open, [own]);
  assert.deepEqual([streams.opened, sockets.length], [[own, "", own], 1]);
});

test("Shift and Enter begin a new line, Enter sends", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await box(page).click();
  await page.keyboard.type("call draw {\"shape\":\"circle\"}");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("call draw {\"shape\":\"line\"}");
  await page.keyboard.press("Enter");
  await see(card(page, "Draw", "Done").nth(1));
  await readsText(log(page).locator(".said"), 'You said:\ncall draw {"shape":"circle"}\ncall draw {"shape":"line"}');
  await reads(() => box(page).inputValue(), "");
});

test("what a model writes is shown as it is written: thoughts, arguments, text, and its name", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  const page = await openPlayground(test, server);
  await say(page, "Draw something");
  const first = await provider.asked();
  const clientID = (await server.get<{ id: string }[]>("clients"))[0]?.id ?? "";
  first.thinks("A circle?");
  await see(page.getByText("Thoughts"));
  first.calls('{"shape":"cir', `client_${clientID}_draw`);
  const written = page.getByLabel("Arguments of Draw, as they are written");
  await see(written.getByText('{"shape":"cir', { exact: true }));
  await see(card(page, "Draw", "Being written"));
  first.calls('cle"}');
  await see(written.getByText('{"shape":"circle"}', { exact: true }));
  first.ends("tool_calls");
  await see(page.getByRole("img", { name: "A drawing: a black circle" }));
  const second = await provider.asked();
  second.says("It is **ro");
  await see(log(page).getByText("It is **ro"));
  second.says("und**, see https://example.com/a?b. And `code`.");
  second.ends();
  await see(log(page).getByText("It is round, see https://example.com/a?b. And code."));
  assert.equal(await log(page).getByRole("link", { name: "example.com" }).getAttribute("href"), "https://example.com/a?b");
  await see(log(page).getByText("local/any"));
});

test("a reload in the midst of an answer goes on with it", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  const page = await openPlayground(test, server);
  await say(page, "Tell me something");
  const speech = await provider.asked();
  speech.says("One, ");
  await see(log(page).getByText("One,"));
  await page.reload();
  await see(page.getByRole("button", { name: "Stop" }));
  speech.says("two, ");
  await see(log(page).getByText("One, two,"));
  speech.says("three.");
  speech.ends();
  await see(log(page).getByText("One, two, three.", { exact: true }));
  await idle(page);
});

test("Stop ends the turn, and cancels its calls", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await say(page, 'Ask me "Why?"');
  await see(page.getByLabel("Why?"));
  await page.getByRole("button", { name: "Stop" }).click();
  await see(card(page, "Ask the user", "Cancelled"));
  await see(log(page).getByText("Stopped · demo/scripted"));
  await miss(page.getByLabel("Why?"));
  await idle(page);
});

test("Stop while a message is being sent stops the turn as soon as the server has it", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  let letGo = () => {};
  const isHeld = new Promise<void>((held) => {
    void page.route("**/prompt_async", async (route) => {
      held();
      await new Promise<void>((resolve) => (letGo = resolve));
      await route.continue();
    });
  });
  await say(page, 'Ask me "Why?"');
  await isHeld;
  await page.getByRole("button", { name: "Stop" }).click();
  letGo();
  await see(log(page).getByText("Stopped · demo/scripted"));
  await idle(page);
});

test("a conversation that is deleted under way is over", async (test) => {
  const server = await Server.start(test);
  // Its calls are gone with it.
  const page = await openPlayground(test, server, { expected: REFUSED });
  await say(page, 'Ask me "Why?"');
  await see(page.getByLabel("Why?"));
  await fetch(`${server.url}/session/${encodeURIComponent(await sessionOf(page))}`, { method: "DELETE" });
  await see(log(page).getByText("The server does not know this conversation"));
  await idle(page);
  await miss(page.getByRole("alert"));
  await log(page).getByRole("button", { name: "New conversation" }).click();
  await see(page.getByRole("heading", { name: "Let a model use this browser" }));
});

test("a question survives a reload", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await say(page, 'Ask me "What is your name?"');
  await page.getByLabel("What is your name?").fill("half of it");
  await page.reload();
  await page.getByLabel("What is your name?").fill("Ada");
  await page.getByRole("button", { name: "Answer" }).click();
  await see(log(page).getByText("ask_user answered: The user answered: Ada"));
  const calls = await server.get<{ attempt: number }[]>("calls");
  assert.deepEqual(calls.map(({ attempt }) => attempt), [2]);
});

test("a question can be answered in any tab that shows its conversation, and in no other", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  const [same, another] = [await page.context().newPage(), await page.context().newPage()];
  await same.goto(page.url());
  await see(log(same).getByText("answered: Drew a red circle"));
  await another.goto(server.url);
  await see(another.getByText("Connected", { exact: true }));
  for (const [number, answering] of [same, page].entries()) {
    await say(page, 'Ask me "Which tab?"');
    await see(page.getByLabel("Which tab?"));
    await see(same.getByLabel("Which tab?"));
    await answering.getByLabel("Which tab?").fill(`number ${number}`);
    await answering.keyboard.press("Enter");
    for (const tab of [page, same]) await see(log(tab).getByText(`ask_user answered: The user answered: number ${number}`));
  }
  await see(another.getByRole("heading", { name: "Let a model use this browser" }));
});

test("what the browser does not allow is an error that says so", async (test) => {
  const server = await Server.start(test);
  // No permission is granted, and there is nobody to be asked.
  const page = await openPlayground(test, server);
  await say(page, "Where in the world am I?");
  await see(card(page, "Location", "Failed").getByText("The location was not told: the user, or the browser, did not allow it."));
  await see(log(page).getByText("location failed: The location was not told"));
  await page.context().grantPermissions([]);
  await say(page, "What is in my clipboard?");
  const clipboard = card(page, "Read the clipboard", "Failed");
  await see(clipboard.getByText("The clipboard was not read: the user, or the browser, did not allow it."));
});

test("a server that is away is said, the text is kept, and what the server forgot is said too", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server, { expected: new RegExp(`${UNREACHABLE.source}|${REFUSED.source}|WebSocket`) });
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  await idle(page);
  await server.stop();
  await see(page.getByText("The connection to the server is lost."));
  await say(page, "Draw a blue square");
  await see(page.getByRole("alert").filter({ hasText: "The server cannot be reached. See that it runs" }));
  await reads(() => box(page).inputValue(), "Draw a blue square");
  await server.restart();
  // It keeps nothing.
  await see(log(page).getByText("The server does not know this conversation"));
  await miss(page.getByRole("alert"));
  await box(page).press("Enter");
  assert.deepEqual([await box(page).inputValue(), await page.getByRole("button", { name: "Send" }).isDisabled()], ["Draw a blue square", true]);
  await log(page).getByRole("button", { name: "New conversation" }).click();
  await say(page, "Draw a blue square");
  await see(log(page).getByText("answered: Drew a blue square"));
});

test("behind a key, all of it works with the key", async (test) => {
  const KEY = "a-key-for-the-playground";
  const server = await Server.start(test, { config: `[auth]\nkeys = ["${createHash("sha256").update(KEY).digest("hex")}"]\n` });
  const page = await openPlayground(test, server, { expected: REFUSED }, KEY);
  await page.context().route("https://example.com/**", (route) => route.fulfill({ body: "there" }));
  await say(page, "Draw a red circle");
  await see(log(page).getByText("answered: Drew a red circle"));
  await say(page, "Open https://example.com");
  await see(log(page).getByText("Opened", { exact: true }));
});

test("a model that fails is an error that says so", async (test) => {
  const provider = await Provider.start(test);
  provider.failure = { status: 400, message: "<b>no such model</b>" };
  const server = await Server.start(test, { config: provider.config });
  const page = await openPlayground(test, server);
  await say(page, "Hello");
  await see(log(page).getByRole("alert").filter({ hasText: "<b>no such model</b>" }));
  await idle(page);
});

test("a conversation of another client can be shown, but this page does not take its place", async (test) => {
  const server = await Server.start(test);
  const id = await newSession(server, "laptop");
  await prompt(server, id, "laptop", "Hello");
  const page = await openPlayground(test, server, { page: `session/${id}` });
  await see(log(page).getByText("I am the scripted demo model."));
  assert.equal(await sessionOf(page), id);
  assert.deepEqual(await server.get<unknown[]>("clients"), []);
});
