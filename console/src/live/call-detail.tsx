import type { Call, Outcome } from "@handback/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { messageOf, request } from "../api";
import { announce } from "../components/announcer";
import { Button } from "../components/button";
import { Dialog } from "../components/dialog";
import { Json } from "../components/text";
import { readCall } from "../world/reader";
import { calls, callsBeat } from "../world/world";
import { CallBadge } from "./call-badge";
import { OutcomeView } from "./outcome";
import { Timeline } from "./timeline";
import { shortName, timeOfDay } from "./words";

/** All about one call, kept up while it is open. */
export function CallDetail({ requestID, onClose }: { requestID: string; onClose: () => void }) {
  const [call, setCall] = useState<Call>();
  const [trouble, setTrouble] = useState<string>();
  void callsBeat.value;
  const row = calls.get(requestID);
  // Read again whenever it has moved, and for its times as long as it is under way.
  const second = useSeconds(row !== undefined && row.state !== "done");
  const standsAt = `${row?.state} ${row?.attempt} ${row?.outcome} ${row?.hasLateResult}`;
  useEffect(() => {
    let isWanted = true;
    readCall(requestID).then(
      (read) => isWanted && (setCall(read), setTrouble(undefined)),
      (error: unknown) => isWanted && setTrouble(messageOf(error)),
    );
    return () => void (isWanted = false);
  }, [requestID, standsAt, second]);
  const title = row ? shortName(row.tool, row.clientID) : requestID;
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="dialog-body">
        {trouble && (
          <p class="alert" role="alert">
            {trouble}
          </p>
        )}
        {row && (
          <div class="form-actions" aria-live="polite">
            <CallBadge state={row.state} outcome={row.outcome} error={row.error} />
            {row.state !== "done" && <CancelButton requestID={requestID} />}
          </div>
        )}
        {call && <Facts call={call} />}
      </div>
    </Dialog>
  );
}

/** How many seconds have passed, as long as they are counted. */
function useSeconds(isCounting: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!isCounting) return;
    const interval = setInterval(() => setSeconds((before) => before + 1), 1000);
    return () => clearInterval(interval);
  }, [isCounting]);
  return seconds;
}

function Facts({ call }: { call: Call }) {
  const facts: [string, string][] = [
    ["Request", call.requestID],
    ["Tool", call.tool],
    ["Client", call.clientID],
    ["Session", call.sessionID],
    ["Message", call.messageID],
    ["Call", call.callID],
    ["Effect", call.effect],
    ["Attempt", String(call.attempt)],
    ["Made", timeOfDay(Date.parse(call.created))],
    ["Expires", call.deadline ? timeOfDay(Date.parse(call.deadline)) : "Not yet: its time begins when it is allowed"],
  ];
  return (
    <>
      <Timeline call={call} />
      <h3>Input</h3>
      <Json value={call.input ?? {}} label="Input" />
      {call.outcome && <OutcomeView outcome={call.outcome} />}
      {call.mayHaveRun != null && <p>{call.mayHaveRun ? "The tool may have run." : "The tool did not run."}</p>}
      {call.lateResult && <LateResult call={call} result={call.lateResult} />}
      <dl class="facts">
        {facts
          .filter(([, value]) => value !== "")
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </>
  );
}

/** A result that came when the call was over. The model does not know of it, unless somebody wants that. */
function LateResult({ call, result }: { call: Call; result: Outcome }) {
  const [said, setSaid] = useState<string>();
  const adopt = async () => {
    try {
      await request("POST", ["client-tools", "calls", call.requestID, "adopt"], {});
      setSaid("The model reads it in the next turn.");
    } catch (error) {
      setSaid(messageOf(error));
    }
  };
  return (
    <section aria-label="Came too late">
      <p>A result came when the call was over:</p>
      <OutcomeView outcome={result} />
      {call.sessionID && <Button onClick={() => void adopt()}>Tell the model</Button>}
      {said && <p role="status">{said}</p>}
    </section>
  );
}

function CancelButton({ requestID }: { requestID: string }) {
  const [isBusy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState<string>();
  const cancel = async () => {
    setBusy(true);
    setTrouble(undefined);
    try {
      await request("POST", ["client-tools", "cancel"], { body: { requestID, reason: "cancelled in the console" } });
      announce("The call is cancelled");
    } catch (error) {
      setTrouble(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  const onClick = (event: JSX.TargetedMouseEvent<HTMLButtonElement>) => {
    // This button goes with the call; the dialog stays.
    event.currentTarget.closest("dialog")?.querySelector<HTMLElement>(".dialog-head button")?.focus();
    void cancel();
  };
  return (
    <>
      <Button kind="danger" disabled={isBusy} onClick={onClick}>
        Cancel the call
      </Button>
      {trouble && (
        <p class="alert" role="alert">
          {trouble}
        </p>
      )}
    </>
  );
}
