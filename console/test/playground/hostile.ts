// Nothing that a model or a tool says is run, or opened.

import { Provider } from "../../../sdk/typescript/test/package/provider.js";
import { assert, type Page, see, Server, test } from "../browser/support.js";
import { ASK, box, card, log, newSession, openPlayground, prompt, say } from "./support.js";

const IMAGE = `<img src=x onerror="document.title='broken'">`;
const SCRIPT = `</script><script>document.title='broken'</script>`;

async function isUnharmed(page: Page): Promise<void> {
  assert.equal(await page.title(), "Playground · Handback");
  assert.equal(await page.locator("main img, main iframe, main script").count(), 0);
  const links = await page.getByRole("main").getByRole("link").evaluateAll((all) => all.map((link) => link.getAttribute("href") ?? ""));
  assert.deepEqual(links.filter((href) => !/^(https?:\/\/|#\/)/.test(href)), []);
}

test("what a model says is text", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  const page = await openPlayground(test, server);
  await say(page, IMAGE);
  const speech = await provider.asked();
  speech.thinks(SCRIPT);
  speech.says(`${IMAGE} [click](javascript:alert(1)) javascript:alert(2) **${SCRIPT}** \`${IMAGE}\`\n\`\`\`html\n${IMAGE}\n\`\`\``);
  speech.ends();
  await see(log(page).getByText("[click](javascript:alert(1))"));
  await see(log(page).locator("code").getByText(IMAGE));
  await see(log(page).getByLabel("Code", { exact: true }).getByText(IMAGE));
  await see(log(page).locator(".said").getByText(IMAGE));
  await isUnharmed(page);
});

test("what tools are given and give is text", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await say(page, `call ask_user ${JSON.stringify({ question: IMAGE })}`);
  await page.getByLabel(IMAGE).fill(SCRIPT);
  await page.keyboard.press("Enter");
  await see(card(page, "Ask the user", "Done").getByText(`The user answered: ${SCRIPT}`));
  await say(page, `call draw ${JSON.stringify({ shape: "text", text: IMAGE, x: "here" })}`);
  await see(card(page, "Draw", "Failed"));
  await say(page, `call draw ${JSON.stringify({ shape: "text", text: IMAGE })}`);
  await see(page.getByRole("img", { name: "A drawing" }));
  await page.getByText("Details of").first().click();
  await isUnharmed(page);
});

test("only addresses of the web are opened, or can be", async (test) => {
  // The tool of the server refuses others by its schema; this one lets everything through.
  const tool = `[tools.open-url]\nexecutionMode = "frontend"\ndescription = "Opens"\nparameters = { type = "object" }\n`;
  const server = await Server.start(test, { config: tool });
  const page = await openPlayground(test, server);
  const urls = [
    "javascript:document.title='broken'",
    " JavaScript:alert(1)",
    "blob:https://example.com/1",
    "//example.com",
    "file:///etc/passwd",
  ];
  for (const url of [...urls, IMAGE]) {
    await say(page, `call open-url ${JSON.stringify({ url })}`);
    const last = card(page, "Open a page", "Failed").last();
    await see(last.locator(".address").getByText(url.trim(), { exact: true }));
    await see(last.getByText(/Not opened: (only http: and https: are opened|.+ is not a whole URL)/));
  }
  // Events do not carry data URLs: what is shown of one is a link to the call, and that is no address of the web either.
  await say(page, `call open-url ${JSON.stringify({ url: `data:text/html,${SCRIPT}` })}`);
  await see(card(page, "Open a page", "Failed").nth(urls.length + 1));
  assert.equal(await page.getByRole("button", { name: /^Open/ }).count(), 0);
  assert.equal(page.context().pages().length, 1);
  await isUnharmed(page);
});

test("what the server refuses to open is an error", async (test) => {
  const server = await Server.start(test);
  const page = await openPlayground(test, server);
  await say(page, `call open-url {"url":"javascript:alert(1)"}`);
  await see(card(page, "Open a page", "Failed").locator(".address").getByText("javascript:alert(1)"));
  assert.equal(await page.getByRole("button", { name: /^Open/ }).count(), 0);
  await isUnharmed(page);
});

test("what somebody is asked to allow is text, too, and marks cannot turn it around", async (test) => {
  const server = await Server.start(test, { config: ASK });
  const id = await newSession(server, "playground-test-1");
  const page = await openPlayground(test, server, { page: `session/${id}` });
  await see(page.getByText("This page offers its tools as playground-test-1"));
  await prompt(server, id, "playground-test-1", `call ask_user ${JSON.stringify({ question: `${IMAGE}\u202efdp.exe` })}`);
  // Not before the call waits: until then they are shown as they are written.
  const waiting = card(page, "Ask the user", "Waits for you");
  const text = await waiting.getByLabel("Arguments of Ask the user", { exact: true }).innerText();
  assert.deepEqual(JSON.parse(text), { question: `${IMAGE}\u202efdp.exe` });
  assert.equal(text.includes("\u202e"), false);
  await page.getByRole("button", { name: "Approve" }).click();
  await see(page.getByText("\\u202efdp.exe").first());
  await isUnharmed(page);
  await see(box(page));
});
