import type { Permission, ToolPart } from "@handback/client";

import { Badge } from "../components/badge";
import { Button } from "../components/button";
import { isWebAddress, Json, Text, writeOut } from "../components/text";
import { duration } from "../live/words";
import { asks } from "../world/asks";
import { AskForm } from "./ask";
import { Canvas } from "./canvas";
import type { Conversation } from "./conversation";
import type { Shape } from "./drawing";
import { aboutTool, OPEN_URL } from "./offer";
import { openAgain, openings } from "./opening";
import { QuestionForm } from "./question";
import { questions } from "./questions";
import { opening, standing } from "./standing";

/** What the browser may want of the user while a tool runs. */
const HINTS: Record<string, string> = {
  location: "The browser may ask you whether this page may know where you are.",
  read_clipboard: "The browser may ask you whether this page may see the clipboard.",
};

interface ToolCardProps {
  part: ToolPart;
  conversation: Conversation;
  /** What was drawn so far, this call included. */
  shapes: readonly Shape[];
}

/** A tool call: what the model wants, where it stands, and what came of it. */
export function ToolCard({ part, conversation, shapes }: ToolCardProps) {
  const name = shortName(part.tool);
  const { title } = aboutTool(name);
  const ask = asks.value.find(({ callID }) => callID === part.callID);
  const { tone, word, isOver } = standing(part, conversation.outcomes.value.get(part.callID), ask !== undefined);
  return (
    <article class="tool-card" aria-label={`${title}: ${word}`}>
      <header class="tool-head">
        <strong>{title}</strong>
        {title !== name && <code class="note">{name}</code>}
        <Badge tone={tone}>{word}</Badge>
        {isOver && <Took part={part} />}
      </header>
      <fieldset class="tool-body" role="presentation" disabled={conversation.isGone.value}>
        <Body part={part} name={name} title={title} ask={isOver ? undefined : ask} shapes={shapes} />
      </fieldset>
      {isOver && <Details part={part} title={title} />}
    </article>
  );
}

/** How long it took, if that is known. */
function Took({ part }: { part: ToolPart }) {
  const { start, end } = part.state.time ?? {};
  return start != null && end != null && end > start ? <span class="note">{duration(end - start)}</span> : null;
}

interface BodyProps {
  part: ToolPart;
  name: string;
  title: string;
  ask: Permission | undefined;
  shapes: readonly Shape[];
}

function Body({ part, name, title, ask, shapes }: BodyProps) {
  const { status, raw, input, output, error } = part.state;
  if (ask) return <AskForm ask={ask} title={title} />;
  if (status === "pending") return raw ? <Text text={raw} label={`Arguments of ${title}, as they are written`} /> : null;
  if (name === OPEN_URL) return <Opening part={part} />;
  if (status === "error") return <p class="alert">{writeOut(error || "It failed and did not say why.")}</p>;
  if (status === "completed") {
    if (name === "draw" && shapes.length > 0) return <Canvas shapes={shapes} />;
    return output ? <Text text={output} label={`Result of ${title}`} /> : <p class="note">It gave no output.</p>;
  }
  const question = questions.value.find(({ callID }) => callID === part.callID);
  if (question) return <QuestionForm question={question} />;
  if (HINTS[name] !== undefined) return <p class="note">{HINTS[name]}</p>;
  return isEmpty(input) ? null : <Json value={input} label={`Arguments of ${title}`} />;
}

function Opening({ part }: { part: ToolPart }) {
  const { callID, tool, state } = part;
  const url = String(state.input?.["url"] ?? "");
  const said = opening(part, openings.value.get(callID));
  return (
    <div class="opening">
      <code class="address">{writeOut(url)}</code>
      {isWebAddress(url) && (
        <Button onClick={() => openAgain({ toolCallId: callID, toolName: tool, input: state.input ?? {} })}>
          Open<span class="hidden"> {url}</span>
        </Button>
      )}
      {said !== "" && <p class="note">{writeOut(said)}</p>}
    </div>
  );
}

/** All that was said, for those who want to know. */
function Details({ part, title }: { part: ToolPart; title: string }) {
  const { input, output, error } = part.state;
  return (
    <details class="tool-details">
      <summary>
        Details<span class="hidden"> of {title}</span>
      </summary>
      <h3>Arguments</h3>
      <Json value={input ?? {}} label={`Arguments of ${title}`} />
      <h3>{part.state.status === "error" ? "Error" : "Result"}</h3>
      <Text text={(part.state.status === "error" ? error : output) || "(nothing)"} label={`What ${title} gave`} />
      <p class="note">
        Call <code>{part.callID}</code>, also in <a href="#/live">Live</a>
      </p>
    </details>
  );
}

/** The tool's own name: a playground's client has no underscore in it. */
export function shortName(tool: string): string {
  return tool.replace(/^client_[^_]+_/, "");
}

function isEmpty(input: Record<string, unknown> | null | undefined): boolean {
  return Object.keys(input ?? {}).length === 0;
}
