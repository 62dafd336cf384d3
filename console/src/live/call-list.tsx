import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { type CallRow, tookOf } from "../world/calls";
import { CallBadge } from "./call-badge";
import { SmallTimeline } from "./timeline";
import { scrolledTo, visible } from "./window";
import { duration, shortName, timeOfDay } from "./words";

const COLUMNS = ["Time", "Tool", "Client", "Session", "State", "Attempt"];
/** In px; the style has the same. */
const HEAD_HEIGHT = 34;
const ROW_HEIGHT = 40;
/** A row on two lines, where there is little room. */
const TALL_ROW_HEIGHT = 62;
const NARROW = window.matchMedia("(max-width: 760px)");

interface CallListProps {
  /** The newest first. */
  rows: CallRow[];
  onOpen: (requestID: string) => void;
}

/** All calls; only those that can be seen are in the document. One stop of the tab key, arrow keys within. */
export function CallList({ rows, onOpen }: CallListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 480 });
  const [active, setActive] = useState<string>();
  const rowHeight = useRowHeight();
  const measure = () => {
    const { scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    setScroll((old) => {
      const height = clientHeight - HEAD_HEIGHT;
      return old.top === scrollTop && old.height === height ? old : { top: scrollTop, height };
    });
  };
  useLayoutEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useAnchor(box, rows, rowHeight, measure);

  const { first, end } = visible(rows.length, scroll.top, scroll.height, rowHeight);
  const scale = longest(rows);
  const activeIndex = rows.findIndex(({ requestID }) => requestID === active);
  const moveTo = (index: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (!row || !box.current) return;
    setActive(row.requestID);
    box.current.scrollTop = scrolledTo(rows.indexOf(row), box.current.scrollTop, scroll.height, rowHeight);
    measure();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const pageful = Math.max(1, Math.floor(scroll.height / rowHeight) - 1);
    const targets: Record<string, number> = {
      ArrowDown: activeIndex + 1,
      ArrowUp: activeIndex - 1,
      PageDown: activeIndex + pageful,
      PageUp: activeIndex - pageful,
      Home: 0,
      End: rows.length - 1,
    };
    const target = targets[event.key];
    if (target !== undefined) moveTo(target);
    else if ((event.key === "Enter" || event.key === " ") && active !== undefined && activeIndex >= 0) onOpen(active);
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={box}
      class="calls"
      role="grid"
      aria-label="Calls, the newest first"
      aria-rowcount={rows.length + 1}
      aria-activedescendant={activeIndex >= first && activeIndex < end ? `call-${rows[activeIndex]?.number}` : undefined}
      tabIndex={0}
      onScroll={measure}
      onKeyDown={onKeyDown}
      onFocus={() => activeIndex < 0 && rows[0] && setActive(rows[0].requestID)}
    >
      <div class="calls-head call" role="row" aria-rowindex={1}>
        {COLUMNS.map((name) => (
          <span key={name} role="columnheader">
            {name}
          </span>
        ))}
        <span role="columnheader" title={`A bar over all of its width is ${duration(scale)}`}>
          Duration
        </span>
      </div>
      <div class="calls-all" role="presentation" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(first, end).map((row, offset) => (
          <Row
            key={row.requestID}
            row={row}
            index={first + offset}
            top={(first + offset) * rowHeight}
            scale={scale}
            isActive={row.requestID === active}
            onOpen={() => {
              setActive(row.requestID);
              onOpen(row.requestID);
            }}
          />
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  row: CallRow;
  index: number;
  top: number;
  /** The time of a bar over all of its width. */
  scale: number;
  isActive: boolean;
  onOpen: () => void;
}

function Row({ row, index, top, scale, isActive, onOpen }: RowProps) {
  return (
    <div
      id={`call-${row.number}`}
      class="call"
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isActive}
      style={{ transform: `translateY(${top}px)` }}
      onClick={onOpen}
    >
      <span role="gridcell" class="when">
        {timeOfDay(row.created)}
      </span>
      <span role="gridcell" class="tool" title={row.tool}>
        {shortName(row.tool, row.clientID)}
        {row.isFrontend && <span class="note"> in the page</span>}
      </span>
      <span role="gridcell" class="client" title={row.clientID}>
        {row.clientID}
      </span>
      <span role="gridcell" class="session" title={row.sessionID}>
        {row.sessionID || "–"}
      </span>
      <span role="gridcell" class="state" title={row.error}>
        <CallBadge state={row.state} outcome={row.outcome} error={row.error} />
      </span>
      <span role="gridcell" class="attempt">
        {row.attempt}
      </span>
      <span role="gridcell" class="took">
        {row.times && row.state === "done" ? <SmallTimeline times={row.times} scale={scale} /> : "…"}
      </span>
    </div>
  );
}

/** How long the slowest of the calls took. */
function longest(rows: CallRow[]): number {
  return rows.reduce((most, { times, state }) => Math.max(most, (times && state === "done" && tookOf(times)) || 0), 0);
}

function useRowHeight(): number {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useLayoutEffect(() => {
    const onChange = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", onChange);
    return () => NARROW.removeEventListener("change", onChange);
  }, []);
  return isNarrow ? TALL_ROW_HEIGHT : ROW_HEIGHT;
}

/** Who has scrolled down stays at what is read, whatever comes in above it. */
function useAnchor(box: { current: HTMLDivElement | null }, rows: CallRow[], rowHeight: number, onMoved: () => void) {
  const anchor = useRef<{ row: CallRow; index: number }>();
  useLayoutEffect(() => {
    if (!box.current) return;
    const old = anchor.current;
    const index = Math.floor(box.current.scrollTop / rowHeight);
    if (old && index > 0) {
      const now = rows.indexOf(old.row);
      if (now >= 0 && now !== old.index) {
        box.current.scrollTop += (now - old.index) * rowHeight;
        onMoved();
      }
    }
    const first = Math.floor(box.current.scrollTop / rowHeight);
    const row = rows[first];
    anchor.current = row && { row, index: first };
  });
}
