// A stream of server-sent events, read one by one.

import { createParser } from "eventsource-parser";

import { HandbackError, rootCause } from "./error.js";

/** How large one event may be, in characters. A larger one ends the connection: the server takes inputs of 4 MiB at most. */
const MAX_EVENT_SIZE = 8 * 1024 * 1024;

export interface ServerEvent {
  /** `message` if the server did not say. */
  event: string;
  data: string;
  /** What to say as `Last-Event-ID` to go on after this event. */
  id?: string;
}

/**
 * The events of a stream that `Http.open` has opened. Ends when the server ends the stream; throws a `HandbackError`
 * (`interrupted`) when the connection is lost, is silent for `silence` ms, or brings an event that is too large.
 * Whoever stops reading closes the connection with it.
 */
export async function* readEvents(response: Response, options: { silence: number }): AsyncGenerator<ServerEvent, void> {
  const lost = (reason: string, cause?: unknown) =>
    new HandbackError("interrupted", `the connection to ${place(response)} was lost: ${reason}`, { cause });
  if (!response.body) throw lost("the answer has no body");
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let events: ServerEvent[] = [];
  let isTooLarge = false;
  const parser = createParser({
    maxBufferSize: MAX_EVENT_SIZE,
    onEvent: ({ event = "message", data, id }) => events.push({ event, data, ...(id !== undefined && { id }) }),
    // Its other errors are about fields that we do not know, which are to be ignored.
    onError: ({ type }) => (isTooLarge ||= type === "max-buffer-size-exceeded"),
  });
  try {
    for (;;) {
      const chunk = await readWithin(reader, options.silence).catch((error: unknown) => {
        throw lost(rootCause(error), error);
      });
      if (chunk === "silent") throw lost(`the server is silent for ${options.silence / 1000} s`);
      if (chunk.done) return;
      parser.feed(decoder.decode(chunk.value, { stream: true }));
      const complete = events;
      events = [];
      yield* complete;
      if (isTooLarge) throw lost(`an event is larger than ${MAX_EVENT_SIZE} characters`);
    }
  } finally {
    // It fails if the connection has failed before, which was said.
    reader.cancel().catch(() => undefined);
  }
}

async function readWithin(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  silence: number,
): Promise<ReadableStreamReadResult<Uint8Array> | "silent"> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise<"silent">((resolve) => {
    timer = setTimeout(resolve, silence, "silent");
  });
  const chunk = reader.read();
  try {
    return await Promise.race([chunk, silent]);
  } finally {
    clearTimeout(timer);
    // Nobody may be there any more when it fails.
    chunk.catch(() => undefined);
  }
}

/** Without the query: a token may be in it. */
function place(response: Response): string {
  return URL.canParse(response.url) ? new URL(response.url).origin : "the server";
}
