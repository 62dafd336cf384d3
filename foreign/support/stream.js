// A stream of AG-UI as it comes off the wire: each byte goes on to whoever reads it, and each event is looked at.

import assert from "node:assert/strict";

import { enforceEvents, parseProtoStream, verifyEvents } from "ag-ui-client-1";
import { parseProtoStream as parseOldProtoStream, verifyEvents as verifyOldEvents } from "ag-ui-client-0";
import { EventSchemas as OldEventSchemas } from "ag-ui-core-0";
import { EventSchemas } from "ag-ui-core-1/schemas";
import { Subject, from, lastValueFrom, toArray } from "rxjs";

import { Log, within } from "./patience.js";

/** @typedef {{ type: string, [key: string]: any }} Event */

/** The media types of a stream: server-sent events, and protobuf. The client compares the latter letter by letter. */
const TEXT_TYPE = "text/event-stream";
export const PROTO_TYPE = "application/vnd.ag-ui.event+proto";

/** What holds any JSON, nulls included, and so is not looked into. */
const ANY_JSON = new Set([
  "snapshot",
  "value",
  "rawEvent",
  "metadata",
  "result",
  "responseSchema",
  "state",
  "forwardedProps",
]);
const TERMINAL = ["RUN_FINISHED", "RUN_ERROR"];

/** A request for a run, and the run as it is told. */
export class Run {
  /** @type {number | undefined} */
  status;
  /**
   * Its events.
   * @type {Log<Event>}
   */
  events = new Log();
  /**
   * The ids of its frames, if they have one.
   * @type {string[]}
   */
  ids = [];
  /**
   * The comments between its events.
   * @type {Log<string>}
   */
  comments = new Log();
  /**
   * What is wrong with it.
   * @type {unknown[]}
   */
  problems = [];

  #decoder = new TextDecoder("utf-8", { fatal: true });
  #rest = "";
  #isReplay;
  #isProto;
  /**
   * The bytes of a stream of protobuf, on their way to the client's own decoder of it.
   * @type {Subject<any>}
   */
  #proto = new Subject();
  /** @type {() => void} */
  #end = () => {};
  /** Settled when nothing more comes. */
  over = /** @type {Promise<void>} */ (new Promise((ends) => (this.#end = ends)));

  /**
   * @param {string} path
   * @param {any} input the RunAgentInput
   * @param {Headers} headers of the request
   */
  constructor(path, input, headers) {
    this.path = path;
    this.input = input;
    // It need not begin with its first event.
    this.#isReplay = headers.has("last-event-id");
    this.#isProto = headers.get("accept") === PROTO_TYPE;
    const parse = input.protocolVersion === undefined ? parseOldProtoStream : parseProtoStream;
    parse(this.#proto).subscribe({
      next: (event) => this.#takeEvent(/** @type {any} */ (event)),
      error: (error) => this.problems.push(error),
    });
  }

  /** Its last event. */
  get last() {
    return this.events.all.at(-1) ?? assert.fail("the run has no events");
  }

  /** The types of its events; those of one text or one call's arguments once. */
  get story() {
    const types = this.events.all.map(({ type }) => type);
    return types.filter((type, place) => type !== types[place - 1]);
  }

  /**
   * Its events of that type.
   *
   * @param {string} type
   */
  all(type) {
    return this.events.all.filter((event) => event.type === type);
  }

  /**
   * Its first event of that type, now or later.
   *
   * @param {string} type
   */
  until(type) {
    return this.events.until(`${type} comes`, (event) => event.type === type);
  }

  /**
   * Looks at what comes. What is wrong is kept, and told when the test is over: the client must see what it would see.
   *
   * @param {Response} response
   * @returns {Response}
   */
  watch(response) {
    this.#try(() => {
      assert.equal(response.headers.get("content-type"), this.#isProto ? PROTO_TYPE : TEXT_TYPE);
      assert.match(response.headers.get("cache-control") ?? "", /\bno-cache\b/);
      assert.equal(response.headers.get("x-accel-buffering"), "no");
    });
    const reader = response.body?.getReader() ?? assert.fail("no body");
    // No `tee`: if the client lets go of its half of one, the server is not told.
    const body = new ReadableStream({
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (done) {
            this.#try(() => this.#ended());
            this.#end();
            return controller.close();
          }
          this.#try(() => this.#take(value));
          controller.enqueue(value);
        } catch (error) {
          this.#end();
          controller.error(error);
        }
      },
      cancel: (reason) => {
        this.#end();
        return reader.cancel(reason);
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  }

  /** There is no stream. */
  refused() {
    this.#end();
  }

  /** What can be judged of all of it only: that 1.0 knows each key, and the order, by each generation of the client. */
  async check() {
    const events = from(/** @type {any[]} */ (this.events.all));
    // The schemas let unknown keys pass; what the client hands on to its application does not have them any more.
    assert.deepEqual(await lastValueFrom(events.pipe(enforceEvents(), toArray())), this.events.all);
    if (this.#isReplay) return;
    await lastValueFrom(events.pipe(verifyEvents(), toArray()));
    await lastValueFrom(events.pipe(verifyOldEvents(), toArray()));
  }

  /** @param {() => void} look */
  #try(look) {
    try {
      look();
    } catch (error) {
      this.problems.push(error);
    }
  }

  /** @param {Uint8Array} bytes */
  #take(bytes) {
    if (this.#isProto) return this.#proto.next({ type: "data", data: bytes });
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    const frames = text.split("\n\n");
    this.#rest = frames.pop() ?? "";
    for (const frame of frames) this.#takeFrame(frame);
  }

  /** @param {string} frame */
  #takeFrame(frame) {
    if (/^:[^\n]*$/.test(frame)) return this.comments.add(frame);
    const lines = frame.split("\n").map((line) => /^(data|id): (.+)$/.exec(line) ?? assert.fail(`no frame: ${frame}`));
    const fields = new Map(lines.map(([, field, value]) => [field, value]));
    assert.equal(fields.size, lines.length, `a field twice: ${frame}`);
    const id = fields.get("id");
    if (id !== undefined) this.ids.push(id);
    this.#takeEvent(JSON.parse(fields.get("data") ?? assert.fail(`no data: ${frame}`)));
  }

  /** @param {Event} event */
  #takeEvent(event) {
    this.#try(() => this.#look(event));
    this.events.add(event);
  }

