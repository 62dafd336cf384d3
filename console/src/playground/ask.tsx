import type { Permission, Reply, ReplyOptions } from "@handback/client";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { messageOf } from "../api";
import { announce } from "../components/announcer";
import { Button } from "../components/button";
import { Json } from "../components/text";
import { replyTo } from "../world/asks";
import { box } from "./box";

/** A call that somebody has to allow first: as it is, or with other arguments. */
export function AskForm({ ask, title }: { ask: Permission; title: string }) {
  const [view, setView] = useState<"ask" | "edit" | "deny">("ask");
  const [isBusy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState<string>();
  const reply = async (word: Reply, said: string, more?: ReplyOptions) => {
    setBusy(true);
    box.current?.focus();
    setTrouble(undefined);
    try {
      await replyTo(ask, word, more);
      announce(`${title}: ${said}`);
    } catch (error) {
      setTrouble(messageOf(error));
      setBusy(false);
    }
  };
  const approve = (input: Record<string, unknown>) => void reply("once", "approved", { input });
  const deny = (message: string) => void reply("reject", "denied", message === "" ? {} : { message });
  const back = () => {
    setView("ask");
    setTrouble(undefined);
    box.current?.focus();
  };
  return (
    <div class="allow">
      <p>The model wants to use this tool. Nothing happens until you allow it.</p>
      {view !== "edit" && <Arguments input={ask.input} title={title} />}
      {view === "ask" && (
        <div class="form-actions">
          <Button kind="primary" disabled={isBusy} onClick={() => void reply("once", "approved")}>
            Approve
          </Button>
          <Button
            disabled={isBusy}
            title="In this conversation"
            onClick={() => void reply("always", "always approved in this conversation")}
          >
            Always
          </Button>
          <Button disabled={isBusy} onClick={() => setView("edit")}>
            Edit
          </Button>
          <Button kind="danger" disabled={isBusy} onClick={() => setView("deny")}>
            Deny
          </Button>
        </div>
      )}
      {view === "edit" && <Edit ask={ask} isBusy={isBusy} onDone={approve} onTrouble={setTrouble} onBack={back} />}
      {view === "deny" && <Deny isBusy={isBusy} onDone={deny} onBack={back} />}
      {trouble !== undefined && (
        <p class="alert" role="alert">
          {trouble}
        </p>
      )}
    </div>
  );
}

function Arguments({ input, title }: { input: Permission["input"]; title: string }) {
  if (Object.keys(input).length === 0) return <p class="note">Without arguments.</p>;
  return <Json value={input} label={`Arguments of ${title}`} />;
}

interface EditProps {
  ask: Permission;
  isBusy: boolean;
  onDone: (input: Record<string, unknown>) => void;
  onTrouble: (text: string | undefined) => void;
  onBack: () => void;
}

function Edit({ ask, isBusy, onDone, onTrouble, onBack }: EditProps) {
  const id = useId();
  const field = useFocus<HTMLTextAreaElement>();
  const [typed, setTyped] = useState(() => JSON.stringify(ask.input, undefined, 2));
  const onSubmit = (event: Event) => {
    event.preventDefault();
    const input = parseObject(typed);
    if (typeof input === "string") onTrouble(input);
    else onDone(input);
  };
  return (
    <form class="form" onSubmit={onSubmit}>
      <div class="field">
        <label class="field-name" for={id}>
          Arguments, as JSON
        </label>
        <textarea
          ref={field}
          id={id}
          rows={Math.min(12, typed.split("\n").length + 1)}
          spellcheck={false}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </div>
      <div class="form-actions">
        <Button kind="primary" type="submit" disabled={isBusy}>
          Approve with these
        </Button>
        <Button kind="quiet" onClick={onBack}>
          Back
        </Button>
      </div>
    </form>
  );
}

function Deny({ isBusy, onDone, onBack }: { isBusy: boolean; onDone: (message: string) => void; onBack: () => void }) {
  const id = useId();
  const field = useFocus<HTMLInputElement>();
  const [typed, setTyped] = useState("");
  const onSubmit = (event: Event) => {
    event.preventDefault();
    onDone(typed.trim());
  };
  return (
    <form class="form" onSubmit={onSubmit}>
      <div class="field">
        <label class="field-name" for={id}>
          Reason, for the model <span class="required">(if you like)</span>
        </label>
        <input ref={field} id={id} value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
      </div>
      <div class="form-actions">
        <Button kind="danger" type="submit" disabled={isBusy}>
          Deny it
        </Button>
        <Button kind="quiet" onClick={onBack}>
          Back
        </Button>
      </div>
    </form>
  );
}

/** Gives the focus to a field when it is shown: `autofocus` does so only once in the life of a page. */
function useFocus<Field extends HTMLElement>() {
  const field = useRef<Field>(null);
  useEffect(() => field.current?.focus(), []);
  return field;
}

/** An object, or what is wrong with the text. */
function parseObject(text: string): Record<string, unknown> | string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    return "The arguments are a JSON object, such as {}.";
  } catch (error) {
    return `This is no JSON: ${messageOf(error)}`;
  }
}
