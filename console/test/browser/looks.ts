// How it looks: pictures for people, and what can be measured of it.

import { faint } from "./contrast.js";
import { assert, callRows, connect, go, openConsole, picture, see, Server, test, until } from "./support.js";

const CONFIG = `[agents.default.permission]\nclient_tools = "ask"\n`;

const TOOLS = {
  read_file: {
    definition: {
      description: "Reads a text file below the project's folder and returns what is in it.",
      parameters: {
        type: "object",
        properties: { path: { type: "string", description: "Relative to the project" }, lines: { type: "integer" } },
        required: ["path"],
      },
    },
    run: () => "# Handback\n\nTools that run on the client.",
  },
  open_window: { definition: { description: "Opens a window." }, run: () => Promise.reject(new Error("There is no display here.")) },
  wait: { definition: { description: "Waits until it is told to stop." }, run: () => new Promise<string>(() => {}) },
} as const;

/** A server with some of everything. */
async function lively(server: Server): Promise<void> {
  await connect(server, "laptop", TOOLS);
  await connect(server, "phone", { locate: { definition: { description: "Where the phone is." }, run: () => "52.52, 13.40" } });
  for (let index = 0; index < 12; index += 1) await server.execute("client_laptop_read_file", { input: { path: `docs/${index}.md` } });
  for (let index = 0; index < 3; index += 1) await server.execute("client_phone_locate", { sessionID: "ses_01" });
  await server.execute("client_laptop_open_window");
  await server.execute("client_laptop_wait", { wait: false });
  const session = await post<{ id: string }>(server, "session", { clientID: "laptop" });
  const prompt = { parts: [{ type: "text", text: 'call read_file {"path":"README.md"}' }] };
  await fetch(`${server.url}/session/${session.id}/prompt_async`, { method: "POST", body: JSON.stringify(prompt) });
}

async function post<T>(server: Server, path: string, body: unknown): Promise<T> {
  const response = await fetch(`${server.url}/${path}`, { method: "POST", body: JSON.stringify(body) });
  return (await response.json()) as T;
}

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 390, 360]) {
    test(`it fits ${width} px and can be read, ${colorScheme}`, async (test) => {
      const server = await Server.start(test, { config: CONFIG });
      await lively(server);
      const page = await openConsole(test, server, { colorScheme, viewport: { width, height: 860 } });
      const look = async (name: string) => {
        await picture(page, `${name}-${width}-${colorScheme}`);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth), 0, `${name} fits`);
        assert.deepEqual(await faint(page), [], `${name} can be read`);
      };
      await see(page.getByText("Waiting for approval"));
      await until("all calls are there", async () => (await callRows(page).count()) > 8);
      await see(page.getByRole("region", { name: "Calls" }).getByText("18", { exact: true }));
      await see(page.getByText("Connected", { exact: true }));
      await page.getByRole("region", { name: "Clients" }).getByText("laptop", { exact: true }).click();
      await see(page.getByText("read_file").last());
      await look("live");
      await callRows(page).filter({ hasText: "Error" }).click();
      await see(page.getByText("There is no display here."));
      await look("call");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Try read_file" }).click();
      await see(page.getByRole("heading", { name: "Try read_file" }));
      await look("try");
      await page.keyboard.press("Escape");
      await go(page, "Charts");
      await see(page.getByText("succeeded"));
      await look("charts");
      await go(page, "Playground");
      await look("playground");
    });
  }
}

test("what there is not yet is explained", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server, { page: "charts" });
  await see(page.getByText("No calls in the last 5 minutes"));
  const line = await page.getByLabel("How to make a call").innerText();
  const [register, execute] = ["register", "execute"].map((path) => `curl ${server.url}/client-tools/${path} -d '\\{[^']+\\}'`);
  assert.match(line, new RegExp(`^${register} && ${execute}$`));
  await picture(page, "charts-empty");
  await go(page, "Live");
  await see(page.getByText("No client is known."));
  await picture(page, "live-empty");
});

test("another page begins at its heading, on a small screen too", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server, { page: "", viewport: { width: 390, height: 600 } });
  await see(page.getByText("Connected", { exact: true }));
  for (const name of ["Live", "Charts", "Playground", "Live"]) {
    await page.mouse.wheel(0, 10_000);
    await go(page, name);
    const heading = page.getByRole("heading", { level: 1 });
    await until(`the heading of ${name} is below the header`, async () => {
      const [header, title] = [await page.locator("header.top").boundingBox(), await heading.boundingBox()];
      return header !== null && title !== null && title.y >= header.y + header.height;
    });
  }
});

test("the theme can be chosen, and stays", async (test) => {
  const server = await Server.start(test);
  const page = await openConsole(test, server, { colorScheme: "light" });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: "Theme: system" }).click();
  await page.getByRole("button", { name: "Theme: light" }).click();
  await see(page.getByRole("button", { name: "Theme: dark" }));
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  await see(page.getByRole("button", { name: "Theme: dark" }));
  assert.equal(await background(), dark);
});
