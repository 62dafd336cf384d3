// Schemas as zod, pydantic and schemars make them: the server takes them all, and takes the values that ajv takes.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";

import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { cases as zod } from "./zod.js";

/** @typedef {{ name: string, schema: any, values: any[] }} Case */

/**
 * @param {string} name
 * @returns {Promise<Case[]>}
 */
const stored = async (name) => JSON.parse(await readFile(join(import.meta.dirname, name), "utf8"));

/** @type {[string, () => Promise<Case[]>][]} */
const SOURCES = [
  ["zod", async () => zod],
  ["pydantic", () => stored("pydantic.json")],
  ["schemars", () => stored("schemars.json")],
];

for (const [source, read] of SOURCES) {
  test(`what ${source} generates is checked as ajv checks it`, async (test) => {
    const server = await Server.start(test);
    /** @param {string} path @param {unknown} body */
    const post = async (path, body) => {
      const answer = await fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      return { status: answer.status, text: await answer.text() };
    };
    const seen = new Set();
    for (const { name, schema, values } of await read()) {
      // `format` is an annotation for the server.
      const options = { strict: false, validateFormats: false };
      const reference = String(schema.$schema).includes("draft-07") ? new Ajv(options) : new Ajv2020(options);
      const fits = reference.compile(schema);
      const registered = await post("/client-tools/register", { clientID: "tab", tools: [{ id: "t", parameters: schema }] });
      assert.equal(registered.status, 200, `${name}: ${registered.text}`);
      for (const input of values) {
        const expected = fits(input) ? 202 : 400;
        seen.add(expected);
        const answer = await post("/client-tools/execute", { toolID: "client_tab_t", input, wait: false });
        assert.equal(answer.status, expected, `${name}: ${JSON.stringify(input)}: ${answer.text}`);
      }
    }
    assert.equal(seen.size, 2, "some fit and some do not");
  });
}
