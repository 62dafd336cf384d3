// What tools ask the user. A call reaches one tab only, while the user may look at another one that shows the same
// conversation: so the tabs of a browser tell each other, and any of them takes the answer.

import { signal } from "@preact/signals";

export interface Question {
  requestID: string;
  sessionID: string;
  callID: string;
  text: string;
}

/** Nothing instead of a text: the user would rather not say. */
type Answer = string | undefined;

type Word =
  | { type: "asked"; question: Question }
  | { type: "answered"; requestID: string; answer: Answer }
  | { type: "over"; requestID: string }
  /** A tab was opened: what is asked at the moment? */
  | { type: "hello" };

/** What is asked at the moment, in any tab: as many as there are calls under way, which the SDK bounds. */
export const questions = signal<readonly Question[]>([]);

/** Those that were asked in this tab. */
const waiting = new Map<string, { question: Question; settle: (answer: Answer) => void }>();
const tabs = new BroadcastChannel("handback.questions");

tabs.onmessage = ({ data }: MessageEvent<Word>) => {
  if (data.type === "asked") show(data.question);
  else if (data.type === "answered") waiting.get(data.requestID)?.settle(data.answer);
  else if (data.type === "over") hide(data.requestID);
  else for (const { question } of waiting.values()) tell({ type: "asked", question });
};
tell({ type: "hello" });

/** Asks, and resolves with the answer of whichever tab has it first. Rejects when nobody waits for it any more. */
export async function ask(question: Question, signal: AbortSignal): Promise<Answer> {
  const { requestID } = question;
  try {
    return await new Promise<Answer>((resolve, reject) => {
      waiting.set(requestID, { question, settle: resolve });
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      show(question);
      tell({ type: "asked", question });
    });
  } finally {
    waiting.delete(requestID);
    hide(requestID);
    tell({ type: "over", requestID });
  }
}

export function answer({ requestID }: Question, given: Answer): void {
  const asked = waiting.get(requestID);
  if (asked) asked.settle(given);
  else tell({ type: "answered", requestID, answer: given });
}

function tell(word: Word): void {
  tabs.postMessage(word);
}

function show(question: Question): void {
  questions.value = [...questions.value.filter(({ requestID }) => requestID !== question.requestID), question];
}

function hide(id: string): void {
  questions.value = questions.value.filter(({ requestID }) => requestID !== id);
}
