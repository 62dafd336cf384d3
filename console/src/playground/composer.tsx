import { useState } from "preact/hooks";

import { Button } from "../components/button";
import { box } from "./box";
import type { Conversation } from "./conversation";

/** Where the user speaks. */
export function Composer({ conversation }: { conversation: Conversation }) {
  const [typed, setTyped] = useState("");
  const isBusy = conversation.isBusy.value || conversation.sending.value !== undefined;
  // What is typed can still be read and copied, and said in another conversation.
  const isGone = conversation.isGone.value;
  const send = async () => {
    const text = typed.trim();
    if (text === "" || isBusy || isGone) return;
    setTyped("");
    // What was typed meanwhile comes after what was not taken.
    if (!(await conversation.say(text))) setTyped((meanwhile) => (meanwhile === "" ? text : `${text}\n${meanwhile}`));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  };
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void send();
    box.current?.focus();
  };
  return (
    <form class="composer" onSubmit={onSubmit}>
      <textarea
        ref={box}
        rows={1}
        aria-label="Message"
        aria-describedby="composer-help"
        placeholder="Say something to the model"
        enterkeyhint="send"
        readOnly={isGone}
        aria-disabled={isGone}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {isBusy ? (
        <Button
          onClick={() => {
            void conversation.stop();
            box.current?.focus();
          }}
        >
          Stop
        </Button>
      ) : (
        <Button kind="primary" type="submit" disabled={typed.trim() === "" || isGone}>
          Send
        </Button>
      )}
      <span id="composer-help" class="hidden">
        Enter sends, Shift and Enter begin a new line.
      </span>
    </form>
  );
}
