// A chart of some series over the same points: lines, or bars on top of each other. Colours come from the style.

import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";

export interface Series {
  name: string;
  /** What is said of all of it, beside its name. */
  total?: number;
  /** The class that colours it. */
  look: string;
  values: (number | undefined)[];
}

interface ChartProps {
  title: string;
  kind: "lines" | "bars";
  series: Series[];
  /** What each point is called, in the table. */
  points: string[];
  format: (value: number) => string;
  /** What is most worth knowing, beside the title. */
  summary: string;
}

const [WIDTH, HEIGHT] = [600, 150];
const MARGIN = { left: 4, right: 4, top: 10, bottom: 4 };
const INNER = { width: WIDTH - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };

export function Chart({ title, kind, series, points, format, summary }: ChartProps) {
  const id = useId();
  const [pointed, setPointed] = useState<number>();
  // Bars are counts: half of the top is a whole number, too.
  const top = roundUp(kind === "bars" ? Math.max(2, highestStack(series, points.length)) : highest(series));
  const y = (value: number) => MARGIN.top + INNER.height * (1 - value / top);
  return (
    <section class="card chart" aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{title}</h2>
        <span class="note">{summary}</span>
      </header>
      <div
        class="plot"
        onPointerDown={(event) => setPointed(pointAt(event, points.length))}
        onPointerMove={(event) => setPointed(pointAt(event, points.length))}
        onPointerLeave={() => setPointed(undefined)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {[0, 0.5, 1].map((share) => (
            <line key={share} class="grid" x1={MARGIN.left} x2={WIDTH - MARGIN.right} y1={y(top * share)} y2={y(top * share)} />
          ))}
          {pointed !== undefined && (
            <line class="pointed" x1={middle(pointed, points.length)} x2={middle(pointed, points.length)} y1={y(top)} y2={y(0)} />
          )}
          {kind === "bars" ? <Bars series={series} count={points.length} y={y} /> : <Lines series={series} y={y} />}
        </svg>
        <span class="axis" aria-hidden="true">
          {format(top)}
        </span>
        <span class="axis half" aria-hidden="true">
          {format(top / 2)}
        </span>
        {pointed !== undefined && <Tip series={series} points={points} pointed={pointed} format={format} />}
      </div>
      <div class="axis-time note" aria-hidden="true">
        <span>{points[0]}</span>
        <span>now</span>
      </div>
      <ul class="legend">
        {series.map(({ name, total, look }) => (
          <li key={name}>
            <span class={`swatch ${look}`} aria-hidden="true" /> {name} {total !== undefined && format(total)}
          </li>
        ))}
      </ul>
      <details class="as-table">
        <summary>
          As a table<span class="hidden">: {title}</span>
        </summary>
        <Table title={title} series={series} points={points} format={format} />
      </details>
    </section>
  );
}

/** What is drawn at one point. The table says the same to those who do not point. */
function Tip({ series, points, pointed, format }: Pick<ChartProps, "series" | "points" | "format"> & { pointed: number }) {
  const said = series.filter(({ values }) => (values[pointed] ?? 0) > 0);
  // Beside the point, on the side where there is more room.
  const place = middle(pointed, points.length) / WIDTH;
  const style = place < 0.5 ? { left: `calc(${place * 100}% + 8px)` } : { right: `calc(${(1 - place) * 100}% + 8px)` };
  return (
    <div class="tip" style={style} aria-hidden="true">
      <strong>{points[pointed]}</strong>
      {said.length === 0 && <span class="note">nothing</span>}
      {said.map(({ name, look, values }) => (
        <span key={name}>
          <span class={`swatch ${look}`} /> {name} {format(values[pointed] ?? 0)}
        </span>
      ))}
    </div>
  );
}

function pointAt({ clientX, currentTarget }: JSX.TargetedPointerEvent<HTMLElement>, count: number): number {
  const { left, width } = currentTarget.getBoundingClientRect();
  return Math.max(0, Math.min(count - 1, Math.floor(((clientX - left) / width) * count)));
}

/** Where the middle of a point is, from the left. */
function middle(index: number, count: number): number {
  return MARGIN.left + (INNER.width * (index + 0.5)) / count;
}

/** Points beside each other are connected. */
function Lines({ series, y }: { series: Series[]; y: (value: number) => number }) {
  return series.map(({ name, look, values }) => {
    const places = values.map((value, index) => value !== undefined && `${middle(index, values.length).toFixed(1)} ${y(value).toFixed(1)}`);
    const line = places.map((place, index) => place && `${places[index - 1] ? "L" : "M"}${place}`);
    // A line without a length is drawn as a round dot, whatever the shape of the chart.
    const dots = places.map((place) => place && `M${place}h0`);
    return (
      <g key={name} class={look}>
        <path class="line" d={line.filter(Boolean).join("")} />
        <path class="dots" d={dots.filter(Boolean).join("")} />
      </g>
    );
  });
}

function Bars({ series, count, y }: { series: Series[]; count: number; y: (value: number) => number }) {
  const width = INNER.width / count;
  const stacked = new Array<number>(count).fill(0);
  return series.map(({ name, look, values }) => {
    const bars = values.map((value = 0, index) => {
      const below = stacked[index] ?? 0;
      stacked[index] = below + value;
      if (value === 0) return "";
      const [left, bottom, high] = [MARGIN.left + index * width, y(below), y(below + value)];
      return `M${(left + 1).toFixed(1)} ${bottom.toFixed(1)}V${high.toFixed(1)}h${(width - 2).toFixed(1)}V${bottom.toFixed(1)}z`;
    });
    return <path key={name} class={`area ${look}`} d={bars.join("")} />;
  });
}

function Table({ title, series, points, format }: Pick<ChartProps, "title" | "series" | "points" | "format">) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {points.map((point, index) => (
            <tr key={point}>
              <th scope="row">{point}</th>
              {series.map(({ name, values }) => {
                const value = values[index];
                return <td key={name}>{value === undefined ? "–" : format(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function highest(series: Series[]): number {
  return Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
}

function highestStack(series: Series[], count: number): number {
  const stack = (index: number) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0);
  return Math.max(0, ...Array.from({ length: count }, (_, index) => stack(index)));
}

/** The next number of one digit, as its half is. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 6, 8, 10].find((step) => step * power >= value) ?? 10) * power;
}
