// How the playground looks: pictures for people, and what can be measured of it.

import { faint } from "../browser/contrast.js";
import { assert, picture, see, Server, test } from "../browser/support.js";
import { ASK, card, log, openPlayground, say, Site } from "./support.js";

/** Some need no approval. */
const ALLOWED = ["client_*_draw", "client_*_ask_user", "open-url"].map((tool) => `"${tool}" = "allow"\n`);
const CONFIG = `${ASK}[agents.default.permission.tools]\n${ALLOWED.join("")}`;

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 390]) {
    test(`the playground fits ${width} px and can be read, ${colorScheme}`, async (test) => {
      const site = await Site.start(test);
      const server = await Server.start(test, { config: CONFIG });
      const viewport = { width, height: 860 };
      const page = await openPlayground(test, server, { colorScheme, viewport, timezoneId: "Europe/Berlin" });
      const look = async (name: string) => {
        await picture(page, `playground-${name}-${width}-${colorScheme}`);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth), 0, `${name} fits`);
        assert.deepEqual(await faint(page), [], `${name} can be read`);
      };
      await see(page.getByRole("button", { name: "Draw a red circle" }));
      await look("welcome");
      await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
      await look("welcome-end");
      await page.getByRole("button", { name: "Draw a red circle" }).click();
      await see(log(page).getByText("The tool draw answered"));
      await say(page, "draw a blue square at x 72 y 30");
      await see(card(page, "Draw", "Done").nth(1));
      await look("drawing");
      await say(page, `Open ${site.url}`);
      await see(log(page).getByText("Opened", { exact: true }));
      await page.bringToFront();
      await say(page, 'Ask me "What is your favourite colour?"');
      await see(page.getByLabel("What is your favourite colour?"));
      await look("question");
      await page.getByRole("button", { name: "Rather not say" }).click();
      await see(card(page, "Ask the user", "Failed"));
      await look("failed");
      await say(page, "What time is it here?");
      await see(page.getByRole("button", { name: "Approve" }));
      await look("ask");
      await page.getByRole("button", { name: "Edit" }).click();
      await look("edit");
      await page.getByRole("button", { name: "Back" }).click();
      await page.getByRole("button", { name: "Always" }).click();
      await see(log(page).getByText("in the time zone Europe/Berlin").last());
      await page.getByText("Details of").last().click();
      await look("details");
    });
  }
}
