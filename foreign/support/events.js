// The stream of events of either SDK, read in the background.

import assert from "node:assert/strict";

import { Log, within } from "./patience.js";

/**
 * Listens until the test is over. When it returns, the stream is open: nothing that happens from now on is missed.
 *
 * @template {{ type: string }} Event
 * @param {import("./server.js").Server} server
 * @param {(signal: AbortSignal) => Promise<{ stream: AsyncGenerator<Event> }>} subscribe
 * @returns {Promise<Log<Event>>}
 */
export async function listen(server, subscribe) {
  /** @type {Log<Event>} */
  const events = new Log();
  // The SDK asks for the stream when the first event is.
  const { stream } = await subscribe(server.closing);
  const first = await within("the stream of events opens", stream.next());
  assert.ok(!first.done, "the stream of events ended at once");
  assert.deepEqual(first.value, { type: "server.connected", properties: {} });
  events.add(first.value);
  const read = async () => {
    for await (const event of stream) events.add(event);
  };
  // An error ends the log, and whoever waits for more of it says what did not come.
  read().catch((error) => events.fail(error));
  return events;
}

/**
 * What happened in a session, in short and in order. A text comes in any number of pieces: each kind of event about it
 * is told once.
 *
 * @param {Log<any>} events
 * @param {string} sessionID
 */
export function story(events, sessionID) {
  /** @type {string[]} */
  const told = [];
  for (const event of events.all) {
    if (event.properties.sessionID !== sessionID && event.properties.request?.sessionID !== sessionID) continue;
    const line = shorten(event);
    if (!told.slice(-2).includes(line)) told.push(line);
  }
  return told;
}

/** @param {{ type: string, properties: any }} event */
function shorten({ type, properties }) {
  switch (type) {
    case "message.updated": {
      const { role, finish, error } = properties.info;
      return [type, role, finish, error?.name].filter(Boolean).join(" ");
    }
    case "message.part.updated": {
      const { part, delta } = properties;
      return [type, part.type, part.state?.status, part.reason, delta && "grows"].filter(Boolean).join(" ");
    }
    case "session.status":
      return `${type} ${properties.status.type}`;
    case "session.error":
      return `${type} ${properties.error.name}`;
    default:
      return type;
  }
}
