import { useState } from "preact/hooks";

import { checkKey, isKeyChanging, isKeyWanted, key, messageOf, useKey } from "./api";
import { Button } from "./components/button";
import { Dialog } from "./components/dialog";
import { connection } from "./events";

/** Asks for the key, if the server wants one or somebody wants to change it. */
export function KeyDialog() {
  if (isKeyWanted.value) return <AskForKey title="This server asks for a key" />;
  if (isKeyChanging.value) return <AskForKey title="Change the key" onClose={() => (isKeyChanging.value = false)} />;
  return null;
}

const NOT_ACCEPTED = "The key was not accepted.";
const CLIENT_TOKEN =
  "This is a client token. It speaks for one client only, and the console shows all of them: it needs an application key. " +
  "Whoever set up the server has one; its SHA-256 hash is in auth.keys of the server's handback.toml.";

function AskForKey({ title, onClose }: { title: string; onClose?: () => void }) {
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState(isKeyWanted.value && key.value !== undefined ? NOT_ACCEPTED : undefined);
  const submit = async () => {
    const given = typed.trim();
    if (given === "") return;
    setBusy(true);
    setTrouble(undefined);
    try {
      const found = await checkKey(given);
      if (found === "good") useKey(given);
      else setTrouble(found === "wrong" ? NOT_ACCEPTED : CLIENT_TOKEN);
    } catch (error) {
      setTrouble(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  const isOpenToAll = connection.value.state === "open" && key.value === undefined;
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void submit();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="form" onSubmit={onSubmit}>
        {isOpenToAll && <p class="note">This server needs no key at the moment.</p>}
        {trouble !== undefined && (
          <p class="alert" role="alert">
            {trouble}
          </p>
        )}
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
          <Button kind="primary" type="submit" disabled={isBusy}>
            Use this key
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
