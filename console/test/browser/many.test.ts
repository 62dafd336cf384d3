// Ten thousand calls: a file of its own, as it takes as long as the others together.

import { assert, callFilter, callRows, connect, go, openConsole, picture, see, Server, test, until } from "./support.js";

const CALLS = 10_000;
const AT_ONCE = 40;
/** How many rows may be in the document. */
const MOST_ROWS = 200;

test(
  "ten thousand calls do not stop the page",
  async (test) => {
    const server = await Server.start(test);
    await connect(server, "laptop", { quick: { run: () => "ok" }, wait: { run: () => new Promise<string>(() => {}) } });
    const page = await openConsole(test, server);
    await see(page.getByText("Connected", { exact: true }));
    let [made, answered, mostRows] = [0, 0, 0];
    const call = async () => {
      while (made < CALLS) {
        made += 1;
        await server.execute("client_laptop_quick", { sessionID: `ses_${made % 10}`, callID: `call_${made}` });
        answered += 1;
      }
    };
    const pouring = Promise.all(Array.from({ length: AT_ONCE }, call));
    const text = callFilter(page);
    // While calls pour in, the page answers.
    let interactions = 0;
    while (answered < CALLS) {
      const session = `ses_${interactions % 10}`;
      await text.fill(session);
      await until("the filter holds", async () => {
        const cells = await callRows(page).getByRole("gridcell").allInnerTexts();
        mostRows = Math.max(mostRows, cells.length / 7);
        return cells.length > 0 && cells.filter((_, index) => index % 7 === 3).every((cell) => cell === session);
      });
      interactions += 1;
      await text.fill("");
    }
    await pouring;
    assert.ok(interactions > 1, `the page was used ${interactions} times meanwhile`);
    const count = page.getByRole("region", { name: "Calls" }).getByText("10,000", { exact: true });
    await see(count);
    await page.getByLabel("Outcome").selectOption("Success");
    await until("every call is known to have succeeded", async () => /10,000 of 10,000/.test(await page.locator("main").innerText()));
    await page.getByLabel("Outcome").selectOption("Every outcome");
    await page.getByRole("grid").press("End");
    const last = page.locator('[role=row][aria-selected="true"]');
    await see(last);
    assert.equal(await last.getAttribute("aria-rowindex"), String(CALLS + 1));
    mostRows = Math.max(mostRows, await callRows(page).count());
    assert.ok(mostRows > 0 && mostRows < MOST_ROWS, `${mostRows} rows were in the document`);
    await picture(page, "many-live");
    // Who has scrolled stays where they are when something new comes.
    const before = await last.boundingBox();
    await server.execute("client_laptop_quick");
    await see(page.getByRole("region", { name: "Calls" }).getByText("10,001", { exact: true }));
    assert.deepEqual(await last.boundingBox(), before);
    await go(page, "Charts");
    await see(page.getByText("100 % succeeded"));
    await picture(page, "many-charts");
  },
  500_000,
);
