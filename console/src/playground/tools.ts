// The code of the tools that this page offers, and the connection over which they are called.

import { ClientToolsManager, type ToolHandler } from "@handback/client";
import { effect, signal } from "@preact/signals";

import { baseUrl, key, messageOf } from "../api";
import { connection, subscribe } from "../events";
import { describe, shapeOf } from "./drawing";
import { type ToolName, TOOLS } from "./offer";
import { ask } from "./questions";

/** Who the tools are offered as; nobody: they are not. */
export const offeredAs = signal<string | undefined>(undefined);

/** Why the tools cannot be called. */
export const offerTrouble = signal<string | undefined>(undefined);

/** Whether the tools can be called. */
export const isOffered = signal(false);

let manager: ClientToolsManager | undefined;

/** The name of this tab's connection: a prompt that says it has its calls run here, and not in another tab of the conversation. */
export function connectionName(): string | undefined {
  return manager?.connection;
}

/** Offers the tools from now on, as whoever this page is at the time, once the server has let it in. */
export function offerTools(): void {
  const isLetIn = signal(false);
  subscribe(({ type }) => {
    if (type === "connected" || type === "failed") isLetIn.value = type === "connected";
  });
  effect(() => {
    const clientID = offeredAs.value;
    if (clientID === undefined || !isLetIn.value) return;
    const offering = new ClientToolsManager(clientID, baseUrl, { token: key.value });
    manager = offering;
    const stopListening = offering.on("state", ({ state, error }) => {
      isOffered.value = state === "open";
      offerTrouble.value = error && messageOf(error);
    });
    void connect(offering);
    return () => {
      stopListening();
      isOffered.value = false;
      manager = undefined;
      void offering.disconnect();
    };
  });
}

/**
 * Waits until what comes of a prompt is heard, and the tools can be called; but not for ever, in ms: the model can be spoken to
 * without them. Or until it is aborted.
 */
export async function whenReady(patience: number, signal: AbortSignal): Promise<void> {
  let stopWaiting = () => {};
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, patience);
    signal.addEventListener("abort", () => resolve(), { once: true });
    const stopLooking = effect(() => {
      const isReady = connection.value.state !== "connecting" && (offeredAs.value === undefined || isOffered.value);
      if (isReady || signal.aborted) resolve();
    });
    stopWaiting = () => {
      clearTimeout(timer);
      stopLooking();
    };
  });
  stopWaiting();
}

async function connect(manager: ClientToolsManager): Promise<void> {
  try {
    for (const [name, handler] of Object.entries(HANDLERS)) {
      await manager.register(name, TOOLS[name as ToolName].definition, handler);
    }
    await manager.connect();
  } catch {
    // The manager's state has told why, or it was disconnected because another takes its place.
  }
}

const HANDLERS: Record<ToolName, ToolHandler<Record<string, unknown>>> = {
  local_time: () => {
    const now = new Date();
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const said = new Intl.DateTimeFormat("en", { dateStyle: "full", timeStyle: "medium", timeZone }).format(now);
    return { title: said, output: `It is ${said} in the time zone ${timeZone} (${now.toISOString()}).` };
  },

  location: async (_, { signal }) => {
    const { latitude, longitude, accuracy } = await whereAmI(signal);
    return `Latitude ${latitude.toFixed(5)}, longitude ${longitude.toFixed(5)}, within ${Math.ceil(accuracy)} m.`;
  },

  ask_user: async ({ question }, { requestID, sessionID, callID, signal }) => {
    const answer = await ask({ requestID, sessionID, callID, text: String(question) }, signal);
    if (answer === undefined) throw new Error("The user would rather not answer.");
    return `The user answered: ${answer}`;
  },

  read_clipboard: async (_, { signal }) => {
    if (!("clipboard" in navigator)) throw new Error("The browser shows the clipboard only to pages on https or localhost.");
    await whenInFront(signal);
    const text = await navigator.clipboard.readText().catch((error: unknown) => {
      throw new Error(`The clipboard was not read: the user, or the browser, did not allow it. (${messageOf(error)})`);
    });
    return text === "" ? "There is no text in the clipboard." : `The clipboard has this text:\n${text}`;
  },

  draw: (input) => {
    const shape = shapeOf(input);
    if (!shape) throw new Error("There is no such shape.");
    return `Drew ${describe(shape)}.`;
  },
};

/** What the browser says when it does not tell, by its code. */
const NO_POSITION: Record<number, string> = {
  1: "The location was not told: the user, or the browser, did not allow it.",
  2: "The location is not known to the browser.",
  3: "The location was not found in time.",
};

function whereAmI(signal: AbortSignal): Promise<GeolocationCoordinates> {
  return new Promise((resolve, reject) => {
    if (!window.isSecureContext) throw new Error("The browser tells the location only to pages on https or localhost.");
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => resolve(coords),
      ({ code, message }) => reject(new Error(NO_POSITION[code] ?? message)),
      { timeout: 30_000, maximumAge: 60_000 },
    );
  });
}

/** A browser shows the clipboard only to the page that somebody works with. */
function whenInFront(signal: AbortSignal): Promise<void> {
  if (document.hasFocus()) return Promise.resolve();
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    window.addEventListener("focus", () => resolve(), { once: true, signal });
  });
}
