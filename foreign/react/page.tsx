// A page with `useChat`: a frontend tool that the executor runs, page tools, and questions. What to show it is told in its
// address.

import { useChat } from "@ai-sdk/react";
import { FrontendToolExecutor, openUrl } from "@handback/client";
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithToolCalls,
  type ToolUIPart,
  type UIMessage,
} from "ai";
import { StrictMode, useState, useSyncExternalStore } from "react";
import { createRoot } from "react-dom/client";

const { server, chat, model } = JSON.parse(decodeURIComponent(location.hash.slice(1)));

const executor = new FrontendToolExecutor({ baseUrl: server });
executor.register("open-url", openUrl());
/** What ends the question for a color, while it is asked. */
let pick = (_color: string) => {};
// To be asked again does no harm.
executor.register("pick_color", () => new Promise((picked) => (pick = (color) => picked({ color }))), { again: true });

const object = { type: "object" };
const tools = [
  { name: "locate", description: "Where the user is", parameters: object },
  { name: "confirm", description: "Asks the user", parameters: object },
];
const transport = new DefaultChatTransport({ api: `${server}/api/chat`, body: { tools, model } });

function Chat({ messages: initial }: { messages: UIMessage[] }) {
  const { messages, sendMessage, status, error, addToolOutput } = useChat({
    id: chat,
    messages: initial,
    transport,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall: (call) => {
      executor.onToolCall(call);
      const { toolName, toolCallId } = call.toolCall;
      if (toolName === "locate") void addToolOutput({ tool: toolName, toolCallId, output: "Oslo" });
    },
  });
  const [text, setText] = useState("");
  const calls = useSyncExternalStore(executor.subscribe, executor.getSnapshot);
  return (
    <main style={{ font: "16px sans-serif", maxWidth: "40rem" }}>
      {messages.map(({ id, role, parts }) => (
        <article key={id} data-role={role}>
          <b>{role}</b>
          {parts.map((part, place) => {
            if (part.type === "text") return <p key={place}>{part.text}</p>;
            if (isToolUIPart(part)) return <Tool key={place} part={part as ToolUIPart} />;
            return null;
          })}
        </article>
      ))}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void sendMessage({ text });
          setText("");
        }}
      >
        <textarea value={text} onChange={({ target }) => setText(target.value)} />
        <button>Send</button>
      </form>
      <output>{status}</output>
      <div role="alert">{error?.message}</div>
    </main>
  );

  function Tool({ part: { type, toolCallId, state, input, output, errorText } }: { part: ToolUIPart }) {
    const tool = type.slice("tool-".length);
    const phase = calls.get(toolCallId)?.phase;
    const isOpen = state === "input-available";
    return (
      <fieldset data-tool={tool} data-state={state} data-phase={phase}>
        <legend>
          {tool} {state} {phase}
        </legend>
        <code>{JSON.stringify(input)}</code> <code>{errorText ?? JSON.stringify(output)}</code>
        {tool === "pick_color" && phase === "running" && <button onClick={() => pick("teal")}>Teal</button>}
        {tool === "confirm" && isOpen && (
          <>
            <button onClick={() => addToolOutput({ tool, toolCallId, output: "yes" })}>Yes</button>
            <button onClick={() => addToolOutput({ tool, toolCallId, state: "output-error", errorText: "not now" })}>
              Not now
            </button>
          </>
        )}
      </fieldset>
    );
  }
}

const response = await fetch(`${server}/api/chat/${chat}`);
const { messages = [] } = response.ok ? await response.json() : {};
createRoot(document.querySelector("#root")!).render(
  <StrictMode>
    <Chat messages={messages} />
  </StrictMode>,
);
