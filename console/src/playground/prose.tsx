// What a model says, with the little of Markdown that reads badly as plain text. Nothing of it is ever markup.

import type { ComponentChildren } from "preact";

import { isWebAddress, SafeLink, Text, writeOut } from "../components/text";

const FENCE = /^```[^\n]*\n([\s\S]*?)(?:\n```[^\S\n]*$|$(?![\s\S]))/m;
/** Code, what is strong, and addresses, without what ends a sentence after them. */
const MARKED = /(`[^`\n]+`|\*\*[^*\n]+\*\*|https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}])/;

export function Prose({ text }: { text: string }) {
  // Every second piece is what a fence holds.
  const pieces = text.split(new RegExp(FENCE, "gm"));
  return (
    <div class="prose">
      {pieces.map((piece, index) =>
        index % 2 === 1 ? <Text key={index} text={piece} label="Code" /> : piece.trim() !== "" && <p key={index}>{inline(piece.trim())}</p>,
      )}
    </div>
  );
}

function inline(text: string): ComponentChildren[] {
  return writeOut(text)
    .split(MARKED)
    .map((piece, index) => {
      if (index % 2 === 0) return piece;
      if (piece.startsWith("`")) return <code key={index}>{piece.slice(1, -1)}</code>;
      if (piece.startsWith("**")) return <strong key={index}>{piece.slice(2, -2)}</strong>;
      return isWebAddress(piece) ? <SafeLink key={index} url={piece} /> : piece;
    });
}
