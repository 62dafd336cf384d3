// Nothing that others say is run.

import { assert, callRows, connect, openConsole, picture, see, Server, test } from "./support.js";

const SAID = [
  `<img src=x onerror="document.title='broken'">`,
  `</pre></script><script>document.title='broken'</script>`,
  `javascript:document.title='broken'`,
  `{{constructor.constructor("document.title='broken'")()}} \u202e\u0000`,
];

test("what tools, clients and errors say is text", async (test) => {
  const server = await Server.start(test);
  const all = SAID.join("\n");
  const parameters = {
    type: "object",
    properties: { [SAID[0] ?? ""]: { type: "string", description: all }, __proto__x: { enum: SAID } },
  } as const;
  const attachments = [
    { mime: "text/html", filename: SAID[0] ?? "", url: SAID[2] ?? "" },
    { mime: "text/html", url: "data:text/html,<script>document.title='broken'</script>" },
    { mime: "image/svg+xml", url: "data:image/svg+xml,<svg onload=\"document.title='broken'\" xmlns='http://www.w3.org/2000/svg'/>" },
    { mime: "text/plain", filename: "a real page", url: "https://example.com/" },
  ];
  await connect(server, "laptop", {
    speak: { definition: { description: all, parameters }, run: () => ({ title: SAID[0], output: all, metadata: { all }, attachments }) },
    fail: { definition: { description: all }, run: () => Promise.reject(new Error(all)) },
  });
  await server.execute("client_laptop_fail", { input: { [SAID[1] ?? ""]: SAID }, sessionID: "s", callID: "c" });
  await server.execute("client_laptop_speak", { input: { [SAID[0] ?? ""]: all } });
  const page = await openConsole(test, server);
  await page.getByText("laptop", { exact: true }).first().waitFor();
  await page.getByRole("region", { name: "Clients" }).getByText("laptop", { exact: true }).click();
  await see(page.getByText("onerror").first());
  await page.getByRole("button", { name: "Try speak" }).click();
  await see(page.getByRole("dialog").getByText("onerror").first());
  await picture(page, "hostile-form");
  await page.keyboard.press("Escape");
  await callRows(page).filter({ hasText: "Error" }).click();
  await see(page.getByRole("dialog").getByLabel("Error").filter({ hasText: "onerror" }));
  await page.keyboard.press("Escape");
  await callRows(page).filter({ hasText: "Success" }).click();
  const dialog = page.getByRole("dialog");
  await see(dialog.getByLabel("Output").filter({ hasText: "onerror" }));
  await see(dialog.getByRole("link", { name: "a real page" }));
  // What would turn the text around is written out: an input must be read as it is before it is allowed.
  await see(dialog.getByLabel("Output").filter({ hasText: "\\u202e" }));
  await picture(page, "hostile-call");
  const links = await dialog.getByRole("link").evaluateAll((found) => found.map((link) => (link as HTMLAnchorElement).href));
  assert.deepEqual(links, ["https://example.com/"]);
  const made = await page.evaluate(() => [...document.querySelectorAll("main img, main script, main iframe, main object")].length);
  assert.deepEqual([made, await page.title()], [0, "Live · Handback"]);
});

test("the page's policy keeps what is not its own from running", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server, { expected: /Content Security Policy|TrustedHTML|net::ERR_BLOCKED_BY_CSP|violates/ });
  await see(page.getByText("Connected", { exact: true }));
  const tried = await page.evaluate(async () => {
    const blocked = new Set<string>();
    document.addEventListener("securitypolicyviolation", (event) => blocked.add(event.effectiveDirective));
    // Even one that the page itself calls trusted: it is inline.
    type Rules = { createScript(text: string): string };
    const { trustedTypes } = window as unknown as { trustedTypes: { createPolicy(name: string, rules: Rules): Rules } };
    const policy = trustedTypes.createPolicy("test", {
      createScript(text) {
        return text;
      },
    });
    const script = document.createElement("script");
    script.text = policy.createScript("document.title = 'broken'");
    document.head.append(script);
    const style = document.createElement("style");
    style.append("body { display: none }");
    document.head.append(style);
    const frame = document.createElement("iframe");
    frame.src = "https://example.com/";
    document.body.append(frame);
    let markup = "taken";
    try {
      document.body.innerHTML = "<b>markup</b>";
    } catch (error) {
      markup = (error as Error).name;
    }
    const fetched = await fetch("http://127.0.0.1:9/").then(() => "answered", () => "refused");
    // They are told later; a test that waits for too many of them fails by its own time.
    while (blocked.size < 5) await new Promise(requestAnimationFrame);
    return { blocked: [...blocked].sort(), markup, fetched, display: getComputedStyle(document.body).display };
  });
  const blocked = ["connect-src", "frame-src", "require-trusted-types-for", "script-src-elem", "style-src-elem"];
  assert.deepEqual(tried, { blocked, markup: "TypeError", fetched: "refused", display: "block" });
  assert.equal(await page.title(), "Live · Handback");
});

test("a WebSocket to the server is the page's own", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server);
  const answer = await page.evaluate(
    () =>
      new Promise<string>((resolve) => {
        const socket = new WebSocket(new URL("client-tools/ws/tab", window.location.href.replace(/^http/, "ws")));
        socket.onopen = () => socket.send('{"type":"ping"}');
        socket.onmessage = ({ data }) => resolve(String(data));
        socket.onerror = () => resolve("refused");
      }),
  );
  assert.equal(answer, '{"type":"pong"}');
});
