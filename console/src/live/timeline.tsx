import type { Call } from "@handback/client";

import { duration } from "./words";

const PHASES = [
  { phase: "approval", name: "Approval" },
  { phase: "queue", name: "Queue" },
  { phase: "execute", name: "Execute" },
] as const;

/** How long a call was in each phase, one after the other. */
export function Timeline({ times }: { times: Call["times"] }) {
  const total = times.approval + times.queue + times.execute;
  const share = (time: number) => (total > 0 ? (time / total) * 100 : 0);
  let before = 0;
  return (
    <table class="timeline">
      <caption>{duration(total)} in all</caption>
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

/** The same in one small bar. */
export function SmallTimeline({ times }: { times: Call["times"] }) {
  const total = times.approval + times.queue + times.execute;
  const title = PHASES.map(({ phase, name }) => `${name} ${duration(times[phase])}`).join(", ");
  return (
    <span class="small-timeline" title={title}>
      <span class="small-track" aria-hidden="true">
        {PHASES.map(({ phase }) => (
          <span key={phase} class={`bar ${phase}`} style={{ flexGrow: total > 0 ? times[phase] / total : 0 }} />
        ))}
      </span>
      <span>{duration(total)}</span>
    </span>
  );
}
