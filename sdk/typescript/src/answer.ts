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

/** `{error, code, details}` of the client-tools API, or `{name, data: {message}}` of the session API. */
export function parseFailure(text: string): { message?: string; code?: string; details?: unknown } {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page, for example: the status says it.
    return {};
  }
  if (typeof body !== "object" || body === null) return {};
  const { error, code, details, name, data } = body as Record<string, unknown>;
  if (typeof error === "string") {
    return { message: error, ...(typeof code === "string" && { code }), ...(details !== undefined && { details }) };
  }
  const message = (data as { message?: unknown } | null | undefined)?.message;
  if (typeof message === "string" && message !== "") return { message, details: body };
  return typeof name === "string" ? { message: name, details: body } : {};
}
