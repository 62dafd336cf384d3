import { useState } from "preact/hooks";

import { Button } from "../components/button";
import { Card, Empty } from "../components/card";
import { MOST_CALLS } from "../world/calls";
import { calls, callsBeat, reader } from "../world/world";
import { CallDetail } from "./call-detail";
import { CallList } from "./call-list";
import { clearFilter, isFiltered, outcome, shown, state, text } from "./filter";
import { FirstCall } from "./first-call";
import { OUTCOMES, STATES } from "./words";

export function CallsCard() {
  const [opened, setOpened] = useState<string>();
  void callsBeat.value;
  const rows = shown(calls.ordered());
  const count = (number: number) => number.toLocaleString("en");
  const known = reader.older.value === undefined ? count(calls.size) : `the latest ${count(calls.size)}`;
  const note = isFiltered() ? `${count(rows.length)} of ${known}` : known;
  return (
    <Card title="Calls" note={calls.size >= MOST_CALLS ? `${note}; only the newest ${count(MOST_CALLS)} are kept here` : note}>
      <Filter />
      {reader.trouble.value && (
        <p class="alert" role="alert">
          Calls cannot be read: {reader.trouble.value}
        </p>
      )}
      {calls.size === 0 ? (
        <NoCalls />
      ) : rows.length === 0 ? (
        <Empty>
          <p>No call fits the filter.</p>
        </Empty>
      ) : (
        <CallList rows={rows} onOpen={setOpened} />
      )}
      {reader.hasOlder && <Older count={count(calls.size)} />}
      {opened !== undefined && <CallDetail key={opened} requestID={opened} onClose={() => setOpened(undefined)} />}
    </Card>
  );
}

/** Says that there are more calls than those that were read. */
function Older({ count }: { count: string }) {
  const isBusy = reader.isReadingOlder.value;
  return (
    <div class="older">
      <p class="note">
        The server has older calls. {isFiltered() ? `Only the latest ${count} are searched.` : `The latest ${count} are shown.`}
      </p>
      <Button disabled={isBusy} onClick={() => void reader.readOlder()}>
        {isBusy ? "Reading older calls" : "Show older calls"}
      </Button>
    </div>
  );
}

function Filter() {
  return (
    <search class="filter">
      <input
        type="search"
        aria-label="Filter by id, tool, client or session"
        placeholder="Filter by id, tool, client, session"
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <select aria-label="State" value={state.value} onChange={(event) => (state.value = event.currentTarget.value)}>
        <option value="">Every state</option>
        {Object.entries(STATES).map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      <select aria-label="Outcome" value={outcome.value} onChange={(event) => (outcome.value = event.currentTarget.value)}>
        <option value="">Every outcome</option>
        {Object.entries(OUTCOMES).map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      <Button kind="quiet" disabled={!isFiltered()} onClick={clearFilter}>
        Clear
      </Button>
    </search>
  );
}

function NoCalls() {
  return (
    <Empty>
      <p>No calls yet. Each is shown here as it moves through approval, queue and execution.</p>
      <FirstCall />
    </Empty>
  );
}
