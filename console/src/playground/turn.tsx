import type { MessageWithParts, Part, ToolPart } from "@handback/client";

import { Text, writeOut } from "../components/text";
import type { Conversation } from "./conversation";
import { type Shape, shapeOf } from "./drawing";
import { Prose } from "./prose";
import { shortName, ToolCard } from "./tool-card";
import type { Turn } from "./transcript";

/** What was said, and the answer. */
export function TurnView({ turn, conversation, drawings }: { turn: Turn; conversation: Conversation; drawings: Drawings }) {
  const last = turn.answers.at(-1);
  const parts = turn.answers.flatMap((answer) => answer.parts);
  return (
    <>
      {turn.question && <Said text={textOf(turn.question)} />}
      {last && (
        <div class="answer">
          {parts.map((part) => (
            <PartView key={part.id} part={part} conversation={conversation} drawings={drawings} />
          ))}
          <Ending message={last} />
        </div>
      )}
    </>
  );
}

/** What the user said. */
export function Said({ text }: { text: string }) {
  return (
    <div class="said">
      <span class="hidden">You said: </span>
      {writeOut(text)}
    </div>
  );
}

function PartView({ part, conversation, drawings }: { part: Part; conversation: Conversation; drawings: Drawings }) {
  if (isCall(part)) return <ToolCard part={part} conversation={conversation} shapes={drawings.get(part.callID) ?? []} />;
  if (part.type === "text") return <Prose text={part.text ?? ""} />;
  if (part.type !== "reasoning" || !part.text) return null;
  return (
    <details class="thoughts">
      <summary>Thoughts</summary>
      <Text text={part.text} label="Thoughts" />
    </details>
  );
}

/** Which model it was, and what went wrong. */
function Ending({ message: { info } }: { message: MessageWithParts }) {
  const { error, providerID, modelID, time } = info;
  if (!error && time.completed == null) return null;
  return (
    <>
      {error && error.name !== "MessageAbortedError" && (
        <p class="alert" role="alert">
          {writeOut(error.data.message || error.name)}
        </p>
      )}
      <p class="note model">
        {error?.name === "MessageAbortedError" && "Stopped · "}
        {providerID}/{modelID}
      </p>
    </>
  );
}

/** The drawing as it was after each call that drew something, by `callID`. */
export type Drawings = ReadonlyMap<string, readonly Shape[]>;

export function drawingsOf(turns: readonly Turn[]): Drawings {
  const drawings = new Map<string, readonly Shape[]>();
  let shapes: readonly Shape[] = [];
  for (const part of turns.flatMap(({ answers }) => answers.flatMap(({ parts }) => parts))) {
    if (!isCall(part) || shortName(part.tool) !== "draw" || part.state.status !== "completed") continue;
    const shape = shapeOf(part.state.input ?? {});
    if (shape) shapes = [...shapes, shape];
    drawings.set(part.callID, shapes);
  }
  return drawings;
}

function isCall(part: Part): part is ToolPart {
  return part.type === "tool" && part.state != null && part.tool != null && part.callID != null;
}

function textOf({ parts }: MessageWithParts): string {
  return parts.flatMap((part) => (part.type === "text" && part.text ? [part.text] : [])).join("\n");
}
