import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

import { Button } from "./button";

interface DialogProps {
  title: string;
  /** Without it the dialog cannot be closed. */
  onClose?: (() => void) | undefined;
  children: ComponentChildren;
}

/** Something that wants attention. The browser keeps the focus inside, and gives it back afterwards. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  const onCancel = (event: Event) => {
    event.preventDefault();
    onClose?.();
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={id} onCancel={onCancel}>
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        {onClose && (
          <Button kind="quiet" onClick={onClose}>
            Close
          </Button>
        )}
      </header>
      {children}
    </dialog>
  );
}
