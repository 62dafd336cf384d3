import type { Attachment, Outcome } from "@handback/client";

import { Json, SafeLink, Text } from "../components/text";

/** Kinds of pictures that are shown; anything else is named. */
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/;

/** How a call ended, with all that came back. */
export function OutcomeView({ outcome }: { outcome: Outcome }) {
  if (outcome.status !== "success") {
    return (
      <>
        <h3>Error</h3>
        <Text text={outcome.error} label="Error" />
      </>
    );
  }
  return (
    <>
      <h3>{outcome.title || "Output"}</h3>
      <Text text={outcome.output ?? ""} label="Output" />
      {outcome.metadata && <Json value={outcome.metadata} label="Metadata" />}
      <Attachments attachments={outcome.attachments ?? []} />
    </>
  );
}

function Attachments({ attachments }: { attachments: Attachment[] }) {
  if (attachments.length === 0) return null;
  return (
    <ul class="attachments">
      {attachments.map(({ url, mime, filename }, index) => (
        <li key={index}>
          {PICTURE.test(url) ? (
            <img src={url} alt={filename ?? mime} />
          ) : url.startsWith("data:") ? (
            `${filename ?? "A file"} (${mime}, ${url.length.toLocaleString("en")} characters)`
          ) : (
            <SafeLink url={url}>{filename ?? url}</SafeLink>
          )}
        </li>
      ))}
    </ul>
  );
}
