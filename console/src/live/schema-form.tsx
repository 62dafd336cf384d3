import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import { Button } from "../components/button";
import { type Draft, emptyDraft, type Field } from "./schema";

/** How many items a list of a form can have. */
const MOST_ITEMS = 100;

interface EditorProps<F extends Field = Field> {
  field: F;
  draft: Draft;
  onChange: (draft: Draft) => void;
}

/** Edits what is typed for a field. */
export function Editor({ field, draft, onChange }: EditorProps) {
  if (field.kind === "object") return <ObjectEditor field={field} draft={draft} onChange={onChange} />;
  if (field.kind === "list") return <ListEditor field={field} draft={draft} onChange={onChange} />;
  return <LeafEditor field={field} draft={draft} onChange={onChange} />;
}

function LeafEditor({ field, draft, onChange }: EditorProps) {
  const id = useId();
  const value = typeof draft === "string" ? draft : "";
  const onInput = (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value);
  const common = { id, value, required: field.isRequired && field.kind !== "string", "aria-describedby": `${id}-help` };
  return (
    <div class="field">
      <label for={id} class="field-name">
        {field.title} <Required field={field} />
      </label>
      {field.kind === "choice" ? (
        <select {...common} onChange={onInput}>
          <option value="">{field.isRequired ? "Choose" : "Not given"}</option>
          {field.choices.map((choice, index) => (
            <option key={index} value={String(index)}>
              {typeof choice === "string" ? choice : JSON.stringify(choice)}
            </option>
          ))}
        </select>
      ) : field.kind === "json" ? (
        <textarea {...common} rows={4} spellcheck={false} placeholder="JSON" onInput={onInput} />
      ) : (
        <input {...common} type="text" inputMode={field.kind === "number" ? "decimal" : "text"} autocomplete="off" onInput={onInput} />
      )}
      <span id={`${id}-help`} class="field-help">
        {field.description}
      </span>
    </div>
  );
}

function ObjectEditor({ field, draft, onChange }: EditorProps<Extract<Field, { kind: "object" }>>) {
  const parts = typeof draft === "object" && !Array.isArray(draft) ? draft : {};
  return (
    <Group field={field}>
      {field.fields.map(([name, inner]) => (
        <Editor key={name} field={inner} draft={parts[name] ?? ""} onChange={(part) => onChange({ ...parts, [name]: part })} />
      ))}
    </Group>
  );
}

function ListEditor({ field, draft, onChange }: EditorProps<Extract<Field, { kind: "list" }>>) {
  const items = Array.isArray(draft) ? draft : [];
  const replace = (index: number, ...by: Draft[]) => onChange(items.toSpliced(index, 1, ...by));
  return (
    <Group field={field}>
      {items.map((item, index) => (
        <div class="list-item" key={index}>
          <Editor
            field={{ ...field.item, title: `${field.title} ${index + 1}` }}
            draft={item}
            onChange={(changed) => replace(index, changed)}
          />
          <Button kind="quiet" onClick={() => replace(index)} aria-label={`Remove ${field.title} ${index + 1}`}>
            Remove
          </Button>
        </div>
      ))}
      <div>
        <Button disabled={items.length >= MOST_ITEMS} onClick={() => onChange([...items, emptyDraft(field.item)])}>
          Add to {field.title}
        </Button>
      </div>
    </Group>
  );
}

function Group({ field, children }: { field: Field; children: ComponentChildren }) {
  if (field.title === "") return <>{children}</>;
  return (
    <fieldset>
      <legend class="field-name">
        {field.title} <Required field={field} />
      </legend>
      {field.description && <p class="field-help">{field.description}</p>}
      {children}
    </fieldset>
  );
}

function Required({ field }: { field: Field }) {
  return field.isRequired ? <span class="required">required</span> : null;
}
