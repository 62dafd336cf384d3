import assert from "node:assert/strict";
import { test } from "node:test";

import { hasText } from "../../src/answer.js";
import { HandbackError, Http } from "../../src/http.js";
import { lineOf, nowhere, script } from "./scripted.js";

/** The facts of the error that is promised. */
async function failure(promised: Promise<unknown>) {
  const error = await promised.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof HandbackError, String(error));
  const { kind, message, status, code, retryAfter, details, transient, denied } = error;
  return { kind, message, status, code, retryAfter, details, transient, denied };
}

const NOTHING = { status: undefined, code: undefined, retryAfter: undefined, details: undefined, denied: false };

test("JSON goes there and comes back, below the path of the base URL", async (test) => {
  const seen: string[] = [];
  const url = await script(test, async (request, response) => {
    seen.push(`${await lineOf(request)} ${request.headers.authorization} ${request.headers["content-type"]}`);
    response.writeHead(request.method === "POST" ? 200 : 204).end(request.method === "POST" ? '{"a":1}' : "");
  });
  let count = 0;
  const http = new Http({ baseUrl: `${url}/base/?x=1`, token: async () => `token-${(count += 1)}` });
  assert.equal(http.baseUrl, `${url}/base`);
  const query = { b: "c&d", none: undefined };
  assert.deepEqual(await http.request("POST", ["a b", "c/d"], { query, body: { input: "ä" } }), { a: 1 });
  assert.equal(await http.request("DELETE", ["x"]), undefined);
  assert.deepEqual(seen, [
    'POST /base/a%20b/c%2Fd?b=c%26d {"input":"ä"} Bearer token-1 application/json',
    "DELETE /base/x Bearer token-2 undefined",
  ]);
  assert.equal(await http.socketUrl(["ws"], { grace: "5" }), `${url.replace("http", "ws")}/base/ws?grace=5&access_token=token-3`);
});

test("failures are told as the server tells them", async (test) => {
  const answers: Record<string, [number, string, Record<string, string>?]> = {
    "/tools": [409, '{"error":"taken","code":"CONFLICT","details":{"id":"a"}}'],
    "/session": [404, '{"name":"NotFoundError","data":{"message":"there is no session"}}'],
    "/unnamed": [400, '{"name":"BadRequest","data":{}}'],
    "/busy": [503, "<h1>Bad Gateway</h1>", { "retry-after": "2" }],
    "/secret": [401, '{"error":"a key is needed","code":"UNAUTHORIZED"}'],
  };
  const url = await script(test, (request, response) => {
    const [status, body, headers] = answers[request.url ?? ""] ?? [200, "what?"];
    response.writeHead(status, headers).end(body);
  });
  const http = new Http({ baseUrl: url });
  const refusal = { ...NOTHING, kind: "refused", transient: false };
  assert.deepEqual(await failure(http.request("POST", ["tools"])), {
    ...refusal, status: 409, code: "CONFLICT", details: { id: "a" }, message: `taken (POST ${url}/tools: 409)`,
  });
  assert.deepEqual(await failure(http.request("GET", ["session"])), {
    ...refusal, status: 404, message: `there is no session (GET ${url}/session: 404)`,
    details: { name: "NotFoundError", data: { message: "there is no session" } },
  });
  assert.equal((await failure(http.request("GET", ["unnamed"]))).message, `BadRequest (GET ${url}/unnamed: 400)`);
  assert.deepEqual(await failure(http.request("GET", ["busy"])), {
    ...refusal, status: 503, retryAfter: 2000, transient: true,
    message: `the answer was 503 Service Unavailable (GET ${url}/busy: 503)`,
  });
  const advice = "; pass an application key or a client token as `token`";
  assert.deepEqual(await failure(http.request("GET", ["secret"])), {
    ...refusal, status: 401, code: "UNAUTHORIZED", denied: true,
    message: `a key is needed${advice} (GET ${url}/secret: 401)`,
  });
  const odd = await failure(http.request("GET", ["odd"]));
  assert.equal(odd.kind, "unexpected");
  assert.match(odd.message, /^the answer from \S+ is not one of a Handback server: /);
});

