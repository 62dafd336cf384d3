import "./playground/playground.css";

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "./components/button";
import { box } from "./playground/box";
import { Composer } from "./playground/composer";
import { type Conversation, conversation, followConversation, startAnew } from "./playground/conversation";
import { openings } from "./playground/opening";
import { questions } from "./playground/questions";
import { isOffered, offeredAs, offerTrouble } from "./playground/tools";
import { drawingsOf, Said, TurnView } from "./playground/turn";
import { Welcome } from "./playground/welcome";
import { asks } from "./world/asks";

/** How near to the end somebody must be to be taken along when something is added, in px. */
const NEAR = 160;

/** A conversation with a model that may use this page. */
export function Playground() {
  useEffect(followConversation, []);
  const shown = conversation.value;
  const say = (text: string) => {
    void shown.say(text);
    box.current?.focus();
  };
  const isBegun = shown.id !== undefined || shown.sending.value !== undefined;
  return (
    <div class="playground">
      {isBegun ? <Log shown={shown} /> : <Welcome onSay={say} />}
      <div class="foot">
        {shown.trouble.value !== undefined && (
          <p class="alert" role="alert">
            {shown.trouble.value}
          </p>
        )}
        <Composer conversation={shown} />
        <Offer />
      </div>
    </div>
  );
}

function Log({ shown }: { shown: Conversation }) {
  const turns = shown.turns();
  const drawings = drawingsOf(turns);
  const isNear = useRef(true);
  useEffect(() => {
    const onScroll = () => (isNear.current = document.documentElement.scrollHeight - window.innerHeight - window.scrollY < NEAR);
    window.addEventListener("scroll", onScroll, { passive: true });
    return () => window.removeEventListener("scroll", onScroll);
  }, []);
  // What makes cards grow.
  void [asks.value, questions.value, openings.value];
  useLayoutEffect(() => {
    if (isNear.current) window.scrollTo({ top: document.documentElement.scrollHeight });
  });
  const anew = () => {
    startAnew();
    box.current?.focus();
  };
  return (
    <>
      <div class="page-head conversation-head">
        <h1>Conversation</h1>
        <Button class="anew" onClick={anew}>
          New conversation
        </Button>
      </div>
      <div class="log" role="log" aria-live="polite" aria-label="Conversation" aria-busy={shown.isBusy.value}>
        {shown.isLong && <p class="note">What was said before is not shown any more.</p>}
        {turns.map((turn) => (
          <TurnView key={turn.id} turn={turn} conversation={shown} drawings={drawings} />
        ))}
        {shown.sending.value !== undefined && <Said text={shown.sending.value} />}
        {shown.isGone.value && (
          <div class="gone">
            <p class="note">The server does not know this conversation: it was deleted, or the server keeps nothing.</p>
            <Button onClick={anew}>New conversation</Button>
          </div>
        )}
        {!shown.isGone.value && !shown.isRead.value && <p class="note">Reading the conversation…</p>}
      </div>
    </>
  );
}

/** Whether the tools of this page can be called. */
function Offer() {
  const clientID = offeredAs.value;
  if (clientID === undefined) return null;
  return (
    <p class="note offer">
      {offerTrouble.value === undefined ? (
        <>
          This page {isOffered.value ? "offers" : "is about to offer"} its tools as <code>{clientID}</code>
        </>
      ) : (
        `The tools of this page cannot be called at the moment: ${offerTrouble.value}`
      )}
    </p>
  );
}
