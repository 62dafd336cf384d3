import { useEffect, useState } from "preact/hooks";

import { Empty } from "../components/card";
import { FirstCall } from "../live/first-call";
import { duration, OUTCOMES, timeOfDay } from "../live/words";
import type { OutcomeStatus } from "../world/calls";
import { calls, reader } from "../world/world";
import { Chart, type Series } from "./chart";
import { type Latency, measure, type Measures, PHASES, type Phase } from "./measure";

const SPANS = [1, 5, 15];
/** How often the charts are drawn anew, in ms. */
const REDRAW = 1000;

const TITLES: Record<Phase, string> = {
  approval: "Time to approval",
  queue: "Time in the queue",
  execute: "Time to execute",
};

/** What is said where no call was in a phase. */
const NONE: Record<Phase, string> = {
  approval: "no call needed approval",
  queue: "no call was queued",
  execute: "no call was executed",
};

/** What happened in the last minutes. */
export function Charts() {
  const [minutes, setMinutes] = useState(5);
  const now = useNow();
  const measures = measure(calls.ordered(), now, minutes * 60_000);
  const begin = measures.starts[0] ?? now;
  const isCut = reader.isMissing(begin) || calls.forgotAfter(begin);
  // A page that was opened late shows the same as one that was open all the time.
  useEffect(() => {
    if (reader.isMissing(begin) && reader.hasOlder) void reader.readOlder();
  });
  return (
    <div class="page">
      <div class="page-head">
        <h1>Charts</h1>
        <fieldset class="spans">
          <legend class="hidden">Time</legend>
          {SPANS.map((choice) => (
            <label key={choice}>
              <input type="radio" name="span" checked={choice === minutes} onChange={() => setMinutes(choice)} />
              <span>{choice} min</span>
            </label>
          ))}
        </fieldset>
        {isCut && <span class="note">Only the latest {calls.size.toLocaleString("en")} calls are counted.</span>}
      </div>
      {sum(measures.made) + sum(Object.values(measures.outcomes).flat()) === 0 ? <Nothing minutes={minutes} /> : <All measures={measures} />}
    </div>
  );
}

function All({ measures }: { measures: Measures }) {
  const points = measures.starts.map(timeOfDay);
  const outcomes = (Object.entries(measures.outcomes) as [OutcomeStatus, number[]][]).sort(([one], [other]) => rank(one) - rank(other));
  const series = outcomes.map(([status, values]): Series => ({ name: OUTCOMES[status], total: sum(values), look: status, values }));
  const ended = sum(outcomes.flatMap(([, values]) => values));
  const succeeded = sum(measures.outcomes.success ?? []);
  return (
    <div class="charts">
      <Chart
        title="Calls made"
        kind="bars"
        series={[{ name: "Calls", look: "made", values: measures.made }]}
        points={points}
        format={count}
        summary={`${count(sum(measures.made))} calls · one bar is ${duration(measures.step)}`}
      />
      <Chart
        title="Outcomes"
        kind="bars"
        series={series}
        points={points}
        format={count}
        summary={ended > 0 ? `${((succeeded / ended) * 100).toFixed(succeeded === ended ? 0 : 1)} % succeeded` : "no call has ended"}
      />
      {PHASES.map((phase) => (
        <Chart
          key={phase}
          title={TITLES[phase]}
          kind="lines"
          series={[
            { name: "p50", look: "p50", values: measures.latency[phase].p50 },
            { name: "p95", look: "p95", values: measures.latency[phase].p95 },
          ]}
          points={points}
          format={duration}
          summary={said(measures.latency[phase], phase)}
        />
      ))}
    </div>
  );
}

function Nothing({ minutes }: { minutes: number }) {
  return (
    <section class="card">
      <header class="card-head">
        <h2>No calls in the last {minutes === 1 ? "minute" : `${minutes} minutes`}</h2>
      </header>
      <Empty>
        <p>How many calls are made, how long they take in each phase (approval, queue, execute), and how they end are drawn here.</p>
        <FirstCall />
      </Empty>
    </section>
  );
}

function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const interval = setInterval(() => setNow(Date.now()), REDRAW);
    return () => clearInterval(interval);
  }, []);
  return now;
}

/** In one order, whichever comes first. */
function rank(status: OutcomeStatus): number {
  return Object.keys(OUTCOMES).indexOf(status);
}

function said({ total }: Latency, phase: Phase): string {
  if (total.p50 === undefined || total.p95 === undefined) return NONE[phase];
  return `p50 ${duration(total.p50)} · p95 ${duration(total.p95)}`;
}

function count(value: number): string {
  return value.toLocaleString("en");
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
