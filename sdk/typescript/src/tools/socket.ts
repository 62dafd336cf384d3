// One WebSocket, from its opening to its end.

import { HandbackError } from "../error.js";
import { after } from "./time.js";
import { MAX_MESSAGE, parseObject } from "./transport.js";

/** How long opening and every answer may take, in ms. */
const ANSWER_TIMEOUT = 30_000;

/** Another connection took over under this one's name. */
export const SUPERSEDED = "SUPERSEDED";

/** The part of a WebSocket that is used: that of browsers, of Node, or of the package `ws`. */
export interface WebSocketLike {
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

export type WebSocketConstructor = new (url: string) => WebSocketLike;

type Message = Record<string, unknown>;

interface Question {
  resolve(answer: Message): void;
  reject(error: unknown): void;
}

export class Socket {
  /** Resolves when messages can be sent; rejects if it does not come to that. */
  readonly opened: Promise<void>;
  /** Why it is over, once it is. Never rejects. */
  readonly lost: Promise<HandbackError>;

  readonly #socket: WebSocketLike;
  readonly #place: string;
  readonly #silence: number;
  readonly #questions = new Map<number, Question>();
  #questionCount = 0;
  #isOver = false;
  #lose: (error: HandbackError) => void = () => {};
  #keepTime: () => void;
  #lastHeard = performance.now();

  constructor(socket: WebSocketLike, place: string, silence: number, take: (message: Message) => void) {
    this.#socket = socket;
    this.#place = place;
    this.#silence = silence;
    this.lost = new Promise((resolve) => (this.#lose = resolve));
    this.opened = new Promise((resolve, reject) => {
      socket.onopen = () => {
        this.#watch();
        resolve();
      };
      void this.lost.then(reject);
    });
    // Whoever only waits for the end need not care for the beginning.
    this.opened.catch(() => undefined);
    socket.onmessage = ({ data }: { data: unknown }) => this.#hear(data, take);
    // Says nothing that the close event after it does not; `ws` wants it to be heard.
    socket.onerror = () => undefined;
    socket.onclose = ({ code, reason }: { code: number; reason: string }) => this.#end(whyClosed(code, reason, place));
    this.#keepTime = after(ANSWER_TIMEOUT, () => this.#fail("it did not open in time"));
  }

  /** What was sent and is not on its way yet, in bytes. */
  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  /** Sends a message and gives the answer to it. */
  async ask(message: Message, signal: AbortSignal): Promise<Message> {
    if (this.#isOver) throw this.#interrupted("it was closed");
    const ref = ++this.#questionCount;
    const answer = new Promise<Message>((resolve, reject) => this.#questions.set(ref, { resolve, reject }));
    const giveUp = () => this.#questions.get(ref)?.reject(signal.reason);
    const late = () => this.#questions.get(ref)?.reject(this.#interrupted("no answer came in time"));
    const callOff = after(ANSWER_TIMEOUT, late);
    signal.addEventListener("abort", giveUp);
    try {
      this.#socket.send(JSON.stringify({ ...message, ref }));
      return await answer;
    } finally {
      callOff();
      signal.removeEventListener("abort", giveUp);
      this.#questions.delete(ref);
    }
  }

  close(): void {
    this.#end(this.#interrupted("it was closed"));
    this.#socket.close(1000);
  }

  #hear(data: unknown, take: (message: Message) => void): void {
    if (this.#isOver) return;
    this.#lastHeard = performance.now();
    if (typeof data !== "string") return;
    if (data.length > MAX_MESSAGE) return this.#fail(`a message is larger than ${MAX_MESSAGE} characters`);
    const message = parseObject(data);
    const { ref } = message;
    const question = typeof ref === "number" ? this.#questions.get(ref) : undefined;
    if (question) question.resolve(message);
    else take(message);
  }

  /** A dead connection looks like a silent one: what the server says, if only to a ping, shows that it is not. */
  #watch(): void {
    this.#keepTime();
    this.#keepTime = after(this.#silence / 3, () => {
      if (performance.now() - this.#lastHeard >= this.#silence) {
        return this.#fail(`the server is silent for ${this.#silence / 1000} s`);
      }
      this.#socket.send('{"type":"ping"}');
      this.#watch();
    });
  }

  /** Gives the connection up. The server may not be there to say goodbye to, which the socket would wait for. */
  #fail(reason: string): void {
    this.#end(this.#interrupted(reason));
    this.#socket.close();
  }

  #end(error: HandbackError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#keepTime();
    for (const { reject } of [...this.#questions.values()]) reject(error);
    this.#lose(error);
  }

  #interrupted(reason: string): HandbackError {
    return new HandbackError("interrupted", `the connection to ${this.#place} was lost: ${reason}`);
  }
}

/** What the code says about coming back. */
function whyClosed(code: number, reason: string, place: string): HandbackError {
  const said = reason === "" ? String(code) : `${code}, ${reason}`;
  if (code === 1008) {
    const message = `the server at ${place} does not accept the connection any more: ${said}`;
    return new HandbackError("refused", message, { status: 401, code: "UNAUTHORIZED" });
  }
  if (code === 4009) {
    const message = `another connection to ${place} took over under the name of this one: ${said}`;
    return new HandbackError("interrupted", message, { code: SUPERSEDED });
  }
  return new HandbackError("interrupted", `the connection to ${place} was lost: ${said}`);
}
