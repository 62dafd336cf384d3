// `open-url`, which this page executes for the server: in one tab, once.

import { type Call, FrontendToolExecutor, type FrontendToolRequest, type HandbackEvent, openUrl } from "@handback/client";
import { signal } from "@preact/signals";

import { baseUrl, key } from "../api";
import { readCall } from "../world/reader";
import { OPEN_URL } from "./offer";

/** How long a tab in which nobody has just done something lets another go first, in ms: a window opens only in the latter. */
const COURTESY = 400;

const executor = new FrontendToolExecutor({ baseUrl, fetch: fetchWithKey });
executor.register(OPEN_URL, openUrl());

/** How the calls of this tab stand. */
export const openings = signal(executor.getSnapshot());
executor.subscribe(() => (openings.value = executor.getSnapshot()));

/** Executes the calls of a session that the server tells of. */
export function watch(event: HandbackEvent, sessionID: string): void {
  if (event.type !== "client-tool.request" || event.properties.request.sessionID !== sessionID) return;
  politely(() => executor.watch(event));
}

/** Executes those calls of a list that wait for a page: they were made before this one was here. */
export async function takeUp(calls: readonly Call[]): Promise<void> {
  const held = calls.filter((call) => call.executionMode === "frontend" && call.tool === OPEN_URL && call.state === "offered");
  for (const { requestID } of held) {
    if (executor.state(requestID)) continue;
    const { tool, input, deadline } = await readCall(requestID);
    politely(() => void executor.execute({ toolCallId: requestID, toolName: tool, input: input ?? {}, deadline: deadline ?? undefined }));
  }
}

/** Opens the address of a call because somebody pressed the button, right in the click. */
export function openAgain(request: FrontendToolRequest): void {
  void executor.retry(request);
}

function politely(execute: () => void): void {
  if (navigator.userActivation?.isActive) execute();
  else setTimeout(execute, COURTESY);
}

function fetchWithKey(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key.value !== undefined) headers.set("authorization", `Bearer ${key.value}`);
  return fetch(input, { ...init, headers });
}
