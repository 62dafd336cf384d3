//! The rows of the comparison: which figures are shown, and the goals that they have.

use std::fmt;

use anyhow::Context;

use crate::figures::{Comparison, Rounds, Stores};
use crate::numbers::thousands;
use crate::process::{Growing, Load, Sample, Stretch};
use crate::scenario::{Peer, Readers, SIZES, Scenario, Store, TURN_SIZES, Threads, USUAL, crowd_of};

/// A turn may cost the CPU of so many bare calls.
const TURN_LIMIT: f64 = 3.0;

/// One line of the comparison, ready to be shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) memory: String,
    pub(crate) sqlite: String,
    pub(crate) floor: String,
    /// Of the memory store to the floor.
    pub(crate) ratio: String,
    pub(crate) goal: String,
    /// Whether the goal is met, where there is one.
    pub(crate) met: Option<bool>,
}

/// One line of what PostgreSQL reaches beside SQLite, ready to be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PostgresRow {
    pub(crate) what: String,
    pub(crate) postgres: String,
    pub(crate) sqlite: String,
    /// Of PostgreSQL to SQLite.
    pub(crate) ratio: String,
    pub(crate) goal: String,
    /// Whether the goal is met, where there is one and PostgreSQL was measured.
    pub(crate) met: Option<bool>,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met_by(self, figure: &Rounds) -> bool {
        match self {
            Self::AtLeast(least) => figure.median() >= least,
            Self::AtMost(most) => figure.median() <= most,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self {
            Self::AtLeast(bound) => ("≥", bound),
            Self::AtMost(bound) => ("≤", bound),
        };
        if *bound < 10.0 { write!(f, "{sign} {bound:.2}") } else { write!(f, "{sign} {bound:.0}") }
    }
}

impl Row {
    /// A figure that the floor does not have.
    fn own(what: impl Into<String>, figures: &Stores, show: fn(f64) -> String) -> Self {
        Self {
            what: what.into(),
            memory: show(figures.memory.median()),
            sqlite: show(figures.sqlite.median()),
            floor: "–".to_owned(),
            ..Self::default()
        }
    }

    /// A figure beside the floor's.
    fn compared(what: String, figures: &Stores, floor: &Rounds, show: fn(f64) -> String) -> Self {
        let ratio = parts(figures.memory.of(floor).median());
        Self { floor: show(floor.median()), ratio, ..Self::own(what, figures, show) }
    }

    /// A figure of the hub, which has no other store.
    fn of_hub(what: String, figure: &Rounds, show: fn(f64) -> String) -> Self {
        let (sqlite, floor) = ("–".to_owned(), "–".to_owned());
        Self { what, memory: show(figure.median()), sqlite, floor, ..Self::default() }
    }

    /// What SQLite reaches of a figure in memory.
    fn kept(figures: &Stores, goal: Goal) -> Self {
        let kept = figures.sqlite.of(&figures.memory);
        let row = Self { what: "the same, of memory".to_owned(), sqlite: parts(kept.median()), ..Self::default() };
        row.judged(goal, &kept, " × memory")
    }

    fn judged(self, goal: Goal, figure: &Rounds, of: &str) -> Self {
        Self { goal: format!("{goal}{of}"), met: Some(goal.is_met_by(figure)), ..self }
    }
}

fn parts(figure: f64) -> String {
    format!("{figure:.2}")
}

fn tenths(figure: f64) -> String {
    format!("{figure:.1}")
}

/// A figure of calls or turns.
fn of_load(figure: fn(&Load) -> f64) -> impl Fn(&Sample) -> Option<f64> {
    move |sample| sample.load.as_ref().map(figure)
}

fn rate(sample: &Sample) -> Option<f64> {
    of_load(|load| load.per_second)(sample)
}

fn cpu(sample: &Sample) -> Option<f64> {
    of_load(|load| load.server_cpu)(sample)
}

