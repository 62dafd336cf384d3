// A handler from its start to its end, which comes at the deadline at the latest.

import { messageOf } from "../tools/result.js";
import { after, type Deadline, follow, LONGEST_CALL } from "../tools/time.js";
import type { Acks } from "./acks.js";
import type { FrontendToolHandler, FrontendToolRequest } from "./state.js";

/** How long a call may take that does not say, in s. */
const DEFAULT_TIMEOUT = 60;

/** How a handler ended. `output` is plain JSON. */
export type Ending =
  | { readonly status: "success"; readonly output?: unknown }
  | { readonly status: "failed"; readonly errorText: string }
  | { readonly status: "timeout" };

/**
 * Runs a handler. It is called before this returns: a browser opens windows only in the midst of a click. `calledOff` tells
 * it that nobody waits for it any more; how it ends then is up to it.
 */
export async function run(
  handler: FrontendToolHandler<never>,
  { toolCallId, toolName, input }: FrontendToolRequest,
  deadline: Deadline,
  calledOff: AbortSignal,
): Promise<Ending> {
  if (deadline.remaining() <= 0) return { status: "timeout" };
  const { controller: over, release } = follow(calledOff);
  const { signal } = over;
  // In an async function, whatever is thrown or promised becomes a promise.
  const call = async () => handler(input as never, { toolCallId, toolName, deadline: deadline.date, signal });
  const ended = call().then(succeeded, (thrown: unknown) => failed(messageOf(thrown)));
  let callOff = () => {};
  const late = new Promise<Ending>((resolve) => {
    callOff = after(deadline.remaining(), () => {
      // First, so that a handler which ends because of it does not win.
      resolve({ status: "timeout" });
      over.abort(new DOMException("the call has expired", "TimeoutError"));
    });
  });
  try {
    return await Promise.race([ended, late]);
  } finally {
    callOff();
    release();
  }
}

export function failed(errorText: string): Ending {
  return { status: "failed", errorText };
}

function succeeded(output: unknown): Ending {
  try {
    return JSON.parse(JSON.stringify({ status: "success", output })) as Ending;
  } catch (error) {
    return failed(`the tool ran, but its output cannot be written as JSON: ${messageOf(error)}`);
  }
}

/** When a call expires, as far as can be known here. The server has the last word. */
export function deadlineOf({ deadline, input }: FrontendToolRequest, { clock }: Acks): Deadline {
  if (typeof deadline === "string" && !Number.isNaN(Date.parse(deadline)) && clock) return clock.deadline(deadline);
  const time = deadline instanceof Date ? deadline.getTime() : Date.parse(deadline ?? "");
  const remaining = time - Date.now();
  // A time of the server that is past here may be one of a clock that is wrong.
  if (remaining > 0 || (deadline instanceof Date && remaining <= 0)) return within(Math.min(remaining, LONGEST_CALL));
  return freshDeadline(input);
}

/** As the server counts, from now. */
export function freshDeadline(input: unknown): Deadline {
  const seconds: unknown = (input as { timeoutSec?: unknown } | null | undefined)?.timeoutSec;
  const isUsable = typeof seconds === "number" && seconds >= 1;
  return within(Math.min((isUsable ? seconds : DEFAULT_TIMEOUT) * 1000, LONGEST_CALL));
}

/** So many milliseconds from now. */
export function within(milliseconds: number): Deadline {
  const at = performance.now() + milliseconds;
  return { date: new Date(Date.now() + milliseconds), remaining: () => at - performance.now() };
}
