// The calls that the page knows of, the newest 20,000 at the most; older ones are forgotten.

import type { Call, CallState, HandbackEvent, Outcome } from "@handback/client";

export const MOST_CALLS = 20_000;
/** So many more may come before the oldest are looked for: that is done for many at once. */
const SLACK = 1000;
/** How much of an error is kept, in characters: all of it is read when a call is looked at. */
const KEPT_ERROR = 300;

export type OutcomeStatus = Outcome["status"];

/** What is kept of a call. Its input and output are read when somebody looks at it. */
export interface CallRow {
  requestID: string;
  sessionID: string;
  messageID: string;
  callID: string;
  tool: string;
  clientID: string;
  state: CallState;
  attempt: number;
  /** In ms since 1970. */
  created: number;
  /** In ms; unknown until the call was read. */
  times: Call["times"] | undefined;
  /** Unknown until the call was read, and where the server has forgotten it. */
  outcome: OutcomeStatus | undefined;
  error: string | undefined;
  /** Whether a result came when the call was over. */
  hasLateResult: boolean;
  /** Runs in the page that the chat is in. */
  isFrontend: boolean;
  /** In order of arrival, for those of the same millisecond. */
  readonly number: number;
  /** What the filter looks through. */
  readonly text: string;
}

/** How long a call took, in ms. Nobody knows of one that the server's restart ended: all of its times are 0. */
export function tookOf({ approval, queue, execute }: Call["times"]): number | undefined {
  return approval + queue + execute || undefined;
}

type Ids = Pick<CallRow, "requestID" | "sessionID" | "messageID" | "callID" | "tool" | "clientID">;
type Reference = Omit<Ids, "requestID">;

export class Calls {
  readonly #rows = new Map<string, CallRow>();
  /** Calls under way by what events name them with, which need not be one call's alone. */
  readonly #underWay = new Map<string, Set<CallRow>>();
  /** All rows, the oldest first, unless `#isSorted` is false. */
  #ordered: CallRow[] = [];
  #isSorted = true;
  #arrived = 0;
  /** When the newest was made of those that were forgotten, in ms since 1970. */
  #forgotten = Number.NEGATIVE_INFINITY;

  get size(): number {
    return this.#rows.size;
  }

  get(requestID: string): CallRow | undefined {
    return this.#rows.get(requestID);
  }

  /** Oldest first. Not to be changed. */
  ordered(): readonly CallRow[] {
    this.#settle();
    return this.#ordered;
  }

  /** Whether calls were forgotten that were made after this time, in ms since 1970. */
  forgotAfter(time: number): boolean {
    return this.#forgotten > time;
  }

  /** Those that are not done. */
  underWay(): CallRow[] {
    return [...this.#underWay.values()].flatMap((rows) => [...rows]);
  }

  /** Takes what the server says of a call. */
  read(call: Call): void {
    const row = this.#rows.get(call.requestID) ?? this.#add(call, Date.parse(call.created));
    const created = Date.parse(call.created);
    if (row.created !== created) this.#isSorted = false;
    row.created = created;
    row.attempt = call.attempt;
    row.times = call.times;
    row.isFrontend = call.executionMode === "frontend";
    row.outcome = call.outcome?.status;
    row.error = call.outcome && "error" in call.outcome ? call.outcome.error.slice(0, KEPT_ERROR) : undefined;
    // The server's list leaves it out.
    row.hasLateResult ||= call.lateResult != null;
    this.#move(row, call.state);
  }

  /** The server does not know it any more; how it ended will not be known. */
  forgotten(requestID: string): void {
    const row = this.#rows.get(requestID);
    if (row) this.#move(row, "done");
  }

  /** Takes what an event says, and gives the calls that have to be read to know more; `undefined`: it is not known which. */
  hear(event: HandbackEvent): string[] | undefined {
    switch (event.type) {
      case "client-tool.request": {
        const { clientID, request } = event.properties;
        if (this.#rows.has(request.requestID)) return [request.requestID];
        const row = this.#add({ ...request, clientID }, Date.now());
        row.attempt = request.attempt ?? 1;
        row.isFrontend = request.executionMode === "frontend";
        return [row.requestID];
      }
      case "client-tool.executing":
        return this.#moveNamed(event.properties, "offered");
      case "client-tool.completed":
        return this.#moveNamed(event.properties, "done", { outcome: "success" });
      case "client-tool.failed":
        return this.#moveNamed(event.properties, "done", { error: event.properties.error.slice(0, KEPT_ERROR) });
      case "client-tool.late": {
        const { requestID } = event.properties;
        const row = this.#rows.get(requestID);
        if (row) row.hasLateResult = true;
        return [requestID];
      }
      case "permission.updated":
      case "permission.replied":
        return undefined;
      default:
        return [];
    }
  }

  /** An event names a call by ids that several may share: then it is for the server to say which. */
  #moveNamed(named: Reference, state: CallState, end: Partial<CallRow> = {}): string[] | undefined {
    const rows = [...(this.#underWay.get(nameOf(named)) ?? [])];
    const [row] = rows;
    if (!row) return undefined;
    if (rows.length === 1) {
      Object.assign(row, end);
      this.#move(row, state);
    }
    return rows.map(({ requestID }) => requestID);
  }

  #add(ids: Ids, created: number): CallRow {
    const { requestID, sessionID, messageID, callID, tool, clientID } = ids;
    const text = [requestID, tool, clientID, sessionID, callID].join("\n").toLowerCase();
    const unknown = { times: undefined, outcome: undefined, error: undefined, hasLateResult: false, isFrontend: false };
    const named = { requestID, sessionID, messageID, callID, tool, clientID };
    this.#arrived += 1;
    const row: CallRow = { ...named, ...unknown, state: "queued", attempt: 1, created, number: this.#arrived, text };
    this.#rows.set(requestID, row);
    const newest = this.#ordered.at(-1);
    if (newest && newest.created > created) this.#isSorted = false;
    this.#ordered.push(row);
    this.#move(row, row.state);
    if (this.#rows.size > MOST_CALLS + SLACK) this.#settle();
    return row;
  }

  #move(row: CallRow, state: CallState): void {
    row.state = state;
    const name = nameOf(row);
    const rows = this.#underWay.get(name);
    if (state !== "done") {
      if (rows) rows.add(row);
      else this.#underWay.set(name, new Set([row]));
    } else if (rows?.delete(row) && rows.size === 0) {
      this.#underWay.delete(name);
    }
  }

  /** Puts the rows in order, and forgets the oldest of too many. */
  #settle(): void {
    if (!this.#isSorted) this.#ordered.sort((one, other) => one.created - other.created || one.number - other.number);
    this.#isSorted = true;
    const excess = this.#ordered.length - MOST_CALLS;
    if (excess <= 0) return;
    for (const row of this.#ordered.splice(0, excess)) {
      this.#move(row, "done");
      this.#rows.delete(row.requestID);
      this.#forgotten = Math.max(this.#forgotten, row.created);
    }
  }
}

function nameOf({ sessionID, messageID, callID, tool, clientID }: Reference): string {
  return [sessionID, messageID, callID, tool, clientID].join("\n");
}
