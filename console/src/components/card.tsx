import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

/** A part of a page, with a heading. */
export function Card(props: { title: string; note?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{props.title}</h2>
        {props.note && <span class="note">{props.note}</span>}
        {props.actions && <div class="card-actions">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** What is said where there is nothing yet. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>;
}
