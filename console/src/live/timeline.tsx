import type { Call } from "@handback/client";

import { tookOf } from "../world/calls";
import { duration } from "./words";

const PHASES = [
  { phase: "approval", name: "Approval" },
  { phase: "queue", name: "Queue" },
  { phase: "execute", name: "Execute" },
] as const;

/** How long a call was in each phase, one after the other. */
export function Timeline({ call: { times, state } }: { call: Call }) {
  const total = tookOf(times);
  if (total === undefined) return <p class="note">How long the call took is not known.</p>;
  const share = (time: number) => (time / total) * 100;
  let before = 0;
  return (
    <table class="timeline">
      <caption>
        {duration(total)} {state === "done" ? "in all" : "so far"}
      </caption>
      <thead class="hidden">
        <tr>
          <th scope="col">Phase</th>
          <th scope="col">Share</th>
          <th scope="col">Time</th>
        </tr>
      </thead>
      <tbody>
        {PHASES.map(({ phase, name }) => {
          const left = share(before);
          before += times[phase];
          return (
            <tr key={phase}>
              <th scope="row">{name}</th>
              <td class="track">
                {times[phase] > 0 && (
                  <div class={`bar ${phase}`} style={{ marginLeft: `${left}%`, width: `${share(times[phase])}%` }} />
                )}
              </td>
              <td class="ms">{duration(times[phase])}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** The same in one small bar. `scale` is the time of a bar that fills its track, the same for all rows of a list. */
export function SmallTimeline({ times, scale }: { times: Call["times"]; scale: number }) {
  const total = tookOf(times);
  if (total === undefined) return <span title="How long the call took is not known">–</span>;
  const title = PHASES.map(({ phase, name }) => `${name} ${duration(times[phase])}`).join(", ");
  return (
    <span class="small-timeline" title={title}>
      <span class="small-track" aria-hidden="true">
        {PHASES.filter(({ phase }) => times[phase] > 0).map(({ phase }) => (
          <span key={phase} class={`bar ${phase}`} style={{ width: `${(times[phase] / scale) * 100}%` }} />
        ))}
      </span>
      <span>{duration(total)}</span>
    </span>
  );
}
