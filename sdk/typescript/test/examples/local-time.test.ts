import assert from "node:assert/strict";

import { test, within } from "../support/patience.js";
import { Example } from "./example.js";

test("the time is told in this zone or another, until the example is stopped", async (test) => {
  const example = await Example.start(test, "local-time", "clock");
  const utc = await example.output({ time_zone: "UTC" });
  const [, day, time] = /^\w+,? (\d+ \w+ \d+) at ([\d:]+) Coordinated Universal Time \(UTC\)$/.exec(utc) ?? [];
  const offBy = Date.parse(`${day} ${time} UTC`) - Date.now();
  assert.ok(Math.abs(offBy) < 20_000, `${utc}: off by ${offBy} ms`);
  assert.match(await example.output({ time_zone: "Asia/Kolkata" }), / India Standard Time \(Asia\/(Kolkata|Calcutta)\)$/);
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  assert.ok((await example.output({})).endsWith(`(${timeZone})`));
  assert.match(await example.error({ time_zone: "Mars/Olympus" }), /Mars\/Olympus/);

  const offered = await example.server.get<{ id: string; effect: string }[]>("tools/clock");
  assert.deepEqual(offered.map(({ id, effect }) => [id, effect]), [["client_clock_local_time", "read"]]);
  example.child.kill("SIGINT");
  assert.equal(await within("the example ends", example.exited), 0);
  assert.deepEqual(await example.server.get("clients"), []);
});