  /** @param {Event} event */
  #look(event) {
    const { protocolVersion, threadId, runId } = this.input;
    const before = this.events.all;
    const text = JSON.stringify(event);
    assert.ok(!TERMINAL.includes(before.at(-1)?.type ?? ""), `after the end: ${text}`);
    assert.doesNotThrow(() => EventSchemas.parse(event), text);
    if (protocolVersion === undefined) assert.doesNotThrow(() => OldEventSchemas.parse(event), text);
    assert.deepEqual(nullsOf(event), [], text);
    if (event.type === "RUN_STARTED" || event.type === "RUN_FINISHED") {
      assert.deepEqual([event.threadId, event.runId], [threadId, runId]);
    }
    if (before.length === 0 && !this.#isReplay) {
      assert.equal(event.type, "RUN_STARTED");
      assert.equal(event.protocolVersion, protocolVersion);
    }
  }

  #ended() {
    this.#proto.complete();
    assert.equal(this.#rest + this.#decoder.decode(), "", "the last frame is complete");
    assert.ok(TERMINAL.includes(this.last.type), `the last event is ${this.last.type}`);
  }
}

/** The page's way to the server: `fetch`, and all that came through it. */
export class Tap {
  /**
   * All runs that were asked for, in order.
   * @type {Log<Run>}
   */
  runs = new Log();

  #server;

  /**
   * When the test is over, all that came has been looked at.
   *
   * @param {import("node:test").TestContext} test
   * @param {import("./server.js").Server} server
   */
  constructor(test, server) {
    this.#server = server;
    test.after(async () => {
      assert.ok(this.runs.all.length > 0, "nothing was asked for");
      for (const run of this.runs.all) {
        await within(`the run ${run.path} has been read`, run.over);
        await run.check();
        assert.deepEqual(run.problems, [], `the run ${run.path}`);
      }
    });
  }

  /**
   * Asks for a run.
   *
   * @param {string} url
   * @param {RequestInit} options
   */
  fetch = async (url, options) => {
    const path = url.slice(this.#server.url.length);
    const run = new Run(path, JSON.parse(String(options.body)), new Headers(options.headers));
    this.runs.add(run);
    try {
      const response = await fetch(url, options);
      run.status = response.status;
      if (response.ok) return run.watch(response);
      run.refused();
      return response;
    } catch (error) {
      run.refused();
      throw error;
    }
  };

  /**
   * Asks for a run with nothing but `fetch`, and reads it in the background.
   *
   * @param {string} path
   * @param {object} input
   * @param {{ headers?: Record<string, string>, signal?: AbortSignal }} [options]
   */
  async post(path, input, { headers, signal } = {}) {
    const response = await within(
      `${path} answers`,
      this.fetch(this.#server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", accept: TEXT_TYPE, ...headers },
        body: JSON.stringify(input),
        signal,
      }),
    );
    const run = this.runs.all.at(-1) ?? assert.fail("no run");
    if (!response.ok) return { run, status: response.status, body: await response.json() };
    // How it ends is told by the run itself.
    response.text().catch(() => {});
    return { run, status: response.status, body: undefined };
  }
}

/**
 * Where something is null that is to be left out.
 *
 * @param {any} value
 * @param {string} [path]
 * @returns {string[]}
 */
function nullsOf(value, path = "") {
  if (value === null) return [path];
  if (typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) => (ANY_JSON.has(key) ? [] : nullsOf(inner, `${path}/${key}`)));
}
