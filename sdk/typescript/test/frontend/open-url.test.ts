// The handler of `open-url`, without a browser: what it opens, and what it does not.

import assert from "node:assert/strict";

import { type OpenedView, openUrl, type OpenUrlInput, type OpenUrlOptions, type OpenUrlOutput } from "../../src/index.js";
import { test } from "../support/patience.js";

function open(input: unknown, options: OpenUrlOptions = {}): OpenUrlOutput {
  const call = { toolCallId: "a", toolName: "open-url", deadline: new Date(), signal: new AbortController().signal };
  return openUrl(options)(input as OpenUrlInput, call) as OpenUrlOutput;
}

/** Addresses that a page must not open, each with what is said about it. */
const HOSTILE: [url: unknown, said: RegExp][] = [
  ["javascript:alert(1)", /only http: and https: are opened, not javascript:/],
  [" JavaScript:alert(1)", /not javascript:/],
  ["java\nscript:alert(1)", /not javascript:/],
  ["\u0001javascript:alert(1)", /not javascript:/],
  ["javascript://example.com/%0aalert(1)", /not javascript:/],
  ["data:text/html,<script>alert(1)</script>", /not data:/],
  ["blob:https://example.com/1", /not blob:/],
  ["file:///etc/passwd", /not file:/],
  ["about:blank", /not about:/],
  ["view-source:https://example.com", /not view-source:/],
  ["ftp://example.com", /not ftp:/],
  ["//example.com", /is not a whole URL/],
  ["/relative", /is not a whole URL/],
  ["relative", /is not a whole URL/],
  ["", /is not a whole URL/],
  ["https://", /is not a whole URL/],
  [undefined, /the url is not a text/],
  [7, /the url is not a text/],
  [{ toString: () => "https://example.com" }, /the url is not a text/],
];

test("only http and https are opened", () => {
  for (const [url, said] of HOSTILE) {
    assert.throws(() => open({ url }, { open: () => assert.fail(`${String(url)} was opened`) }), said);
  }
  for (const input of [undefined, null, "https://example.com"]) assert.throws(() => open(input), /the url is not a text/);
});

test("what is opened is what was checked; what is given names the view", () => {
  const opened: unknown[][] = [];
  const options: OpenUrlOptions = { open: (...given) => void opened.push(given) };
  for (const url of ["https://example.com", "HTTP://Example.COM/a b?c#d", " https://example.com/\n"]) {
    const output = open({ url, title: "A page" }, options);
    assert.equal(output.url, url);
    assert.match(output.viewKey, /^view-[0-9a-f]{16}$/);
    assert.deepEqual(opened.pop(), [new URL(url).href, output.viewKey]);
  }
  const named = open({ url: "https://example.com" }, { ...options, viewKey: "side" });
  assert.deepEqual(named, { url: "https://example.com", viewKey: "side" });
  assert.deepEqual(opened, [["https://example.com/", "side"]]);
});

test("a view that was blocked is a failure", () => {
  const blocked: (OpenedView | null)[] = [null, { closed: true }];
  for (const view of blocked) {
    assert.throws(() => open({ url: "https://example.com" }, { open: () => view }), {
      message: "The browser blocked the pop-up; press Open to open it",
    });
  }
  assert.equal(open({ url: "https://example.com" }, { open: () => ({ closed: false }), viewKey: "a" }).viewKey, "a");
});

test("it is opened in a new window, which loses its opener", (context) => {
  const view = { opener: "this page", closed: false };
  const opened: unknown[][] = [];
  const page = { open: (...given: unknown[]) => opened.push(given) && view };
  Object.assign(globalThis, { window: page });
  context.after(() => Reflect.deleteProperty(globalThis, "window"));
  open({ url: "https://example.com/" }, { viewKey: "side" });
  assert.deepEqual([opened, view.opener], [[["https://example.com/", "_blank"]], null]);
});