test("what answers in place of a server that was there passes, and what the server itself refuses does not", async (test) => {
  const page = "<h1>Come back later</h1>";
  const answers: Record<string, [number, string]> = {
    fine: [200, "{}"],
    page: [200, page],
    moved: [302, ""],
    gone: [404, page],
    "no route": [404, '{"message":"no Route matched"}'],
    spring: [404, '{"status":404,"error":"Not Found","path":"/spring"}'],
    "not allowed": [405, ""],
    // These mean the request, whoever says them.
    "bad request": [400, page],
    unauthorized: [401, page],
    forbidden: [403, page],
    "too large": [413, page],
    coded: [404, '{"error":"there is no such path","code":"NOT_FOUND"}'],
    session: [404, '{"name":"NotFoundError","data":{"message":"there is no session"}}'],
    ack: [410, '{"ok":false,"reason":"expired"}'],
    room: [404, '{"detail":"there is no room"}'],
    quota: [507, '{"error":"no room","code":"INSUFFICIENT_STORAGE"}'],
  };
  const url = await script(test, (request, response) => {
    const [status, body] = answers[decodeURIComponent(request.url ?? "").slice(1)] ?? [500, ""];
    response.writeHead(status, { "content-type": "text/html" }).end(body);
  });
  const passing = async (http: Http) => {
    const passes = async (name: string) => (await failure(http.request("GET", [name]))).transient;
    const names = [];
    for (const name of Object.keys(answers).slice(1)) if (await passes(name)) names.push(name);
    return names;
  };
  const [none, known] = [new Http({ baseUrl: url }), new Http({ baseUrl: url })];
  for (const name of ["page", "moved", "gone"]) assert.equal((await failure(none.request("GET", [name]))).transient, false, name);
  await known.request("GET", ["fine"]);
  assert.deepEqual(await passing(known), ["page", "moved", "gone", "no route", "spring", "not allowed"]);
  assert.equal((await failure(known.open(["page"]))).transient, true);
  // A refusal of its own shows that a server is there, too.
  await failure(none.request("GET", ["coded"]));
  assert.equal((await failure(none.request("GET", ["gone"]))).transient, true);
});

test("JSON that is not the answer shows no server, and passes where one was there", async (test) => {
  const url = await script(test, (request, response) => {
    const answers: Record<string, string> = { "/fine": '{"id":"a"}', "/other": '{"status":"maintenance"}', "/null": "null" };
    response.end(answers[request.url ?? ""]);
  });
  const http = new Http({ baseUrl: url });
  const get = (path: string) => http.request("GET", [path], { isAnswer: hasText("id") });
  const others = () => Promise.all(["other", "null", "empty"].map((path) => failure(get(path))));
  const message = `the answer from ${url} is not one of a Handback server: it is not what was asked for`;
  const unexpected = { ...NOTHING, kind: "unexpected", message };
  assert.deepEqual(await others(), Array(3).fill({ ...unexpected, transient: false }));
  assert.deepEqual(await get("fine"), { id: "a" });
  assert.deepEqual(await others(), Array(3).fill({ ...unexpected, transient: true }));
});

test("a redirect is not followed", async (test) => {
  const seen: string[] = [];
  const url = await script(test, async (request, response) => {
    seen.push(await lineOf(request));
    response.writeHead(302, { location: "/elsewhere" }).end();
  });
  const { message, status } = await failure(new Http({ baseUrl: url }).request("POST", ["a"], { body: 1 }));
  assert.equal(message, `POST ${url}/a redirects to /elsewhere: set the baseUrl to where the server is`);
  assert.deepEqual([status, seen], [302, ["POST /a 1"]]);
});

test("a server that is not there, breaks off or does not answer", async (test) => {
  const url = await script(test, (request, response) => {
    if (request.url === "/broken") response.socket?.destroy();
    if (request.url === "/halfway") response.writeHead(200, { "content-length": "10" }).write("{", () => response.socket?.destroy());
  });
  const http = new Http({ baseUrl: url });
  for (const path of ["broken", "halfway"]) {
    const { message, ...facts } = await failure(http.request("GET", [path]));
    assert.deepEqual(facts, { ...NOTHING, kind: "interrupted", transient: true }, path);
    assert.match(message, /^the connection to http:\/\/\S+ was lost: /);
  }
  assert.deepEqual(await failure(http.request("GET", ["silent"], { timeout: 50 })), {
    ...NOTHING, kind: "interrupted", transient: true, message: `the server at ${url} did not answer in time`,
  });
  const { message, ...facts } = await failure(new Http({ baseUrl: await nowhere() }).request("GET", []));
  assert.deepEqual(facts, { ...NOTHING, kind: "unreachable", transient: true });
  assert.match(message, /^no Handback server can be reached at http:\/\/127.0.0.1:\d+: .*ECONNREFUSED.* Is it running/);
});

