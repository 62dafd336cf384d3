import { useState } from "preact/hooks";

import { isKeyWanted, key, useKey } from "./api";
import { Button } from "./components/button";
import { Dialog } from "./components/dialog";

/** Asks for the key, if the server wants one. */
export function KeyDialog() {
  return isKeyWanted.value ? <AskForKey /> : null;
}

function AskForKey() {
  const [typed, setTyped] = useState("");
  const onSubmit = (event: Event) => {
    event.preventDefault();
    if (typed.trim() !== "") useKey(typed.trim());
  };
  return (
    <Dialog title="This server asks for a key">
      <form class="form" onSubmit={onSubmit}>
        {key.value !== undefined && <p role="alert">The key was not accepted.</p>}
        <label class="field">
          <span class="field-name">Application key</span>
          <input
            type="password"
            autocomplete="off"
            autofocus
            required
            // What a header can carry.
            pattern="[!-~]+"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <span class="field-help">It stays in this tab and is forgotten with it.</span>
        </label>
        <div class="form-actions">
          <Button kind="primary" type="submit">
            Use this key
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
