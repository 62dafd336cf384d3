import { useState } from "preact/hooks";

import { Button } from "./button";

/** A line of a terminal, to be copied. */
export function CopyLine({ line, label }: { line: string; label: string }) {
  const [said, setSaid] = useState("Copy");
  const copy = () =>
    navigator.clipboard.writeText(line).then(
      () => setSaid("Copied"),
      () => setSaid("Select and copy it"),
    );
  return (
    <div class="copy-line">
      <pre class="text" tabIndex={0} aria-label={label}>
        {line}
      </pre>
      <Button onClick={() => void copy()}>
        <span aria-live="polite">{said}</span>
      </Button>
    </div>
  );
}
