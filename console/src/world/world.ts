// What the page knows of the server: read when it connects, then kept up by what it hears.

import { subscribe } from "../events";
import { hearOfAsks, readAsks } from "./asks";
import { Beat } from "./beat";
import { Calls } from "./calls";
import { hearOfClients, wantClients } from "./clients";
import { Reader } from "./reader";

const beat = new Beat();

export const calls = new Calls();
export const reader = new Reader(calls, beat.mark);
/** Another number whenever calls have changed. */
export const callsBeat = beat.signal;

export function follow(): void {
  subscribe((notice) => {
    if (notice.type === "connected") {
      wantClients();
      void readAsks();
      reader.want(undefined);
      // Whatever became of them meanwhile.
      reader.want(calls.underWay().map(({ requestID }) => requestID));
    } else if (notice.type === "event") {
      const changed = calls.hear(notice.event);
      if (changed?.length !== 0) {
        reader.want(changed);
        beat.mark();
      }
      hearOfAsks(notice.event);
      hearOfClients(notice.event);
    }
  });
}
