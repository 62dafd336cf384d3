import type { Tool } from "@handback/client";
import { useEffect, useState } from "preact/hooks";

import { Badge } from "../components/badge";
import { Button } from "../components/button";
import { Card, Empty } from "../components/card";
import { areClientsCurrent, type Client, clients, clientsTrouble, toolsOf, watchClients, watchTools } from "../world/clients";
import { TryTool } from "./try-tool";
import { shortName, timeOfDay } from "./words";

/** How many are shown; the rest is counted. */
const SHOWN = 100;

export function ClientsCard() {
  useEffect(watchClients, []);
  const [text, setText] = useState("");
  const all = clients.value;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter(({ id }) => words.every((word) => id.toLowerCase().includes(word)));
  return (
    <Card title="Clients" note={words.length > 0 ? `${found.length} of ${all.length}` : String(all.length)}>
      {clientsTrouble.value !== undefined && (
        <p class="alert" role="alert">
          Clients cannot be read: {clientsTrouble.value}
        </p>
      )}
      {all.length > 0 && (
        <div class="find">
          <input
            type="search"
            aria-label="Search clients"
            placeholder="Search clients"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </div>
      )}
      {found.length === 0 ? (
        <Empty>
          <p>
            {all.length === 0
              ? "No client is known. One is shown here as soon as it registers tools or connects."
              : "No client has a name like that."}
          </p>
        </Empty>
      ) : (
        <ul class="clients">
          {found.slice(0, SHOWN).map((client) => (
            <ClientItem key={client.id} client={client} />
          ))}
        </ul>
      )}
      {found.length > SHOWN && <p class="more note">and {found.length - SHOWN} more: search to find them</p>}
    </Card>
  );
}

function ClientItem({ client }: { client: Client }) {
  const [isOpen, setOpen] = useState(false);
  const count = (number: number, word: string) => `${number} ${word}${number === 1 ? "" : "s"}`;
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="client-name">{client.id}</span>
          <Presence client={client} />
          <span class="client-facts note">
            {!areClientsCurrent.value && "Last known: "}
            {count(client.connections, "connection")} · {count(client.tools, "tool")} · {count(client.calls, "call")} under way ·
            since {timeOfDay(Date.parse(client.since))}
          </span>
        </summary>
        {isOpen && <Tools clientID={client.id} />}
      </details>
    </li>
  );
}

function Presence({ client }: { client: Client }) {
  if (!areClientsCurrent.value) return <Badge tone="calm">Unknown</Badge>;
  return client.connections > 0 ? <Badge tone="good">Connected</Badge> : <Badge tone="calm">Away</Badge>;
}

function Tools({ clientID }: { clientID: string }) {
  const [tried, setTried] = useState<Tool>();
  useEffect(() => watchTools(clientID), [clientID]);
  const tools = toolsOf.value.get(clientID);
  return (
    <>
      {tools?.length === 0 && <p class="note">It has no tools.</p>}
      <ul class="tools">
        {tools?.map((tool) => (
          <li key={tool.id}>
            <div>
              <p class="mono">{shortName(tool.id, clientID)}</p>
              {tool.description && <p class="note">{tool.description}</p>}
            </div>
            <Button onClick={() => setTried(tool)} aria-label={`Try ${shortName(tool.id, clientID)}`}>
              Try
            </Button>
          </li>
        ))}
      </ul>
      {tried && <TryTool tool={tried} clientID={clientID} onClose={() => setTried(undefined)} />}
    </>
  );
}
