import { Badge } from "../components/badge";
import { connection } from "../events";
import { standing, type Standing } from "./words";

/**
 * Where a call stands, or how it ended. While nothing is heard, nobody knows what became of those under way.
 * It takes the parts of a row: rows change in place, and a component that follows a signal is drawn anew only for new props.
 */
export function CallBadge(call: Standing) {
  const { tone, word } = standing(call);
  if (call.state === "done" || connection.value.state === "open") return <Badge tone={tone}>{word}</Badge>;
  return (
    <Badge tone="calm" title={`${word} when it was last heard of`}>
      Unknown
    </Badge>
  );
}
