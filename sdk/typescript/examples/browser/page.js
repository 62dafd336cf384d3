// Two tools that run in this page. Open it with ?server=http://… for a server elsewhere.

import { createHandbackClient } from "@handback/client";

/** How many lines the log of calls has; the oldest go. */
const MAX_LINES = 200;

const settings = new URLSearchParams(location.search);
const baseUrl = settings.get("server") ?? "http://127.0.0.1:4096";
const client = createHandbackClient({ baseUrl });
const tools = client.clientTools;
/**
 * The conversation, once there is one; a new one after it has failed.
 * @type {ReturnType<typeof client.startSession> | undefined}
 */
let session;

await tools.register(
  "local_time",
  {
    description: "Tells the local date and time, and the time zone",
    parameters: { type: "object", properties: {} },
    effect: "read",
  },
  () => {
    const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
    return `${new Date().toLocaleString("en", { dateStyle: "full", timeStyle: "long" })} (${timeZone})`;
  },
);

await tools.register(
  "paint_page",
  {
    description: "Paints the page in a colour, and changes its title",
    parameters: {
      type: "object",
      properties: {
        colour: { type: "string", description: 'A CSS colour such as "teal" or "#2a6".' },
        title: { type: "string", maxLength: 100, description: "The new title; the old one stays if absent." },
      },
      required: ["colour"],
    },
    effect: "write",
  },
  ({ colour, title }) => {
    if (!CSS.supports("color", colour)) throw new Error(`${colour} is not a colour`);
    document.documentElement.style.setProperty("--tint", colour);
    if (title !== undefined) document.title = element("h1").textContent = title;
    return `The page is ${colour} now.`;
  },
);

tools.on("state", ({ state, error }) => {
  const shown = element("#state");
  shown.textContent = state;
  shown.dataset["state"] = state;
  element("#reason").textContent = error?.message ?? "";
  element("#connection").textContent = state === "closed" ? "Connect" : "Disconnect";
});

tools.on("call", ({ tool, type, ...event }) => {
  const details = "error" in event ? event.error : "reason" in event ? event.reason : undefined;
  const elapsed = "elapsed" in event ? `in ${Math.round(event.elapsed)} ms` : undefined;
  const name = tool.slice(`client_${client.clientID}_`.length);
  const line = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = new Date().toLocaleTimeString();
  line.append(time, ["", name, type, elapsed, details].filter((part) => part !== undefined).join(" "));
  line.classList.toggle("failed", details !== undefined);
  const calls = element("#calls");
  calls.append(line);
  while (calls.childElementCount > MAX_LINES) calls.firstElementChild?.remove();
  line.scrollIntoView({ block: "nearest" });
});

element("#command").textContent = `handback chat --client ${client.clientID} "What is the local time?"`;

element("#connection").addEventListener("click", () => {
  if (tools.state === "closed") connect();
  else void tools.disconnect();
});

element("#ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = element("#answer");
  const send = /** @type {HTMLButtonElement} */ (element("#send"));
  const { value } = /** @type {HTMLInputElement} */ (element("#prompt"));
  send.disabled = true;
  answer.textContent = "…";
  try {
    answer.textContent = await ask(value);
  } catch (error) {
    answer.textContent = String(error);
  } finally {
    send.disabled = false;
  }
});

connect();

/** @param {string} text */
async function ask(text) {
  session ??= client.startSession({ tools: false, title: "From a page" });
  try {
    return (await (await session).prompt(text)).text;
  } catch (error) {
    session = undefined;
    throw error;
  }
}

function connect() {
  // Why it was refused is shown beside the state.
  tools.connect().catch(() => undefined);
}

/**
 * @param {string} selector
 * @returns {HTMLElement}
 */
function element(selector) {
  const found = document.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`there is no ${selector}`);
  return found;
}
