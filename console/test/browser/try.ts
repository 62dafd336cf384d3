// Trying a tool by a form made from its schema.

import { assert, callRows, connect, openConsole, type Page, readsText, REFUSED, see, Server, test, type TestContext } from "./support.js";

const PARAMETERS = {
  type: "object",
  properties: {
    name: { type: "string", description: "Who is greeted" },
    times: { type: "integer", minimum: 1 },
    loud: { type: "boolean" },
    tone: { enum: ["warm", "cold", 7] },
    tags: { type: "array", items: { type: "string" } },
    place: { type: "object", properties: { city: { type: "string" }, zip: { type: "number" } }, required: ["city"] },
    extra: { type: ["object", "null"] },
  },
  required: ["name", "times"],
  additionalProperties: false,
} as const;

async function openForm(test: TestContext, expected?: RegExp): Promise<{ page: Page; inputs: unknown[] }> {
  const server = await Server.start(test);
  const inputs: unknown[] = [];
  const run = (input: unknown) => {
    inputs.push(input);
    return { title: "Greeting", output: "Hello!", metadata: { mood: "good" } };
  };
  await connect(server, "laptop", { greet: { definition: { description: "Greets.", parameters: PARAMETERS }, run } });
  const page = await openConsole(test, server, expected ? { expected } : {});
  await page.getByText("laptop", { exact: true }).click();
  await page.getByRole("button", { name: "Try greet" }).click();
  return { page, inputs };
}

test("a tool is tried with every kind of field", async (test) => {
  const { page, inputs } = await openForm(test);
  const form = page.getByRole("dialog");
  await see(form.getByText("Who is greeted"));
  await form.getByLabel("name").fill("Ada");
  await form.getByLabel("times").fill("3");
  await form.getByLabel("loud").selectOption("false");
  await form.getByLabel("tone").selectOption("7");
  await form.getByRole("button", { name: "Add to tags" }).click();
  await form.getByRole("button", { name: "Add to tags" }).click();
  await form.getByRole("textbox", { name: "tags 1" }).fill("a");
  await form.getByRole("textbox", { name: "tags 2" }).fill("b");
  await form.getByRole("button", { name: "Remove tags 1" }).click();
  await form.getByLabel("city").fill("Berlin");
  await form.getByLabel("zip").fill("10115.5");
  await form.getByLabel("extra").fill('{"deep":[1,null]}');
  await form.getByRole("button", { name: "Call the tool" }).click();
  const result = form.getByRole("region", { name: "Result" });
  await see(result.getByText("Success"));
  await see(result.getByRole("heading", { name: "Greeting" }));
  await readsText(result.getByLabel("Output"), "Hello!");
  await see(result.getByText(/^after [\d.]+ m?s$/));
  await readsText(result.getByLabel("Metadata"), '{\n  "mood": "good"\n}');
  const place = { city: "Berlin", zip: 10115.5 };
  assert.deepEqual(inputs, [{ name: "Ada", times: 3, loud: false, tone: 7, tags: ["b"], place, extra: { deep: [1, null] } }]);
  await page.keyboard.press("Escape");
  await see(callRows(page).filter({ hasText: "Success" }));
});

test("what is left out is not sent, and what is required has to be there", async (test) => {
  const { page, inputs } = await openForm(test);
  const form = page.getByRole("dialog");
  await form.getByRole("button", { name: "Call the tool" }).click();
  assert.equal(await form.getByLabel("times").evaluate((field: HTMLInputElement) => field.validity.valueMissing), true);
  await form.getByLabel("times").fill("1");
  await form.getByRole("button", { name: "Call the tool" }).click();
  await see(form.getByText("Success"));
  assert.deepEqual(inputs, [{ name: "", times: 1 }]);
});

test("what the server refuses is said at the form, and can be mended", async (test) => {
  const { page, inputs } = await openForm(test, REFUSED);
  const form = page.getByRole("dialog");
  await form.getByLabel("name").fill("Ada");
  await form.getByLabel("times").fill("many");
  await form.getByRole("button", { name: "Call the tool" }).click();
  await see(form.getByRole("alert").filter({ hasText: "times" }));
  await form.getByLabel("times").fill("0");
  await form.getByRole("button", { name: "Call the tool" }).click();
  await see(form.getByRole("alert").filter({ hasText: "minimum" }));
  await form.getByLabel("times").fill("2");
  await form.getByLabel("extra").fill("{not json");
  await form.getByRole("button", { name: "Call the tool" }).click();
  await see(form.getByRole("alert").filter({ hasText: /^extra: / }));
  assert.deepEqual(inputs, []);
  await form.getByLabel("extra").fill("");
  await form.getByRole("button", { name: "Call the tool" }).click();
  await see(form.getByText("Success"));
  assert.deepEqual(inputs, [{ name: "Ada", times: 2 }]);
});
