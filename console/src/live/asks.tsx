import type { Permission, Reply } from "@handback/client";
import { useEffect, useRef, useState } from "preact/hooks";

import { messageOf } from "../api";
import { announce } from "../components/announcer";
import { Button } from "../components/button";
import { Card } from "../components/card";
import { Json } from "../components/text";
import { asks, asksTrouble, replyTo } from "../world/asks";
import { shortName } from "./words";

/** How many are shown; the others move up. */
const SHOWN = 20;

/** Calls that wait for somebody to allow them. */
export function AsksCard() {
  const waiting = asks.value;
  useEffect(() => {
    if (waiting.length > 0) announce(`${waiting.length} ${waiting.length === 1 ? "call waits" : "calls wait"} for your approval`);
  }, [waiting.length]);
  if (waiting.length === 0 && asksTrouble.value === undefined) return null;
  return (
    <Card title="Waiting for approval" note={String(waiting.length)}>
      {asksTrouble.value !== undefined && (
        <p class="alert" role="alert">
          Asks cannot be read: {asksTrouble.value}
        </p>
      )}
      <ul class="asks">
        {waiting.slice(0, SHOWN).map((ask) => (
          <AskItem key={ask.id} ask={ask} />
        ))}
      </ul>
      {waiting.length > SHOWN && <p class="more note">and {waiting.length - SHOWN} more</p>}
    </Card>
  );
}

function AskItem({ ask }: { ask: Permission }) {
  const item = useRef<HTMLLIElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState<string>();
  const name = shortName(ask.tool, ask.clientID);
  const answer = async (reply: Reply, said: string) => {
    setBusy(true);
    focusBeside(item.current);
    setTrouble(undefined);
    try {
      await replyTo(ask, reply);
      announce(`${name}: ${said}`);
    } catch (error) {
      setTrouble(messageOf(error));
      setBusy(false);
      item.current?.focus();
    }
  };
  return (
    <li ref={item} class="ask" tabIndex={-1} aria-label={`${name} on ${ask.clientID}`}>
      <p>
        <strong>{name}</strong> on {ask.clientID} <span class="note">in session {ask.sessionID}</span>
      </p>
      <Json value={ask.input} label={`Input of ${name}`} />
      <div class="form-actions">
        <Button kind="primary" disabled={isBusy} onClick={() => void answer("once", "allowed once")}>
          Allow once
        </Button>
        <Button disabled={isBusy} onClick={() => void answer("always", "always allowed in this session")}>
          Always in this session
        </Button>
        <Button kind="danger" disabled={isBusy} onClick={() => void answer("reject", "denied")}>
          Deny
        </Button>
      </div>
      {trouble && (
        <p class="alert" role="alert">
          {trouble}
        </p>
      )}
    </li>
  );
}

/** This one will be gone: the focus goes to the next, but to none of its buttons, which could be pressed by mistake. */
function focusBeside(item: HTMLElement | null): void {
  const next = item?.nextElementSibling ?? item?.previousElementSibling ?? document.getElementById("main");
  if (next instanceof HTMLElement) next.focus({ preventScroll: next.id === "main" });
}
