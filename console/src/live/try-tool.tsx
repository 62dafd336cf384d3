import { type Call, HandbackError, type Outcome, type Tool } from "@handback/client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { messageOf, request } from "../api";
import { announce } from "../components/announcer";
import { Badge } from "../components/badge";
import { Button } from "../components/button";
import { Dialog } from "../components/dialog";
import { tookOf } from "../world/calls";
import { OutcomeView } from "./outcome";
import { type Draft, emptyDraft, fieldOf, inputOf } from "./schema";
import { Editor } from "./schema-form";
import { duration, OUTCOMES, shortName } from "./words";

/** How long one request waits for the call to end, in ms; then it is asked again. */
const WAIT = 20_000;

type Progress = { at: "idle" } | { at: "busy" } | { at: "refused"; reason: string } | { at: "done"; call: Ended };
type Ended = { outcome: Outcome; times: Call["times"] };

/** Calls a tool with what is typed into a form, as the application would. */
export function TryTool({ tool, clientID, onClose }: { tool: Tool; clientID: string; onClose: () => void }) {
  // A form has a single field for all of it where the schema does not say more.
  const field = useMemo(() => {
    const whole = fieldOf(tool.parameters, "", true);
    return whole.kind === "object" ? whole : fieldOf(undefined, "Input", true);
  }, [tool]);
  const [draft, setDraft] = useState<Draft>(() => (field.kind === "object" ? emptyDraft(field, tool.parameters) : "{}"));
  const [progress, setProgress] = useState<Progress>({ at: "idle" });
  const isShown = useRef(true);
  useEffect(() => () => void (isShown.current = false), []);

  const run = async (): Promise<Progress> => {
    try {
      const body = { toolID: tool.id, input: inputOf(field, draft), wait: false };
      const { requestID } = await request<{ requestID: string }>("POST", ["client-tools", "execute"], { body });
      const call = await endOf(requestID, () => isShown.current);
      return call ? { at: "done", call } : { at: "idle" };
    } catch (error) {
      return { at: "refused", reason: messageOf(error) };
    }
  };
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    setProgress({ at: "busy" });
    const after = await run();
    setProgress(after);
    if (after.at === "done") announce(`The call ended: ${OUTCOMES[after.call.outcome.status]}`);
  };
  return (
    <Dialog title={`Try ${shortName(tool.id, clientID)}`} onClose={onClose}>
      <form class="form" onSubmit={(event) => void onSubmit(event)}>
        {tool.description && <p class="field-help">{tool.description}</p>}
        <Editor field={field} draft={draft} onChange={setDraft} />
        {progress.at === "refused" && (
          <p class="alert" role="alert">
            {progress.reason}
          </p>
        )}
        <div class="form-actions">
          <Button kind="primary" type="submit" disabled={progress.at === "busy"}>
            {progress.at === "busy" ? "Waiting for the client" : "Call the tool"}
          </Button>
          <span class="note">Runs on {clientID}, without an approval.</span>
        </div>
        {progress.at === "done" && <Result call={progress.call} />}
      </form>
    </Dialog>
  );
}

function Result({ call: { outcome, times } }: { call: Ended }) {
  const took = tookOf(times);
  return (
    <section class="result" aria-label="Result">
      <div class="form-actions">
        <Badge tone={outcome.status === "success" ? "good" : "bad"}>{OUTCOMES[outcome.status]}</Badge>
        {took !== undefined && <span class="note">after {duration(took)}</span>}
      </div>
      <OutcomeView outcome={outcome} />
    </section>
  );
}

/** Waits for the end of a call, through lost connections, as long as somebody looks. */
async function endOf(requestID: string, isWanted: () => boolean): Promise<Ended | undefined> {
  while (isWanted()) {
    const path = ["client-tools", "calls", requestID];
    try {
      const { outcome, times } = await request<Call>("GET", path, { query: { wait: String(WAIT) }, timeout: 2 * WAIT });
      if (outcome) return { outcome, times };
    } catch (error) {
      if (!(error instanceof HandbackError) || !error.transient) throw error;
      await new Promise((resolve) => setTimeout(resolve, error.retryAfter ?? 1000));
    }
  }
  return undefined;
}
