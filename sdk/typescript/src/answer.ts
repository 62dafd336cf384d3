// What the server's answers say.

/** How large an answer may be, in characters: a session's newest messages are the largest. More of it is not read. */
export const MAX_ANSWER = 64 * 1024 * 1024;

/** The text of an answer; `undefined` if it is too large. */
export async function readText(response: Response): Promise<string | undefined> {
  if (!response.body) return response.text();
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length <= MAX_ANSWER) continue;
    await reader.cancel();
    return undefined;
  }
}

/** Whether an answer is an object with a text of this name. */
export function hasText(name: string): (answer: unknown) => boolean {
  return (answer) => typeof field(answer, name) === "string";
}

/** Whether an answer is an object with a `true` of this name. */
export function hasTrue(name: string): (answer: unknown) => boolean {
  return (answer) => field(answer, name) === true;
}

function field(answer: unknown, name: string): unknown {
  return (answer as Record<string, unknown> | null | undefined)?.[name];
}

/** What a failure says of itself. */
export interface Failure {
  message?: string;
  code?: string;
  details?: unknown;
  /** Whether it has one of the shapes in which Handback refuses. */
  isOurs: boolean;
}

/** What the body of a failure says, in any of the shapes of Handback. */
export function parseFailure(text: string): Failure {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page, for example: the status says it.
  }
  if (typeof body !== "object" || body === null) return { isOurs: false };
  return { ...saidIn(body as Record<string, unknown>), isOurs: isOurs(body as Record<string, unknown>) };
}

/**
 * `{error, code}` of the client-tools API, `{name, data}` of the session API, `{ok: false}` of the acks, `{detail}` of
 * the rooms. Others say `{error}` or `{message}`, too.
 */
function isOurs({ error, code, name, data, ok, detail }: Record<string, unknown>): boolean {
  const hasCode = typeof error === "string" && typeof code === "string";
  const hasName = typeof name === "string" && typeof data === "object";
  return hasCode || hasName || ok === false || typeof detail === "string";
}

/** `{error, code, details}` of the client-tools API, or `{name, data: {message}}` of the session API. */
function saidIn(body: Record<string, unknown>): Omit<Failure, "isOurs"> {
  const { error, code, details, name, data } = body;
  if (typeof error === "string") {
    return { message: error, ...(typeof code === "string" && { code }), ...(details !== undefined && { details }) };
  }
  const message = (data as { message?: unknown } | null | undefined)?.message;
  if (typeof message === "string" && message !== "") return { message, details: body };
  return typeof name === "string" ? { message: name, details: body } : {};
}