test("a request that is given up rejects with the reason", async (test) => {
  const stop = new AbortController();
  const url = await script(test, () => stop.abort(new Error("enough")));
  const http = new Http({ baseUrl: url });
  await assert.rejects(http.request("GET", ["a"], { signal: stop.signal }), new Error("enough"));
  await assert.rejects(http.open(["a"], { signal: stop.signal }), new Error("enough"));
});

test("a stream of events is opened, anything else is not one", async (test) => {
  const url = await script(test, (request, response) => {
    const { accept, "last-event-id": last } = request.headers;
    const type = request.url === "/events" ? "text/event-stream" : "text/html";
    response.writeHead(200, { "content-type": type }).end(`${accept} ${last}`);
  });
  const http = new Http({ baseUrl: url });
  const response = await http.open(["events"], { headers: { "last-event-id": "e-1" } });
  assert.equal(await response.text(), "text/event-stream e-1");
  const { kind, message } = await failure(http.open(["page"]));
  assert.deepEqual(
    [kind, message],
    ["unexpected", `the answer from ${url} is not one of a Handback server: "text/html" is not an event stream`],
  );
});

test("what cannot be a URL or a token is refused", async () => {
  const cases: [string, string][] = [
    ["nonsense", '"nonsense" is not the URL of a server: give one like http://127.0.0.1:4096'],
    ["ftp://a", '"ftp://a" is not the URL of a server: it must start with http:// or https://'],
    ["http://me:secret@a", "credentials belong into the token, not into the URL of the server"],
  ];
  for (const [baseUrl, message] of cases) assert.throws(() => new Http({ baseUrl }), new TypeError(message));
  const message = "the token is not a string, is empty or has characters that a header cannot carry";
  for (const token of ["line\nbreak", "", () => null as unknown as string]) {
    const http = new Http({ baseUrl: "http://127.0.0.1:1", token });
    await assert.rejects(http.request("GET", []), new TypeError(message));
  }
  const dots = new Http({ baseUrl: "http://127.0.0.1:1" }).request("GET", ["session", ".."]);
  await assert.rejects(dots, new TypeError('".." cannot be part of a path; use another name'));
});

test("a token that cannot be had, or not in time, is like a server that cannot be reached", async () => {
  const unreachable = { ...NOTHING, kind: "unreachable", transient: true };
  const failing = () => Promise.reject(new TypeError("Failed to fetch"));
  const down = new Http({ baseUrl: "http://127.0.0.1:1", token: failing });
  const failed = { ...unreachable, message: "there is no token: Failed to fetch" };
  assert.deepEqual(await failure(down.request("GET", ["a"])), failed);
  assert.deepEqual(await failure(down.open(["a"])), failed);
  assert.deepEqual(await failure(down.socketUrl(["a"])), failed);
  const stuck = new Http({ baseUrl: "http://127.0.0.1:1", token: () => new Promise<string>(() => {}) });
  assert.deepEqual(await failure(stuck.request("GET", ["a"], { timeout: 20 })), {
    ...unreachable, message: "there is no token: the function that gives one did not do so in time",
  });
  const stop = new AbortController();
  const { signal } = stop;
  setTimeout(() => stop.abort(new Error("enough")), 20);
  await assert.rejects(stuck.socketUrl(["a"], {}, signal), new Error("enough"));
  await assert.rejects(stuck.open(["a"], { signal }), new Error("enough"));
});

test("a time without an end is none", async (test) => {
  const url = await script(test, (_, response) => setTimeout(() => response.end("1"), 20));
  const http = new Http({ baseUrl: url });
  assert.equal(await http.request("GET", ["a"], { timeout: Number.POSITIVE_INFINITY }), 1);
});

test("an answer without an end is not read to it", async (test) => {
  const chunk = Buffer.alloc(1024 * 1024, " ");
  const closed: Promise<unknown>[] = [];
  const url = await script(test, (request, response) => {
    closed.push(new Promise((resolve) => response.on("close", resolve)));
    response.writeHead(request.url === "/fine" ? 200 : 500);
    const more = () => void (response.destroyed || response.write(chunk, more));
    more();
  });
  const http = new Http({ baseUrl: url });
  assert.equal((await failure(http.request("GET", ["fine"]))).message,
    `the answer from ${url} is not one of a Handback server: it is larger than 67108864 characters`);
  assert.equal((await failure(http.request("GET", ["broken"]))).message,
    `the answer was 500 Internal Server Error (GET ${url}/broken: 500)`);
  await Promise.all(closed);
});