impl Comparison {
    /// The figures that have goals, and those that explain them.
    pub(crate) fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = self.rate_rows()?;
        for scenario in SIZES.map(Scenario::Busy) {
            let (p99, floor) = self.beside_floor(scenario, of_load(|load| load.latency_ms.p99))?;
            let row = Row::compared(format!("p99 ms, {scenario}"), &p99, &floor, parts);
            rows.push(row.judged(Goal::AtMost(1.3), &p99.memory.of(&floor), " × floor"));
        }
        for scenario in SIZES.map(Scenario::Busy) {
            let (cpu, floor) = self.beside_floor(scenario, cpu)?;
            rows.push(Row::compared(format!("CPU µs/call, {scenario}"), &cpu, &floor, tenths));
        }
        rows.extend(self.logged_rows()?);
        rows.extend(self.thread_rows()?);
        rows.extend(self.memory_rows()?);
        rows.extend(self.turn_rows()?);
        rows.extend(self.reader_rows()?);
        rows.extend(self.growing_rows()?);
        let waiting = |sample: &Sample| sample.waiting.as_ref().map(|waiting| waiting.memory.per_session / 1e3);
        let waiting = self.stores(Scenario::Waiting, waiting)?;
        rows.push(Row::own("kB per waiting session", &waiting, tenths).judged(Goal::AtMost(32.0), &waiting.memory, ""));
        Ok(rows)
    }

    /// What calls and turns on PostgreSQL reach beside those on SQLite.
    pub(crate) fn postgres_rows(&self) -> anyhow::Result<Vec<PostgresRow>> {
        let mut rows = Vec::new();
        for scenario in Scenario::ON_POSTGRES {
            let goal = (scenario == Scenario::Busy(USUAL)).then_some(Goal::AtLeast(0.25));
            let what = match scenario {
                Scenario::Turns(clients) => format!("turns/s, {}", crowd_of(clients)),
                _ => format!("calls/s, {scenario}"),
            };
            rows.push(self.postgres_row(what, scenario, rate, thousands, goal)?);
        }
        for scenario in Scenario::ON_POSTGRES {
            let p50 = of_load(|load| load.latency_ms.p50);
            rows.push(self.postgres_row(format!("p50 ms, {scenario}"), scenario, p50, parts, None)?);
        }
        Ok(rows)
    }

    fn postgres_row(
        &self,
        what: String,
        scenario: Scenario,
        figure: impl Fn(&Sample) -> Option<f64>,
        show: fn(f64) -> String,
        goal: Option<Goal>,
    ) -> anyhow::Result<PostgresRow> {
        let sqlite = self.rounds(Peer::Handback(Store::Sqlite), scenario, &figure)?;
        let goal_text = goal.map_or_else(String::new, |goal| format!("{goal} × SQLite"));
        let (ratio, missing) = (String::new(), "not measured".to_owned());
        let row =
            PostgresRow { what, postgres: missing, sqlite: show(sqlite.median()), ratio, goal: goal_text, met: None };
        if self.postgres.is_err() {
            return Ok(row);
        }
        let postgres = self.rounds(Peer::Handback(Store::Postgres), scenario, &figure)?;
        let kept = postgres.of(&sqlite);
        let met = goal.map(|goal| goal.is_met_by(&kept));
        Ok(PostgresRow { postgres: show(postgres.median()), ratio: parts(kept.median()), met, ..row })
    }

    /// Calls a second, and what the idle clients around it cost the one that is called.
    fn rate_rows(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for clients in SIZES {
            let scenario = Scenario::Busy(clients);
            let (rate, floor) = self.beside_floor(scenario, rate)?;
            let row = Row::compared(format!("calls/s, {scenario}"), &rate, &floor, thousands);
            rows.push(row.judged(Goal::AtLeast(0.85), &rate.memory.of(&floor), " × floor"));
            if TURN_SIZES.contains(&clients) {
                rows.push(Row::kept(&rate, Goal::AtLeast(0.5)));
            }
            if clients == USUAL {
                rows.extend(self.on_disk_rows(&rate.sqlite)?);
            }
        }
        let (alone, floor_alone) = self.beside_floor(Scenario::Busy(1), rate)?;
        let (crowded, floor_crowded) = self.beside_floor(Scenario::OneOfMany, rate)?;
        let (kept, floor_kept) = (crowded.of(&alone), floor_crowded.of(&floor_alone));
        let row = Row::own("the same, of the rate with 1 client", &kept, parts);
        rows.extend([
            Row::compared(format!("calls/s, {}", Scenario::OneOfMany), &crowded, &floor_crowded, thousands),
            Row { floor: parts(floor_kept.median()), ..row }.judged(Goal::AtLeast(0.9), &kept.memory, ""),
        ]);
        Ok(rows)
    }

    /// What is left of a rate when every answered write is on the disk.
    fn on_disk_rows(&self, in_the_process: &Rounds) -> anyhow::Result<[Row; 2]> {
        let rate = self.rounds(Peer::Handback(Store::Sqlite), Scenario::OnDisk, rate)?;
        let kept = rate.of(in_the_process);
        let row = |what: String, sqlite| Row { what, sqlite, ..Row::default() };
        Ok([
            row(format!("calls/s, {}", Scenario::OnDisk), thousands(rate.median())),
            row("the same, of \"process\"".to_owned(), parts(kept.median())).judged(Goal::AtLeast(0.25), &kept, ""),
        ])
    }

    /// What the lines of the log cost a call.
    fn logged_rows(&self) -> anyhow::Result<[Row; 2]> {
        let logged = self.stores(Scenario::Logged, cpu)?;
        let more = logged.of(&self.stores(Scenario::Busy(USUAL), cpu)?);
        let row = Row::own("the same, of \"warn\"", &more, parts);
        Ok([
            Row::own(format!("CPU µs/call, {}", Scenario::Logged), &logged, tenths),
            row.judged(Goal::AtMost(1.5), &more.memory, ""),
        ])
    }

    /// What a second thread costs the server, and what it gives the hub.
    fn thread_rows(&self) -> anyhow::Result<Vec<Row>> {
        let (one, floor_one) = self.beside_floor(Scenario::Workers(1), cpu)?;
        let (two, floor_two) = self.beside_floor(Scenario::Workers(2), cpu)?;
        let (second, floor_second) = (two.of(&one), floor_two.of(&floor_one));
        let row = Row::own("the same, of 1 worker", &second, parts);
        let [hub, shared, apart] = [Threads::One, Threads::Two, Threads::Apart].map(|threads| {
            let rate = |sample: &Sample| sample.hub.as_ref().map(|hub| hub.calls_per_second);
            self.rounds(Peer::Handback(Store::Memory), Scenario::Hub(threads), rate)
        });
        let (hub, shared, apart) = (hub?, shared?, apart?);
        let hub_row = |threads, rate| Row::of_hub(format!("calls/s, {}", Scenario::Hub(threads)), rate, thousands);
        let hub_part = |rate: &Rounds| Row::of_hub("the same, of 1 thread".to_owned(), &rate.of(&hub), parts);
        Ok(vec![
            Row::compared(format!("CPU µs/call, {}", Scenario::Workers(1)), &one, &floor_one, tenths),
            Row::compared(format!("CPU µs/call, {}", Scenario::Workers(2)), &two, &floor_two, tenths),
            Row { floor: parts(floor_second.median()), ..row }.judged(Goal::AtMost(1.15), &second.memory, ""),
            hub_row(Threads::One, &hub),
            hub_row(Threads::Two, &shared),
            hub_part(&shared).judged(Goal::AtLeast(1.7), &shared.of(&hub), ""),
            hub_row(Threads::Apart, &apart),
            hub_part(&apart),
        ])
    }

    fn memory_rows(&self) -> anyhow::Result<[Row; 3]> {
        let idle = |sample: &Sample| sample.memory.as_ref().map(|memory| memory.before / 1e6);
        let (idle, floor_idle) = self.beside_floor(Scenario::OneOfMany, idle)?;
        let idle_row = Row::compared("MB of an idle server".to_owned(), &idle, &floor_idle, tenths);
        let memory = |sample: &Sample| sample.memory.as_ref().map(|memory| memory.per_client / 1e3);
        let (sse, floor) = self.beside_floor(Scenario::OneOfMany, memory)?;
        let socket = self.stores(Scenario::IdleSockets, memory)?;
        let row = Row::compared("kB per idle client, SSE".to_owned(), &sse, &floor, tenths);
        Ok([
            idle_row.judged(Goal::AtMost(30.0), &idle.sqlite, " with SQLite"),
            row.judged(Goal::AtMost(21.0), &sse.memory, ""),
            Row::own("kB per idle client, WebSocket", &socket, tenths).judged(Goal::AtMost(10.0), &socket.memory, ""),
        ])
    }

    /// What turns cost; the floor has no sessions, and what they are measured by is Handback's own calls.
    fn turn_rows(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for clients in TURN_SIZES {
            let rate = self.stores(Scenario::Turns(clients), rate)?;
            rows.push(Row::own(format!("turns/s, {}", crowd_of(clients)), &rate, thousands));
            rows.push(Row::kept(&rate, Goal::AtLeast(0.4)));
        }
        for clients in TURN_SIZES {
            let turn = self.stores(Scenario::Turns(clients), cpu)?;
            let calls = turn.of(&self.stores(Scenario::Busy(clients), cpu)?);
            let row = Row::own("the same, of the CPU of a call", &calls, parts);
            rows.push(Row::own(format!("CPU µs/turn, {}", crowd_of(clients)), &turn, tenths));
            rows.push(row.judged(Goal::AtMost(TURN_LIMIT), &calls.memory, ""));
        }
        Ok(rows)
    }

    /// What readers of events cost the turns that they do not, or do, read of.
    fn reader_rows(&self) -> anyhow::Result<Vec<Row>> {
        let alone = self.stores(Scenario::Turns(USUAL), cpu)?;
        let mut rows = Vec::new();
        for (readers, goal) in [(Readers::Others, 1.2), (Readers::Everything, 25.0)] {
            let read = self.stores(Scenario::Read(readers), cpu)?;
            let more = read.of(&alone);
            let row = Row::own("the same, of a turn without readers", &more, parts);
            rows.push(Row::own(format!("CPU µs/turn, {readers}"), &read, tenths));
            rows.push(row.judged(Goal::AtMost(goal), &more.memory, ""));
        }
        Ok(rows)
    }

    /// What the turns before it cost a turn.
    fn growing_rows(&self) -> anyhow::Result<Vec<Row>> {
        let growing = |sample: &Sample| sample.growing.clone();
        let cpu = |stretch: fn(Growing) -> Stretch| {
            self.stores(Scenario::Growing, move |sample| growing(sample).map(|growing| stretch(growing).server_cpu))
        };
        let (early, late) = (cpu(|growing| growing.early)?, cpu(|growing| growing.late)?);
        let measured = self.of(Peer::Handback(Store::Memory), Scenario::Growing)?.iter().find_map(growing);
        let Growing { early: at_first, late: at_last } = measured.context("no sessions have grown")?;
        let what = |Stretch { turns: (first, last), .. }| {
            let [first, last] = [first, last].map(|turn| thousands(f64::from(turn)));
            format!("CPU µs/turn, turns {first} to {last} of a session")
        };
        let more = late.of(&early);
        let row = Row::own("the same, of the early ones", &more, parts);
        Ok(vec![
            Row::own(what(at_first), &early, tenths),
            Row::own(what(at_last), &late, tenths),
            row.judged(Goal::AtMost(1.3), &more.sqlite, " with SQLite"),
        ])
    }

    /// A figure of Handback with either store, and of the floor.
    fn beside_floor(
        &self,
        scenario: Scenario,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> anyhow::Result<(Stores, Rounds)> {
        Ok((self.stores(scenario, &figure)?, self.rounds(Peer::Floor, scenario, &figure)?))
    }
}
