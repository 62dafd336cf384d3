// What others say, shown as text: nothing of it is ever markup.

import { useState } from "preact/hooks";

import { Button } from "./button";

/** How much is shown at once, in characters. The rest comes when asked for. */
const SHOWN = 20_000;

/** Marks that turn the text around them: one could make it read as something else. */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function writeOut(text: string): string {
  return text.replace(TURNING, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A text as it is, but for marks that would hide what it is; those are written out. */
export function Text({ text, label }: { text: string; label: string }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > SHOWN && !isWhole;
  const shown = isLong ? text.slice(0, SHOWN) : text;
  return (
    <>
      <pre class="text" tabIndex={0} aria-label={label}>
        {writeOut(shown)}
      </pre>
      {isLong && <Button onClick={() => setWhole(true)}>Show all {text.length.toLocaleString()} characters</Button>}
    </>
  );
}

/** A value as JSON. */
export function Json({ value, label }: { value: unknown; label: string }) {
  return <Text text={JSON.stringify(value, undefined, 2) ?? "undefined"} label={label} />;
}

/** A link, if it leads to a web page; otherwise its address as text. */
export function SafeLink({ url, children }: { url: string; children?: string }) {
  if (!isWebAddress(url)) return <span>{children === undefined ? url : `${children} (${url})`}</span>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children ?? url}
    </a>
  );
}

export function isWebAddress(url: string): boolean {
  return URL.canParse(url) && ["http:", "https:"].includes(new URL(url).protocol);
}
