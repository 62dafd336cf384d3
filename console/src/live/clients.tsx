import type { Tool } from "@handback/client";
import { useEffect, useState } from "preact/hooks";

import { Badge } from "../components/badge";
import { Button } from "../components/button";
import { Card, Empty } from "../components/card";
import { type Client, clients, clientsTrouble, toolsOf, watchClients, watchTools } from "../world/clients";
import { TryTool } from "./try-tool";
import { shortName, timeOfDay } from "./words";

/** How many are shown; the rest is counted. */
const SHOWN = 100;

export function ClientsCard() {
  useEffect(watchClients, []);
  const all = clients.value;
  return (
    <Card title="Clients" note={String(all.length)}>
      {clientsTrouble.value !== undefined && (
        <p class="alert" role="alert">
          Clients cannot be read: {clientsTrouble.value}
        </p>
      )}
      {all.length === 0 ? (
        <Empty>
          <p>No client is known. One is shown here as soon as it registers tools or connects.</p>
        </Empty>
      ) : (
        <ul class="clients">
          {all.slice(0, SHOWN).map((client) => (
            <ClientItem key={client.id} client={client} />
          ))}
        </ul>
      )}
      {all.length > SHOWN && <p class="more note">and {all.length - SHOWN} more</p>}
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
          {client.connections > 0 ? <Badge tone="good">Connected</Badge> : <Badge tone="calm">Away</Badge>}
          <span class="client-facts note">
            {count(client.connections, "connection")} · {count(client.tools, "tool")} · {count(client.calls, "call")} under way ·
            since {timeOfDay(Date.parse(client.since))}
          </span>
        </summary>
        {isOpen && <Tools clientID={client.id} />}
      </details>
    </li>
  );
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
