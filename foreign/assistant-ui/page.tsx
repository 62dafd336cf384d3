// A page with assistant-ui. Its address says whether it uses the AI SDK's chat or AG-UI, and whether it has tools; all else is the
// same for both.

import { HttpAgent } from "@ag-ui/client";
import {
  type AssistantRuntime,
  AssistantRuntimeProvider,
  ComposerPrimitive,
  makeAssistantTool,
  MessagePrimitive,
  ThreadPrimitive,
  useAuiState,
} from "@assistant-ui/react";
import { useAgUiRuntime } from "@assistant-ui/react-ag-ui";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { z } from "zod";

const { server, wire, tools } = JSON.parse(decodeURIComponent(location.hash.slice(1)));

const Locate = makeAssistantTool({
  toolName: "locate",
  description: "Where somebody is",
  parameters: z.object({ who: z.string() }),
  execute: async ({ who }) => `${who} is in Oslo`,
});
const Measure = makeAssistantTool({
  toolName: "measure",
  description: "The size of the window",
  parameters: { type: "object", properties: {} },
  execute: async () => ({ width: innerWidth }),
});

const transport = new AssistantChatTransport({ api: `${server}/api/chat` });
const agent = new HttpAgent({ url: `${server}/agui` });

const RUNTIMES: Record<string, () => AssistantRuntime> = {
  // Without `sendAutomaticallyWhen` the result of a page's tool stays in the page.
  chat: () => useChatRuntime({ transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls }),
  agui: () => useAgUiRuntime({ agent }),
};
// It never changes while the page is open, so React always sees the same hooks.
const useRuntime = RUNTIMES[wire];

function Chat() {
  return (
    <AssistantRuntimeProvider runtime={useRuntime()}>
      {tools && [<Locate key="locate" />, <Measure key="measure" />]}
      <Thread />
    </AssistantRuntimeProvider>
  );
}

function Thread() {
  const isRunning = useAuiState(({ thread }) => thread.isRunning);
  return (
    <ThreadPrimitive.Root style={{ font: "16px sans-serif", maxWidth: "40rem" }}>
      <ThreadPrimitive.Messages>
        {({ message: { role } }) => (
          <article data-role={role}>
            <b>{role}</b>
            <MessagePrimitive.Parts>
              {({ part }) => {
                if (part.type === "text") return <p>{part.text}</p>;
                if (part.type !== "tool-call") return null;
                return (
                  <fieldset data-tool={part.toolName}>
                    <legend>{part.toolName}</legend>
                    <code>{part.argsText}</code> <code>{JSON.stringify(part.result)}</code>
                  </fieldset>
                );
              }}
            </MessagePrimitive.Parts>
          </article>
        )}
      </ThreadPrimitive.Messages>
      <ComposerPrimitive.Root>
        <ComposerPrimitive.Input />
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
      </ComposerPrimitive.Root>
      <output>{isRunning ? "running" : "ready"}</output>
    </ThreadPrimitive.Root>
  );
}

createRoot(document.querySelector("#root")!).render(
  <StrictMode>
    <Chat />
  </StrictMode>,
);
