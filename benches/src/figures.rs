//! The figures: which scenarios are measured, the medians of their runs, and the goals.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context;

use crate::page::thousands;
use crate::process::{Load, Peer, Sample};

/// How many calls are under way at any time, in every scenario.
pub(crate) const CONCURRENCY: u32 = 32;

/// How many clients are connected in the crowded scenarios.
pub(crate) const CROWD: u32 = 5_000;

/// The numbers of clients that are all called.
pub(crate) const SIZES: [u32; 3] = [1, 100, 1_000];

/// The numbers of clients whose sessions run turns: the same as those of calls, for turns are compared with them.
pub(crate) const TURN_SIZES: [u32; 2] = [SIZES[0], SIZES[1]];

/// How many sessions wait for one client.
pub(crate) const WAITING: u32 = 1_000;

/// A turn may cost the CPU of so many bare calls.
const TURN_LIMIT: f64 = 3.0;

/// What is set up for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// So many clients, all of them called in turn.
    Busy(u32),
    /// [`CROWD`] clients, one of them called.
    OneOfMany,
    /// [`CROWD`] clients over WebSocket, none called.
    IdleSockets,
    /// So many clients, and sessions that run turns with one call in each.
    Turns(u32),
    /// [`WAITING`] sessions of one client that does not answer.
    Waiting,
}

impl Scenario {
    /// Every scenario, in the order in which they are run. Those of a group are compared, and take turns.
    pub(crate) const GROUPS: [&[Self]; 6] = [
        &[Self::Busy(SIZES[0]), Self::Turns(TURN_SIZES[0])],
        &[Self::Busy(SIZES[1]), Self::Turns(TURN_SIZES[1])],
        &[Self::Busy(SIZES[2])],
        &[Self::OneOfMany],
        &[Self::IdleSockets],
        &[Self::Waiting],
    ];

    /// The same, one by one.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::GROUPS.into_iter().flatten().copied()
    }

    /// The servers that can do it: the floor has no WebSocket and no sessions.
    pub(crate) fn peers(self) -> &'static [Peer] {
        match self {
            Self::Busy(_) | Self::OneOfMany => &[Peer::Handback, Peer::Floor],
            Self::IdleSockets | Self::Turns(_) | Self::Waiting => &[Peer::Handback],
        }
    }

    /// Whether calls are made and timed in it, alone or in turns.
    pub(crate) fn has_load(self) -> bool {
        !matches!(self, Self::IdleSockets | Self::Waiting)
    }

    /// What the load generator is told.
    pub(crate) fn arguments(self) -> Vec<String> {
        let text = match self {
            Self::Busy(clients) => format!("--clients {clients} --concurrency {CONCURRENCY}"),
            Self::OneOfMany => format!("--clients {CROWD} --active 1 --concurrency {CONCURRENCY}"),
            Self::IdleSockets => format!("--clients {CROWD} --websocket --idle"),
            Self::Turns(clients) => format!("--turns --clients {clients} --concurrency {CONCURRENCY}"),
            Self::Waiting => format!("--waiting {WAITING}"),
        };
        text.split(' ').map(str::to_owned).collect()
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crowd = thousands(f64::from(CROWD));
        match self {
            Self::Busy(clients) => write!(f, "{}", crowd_of(*clients)),
            Self::OneOfMany => write!(f, "{crowd} clients, one called"),
            Self::IdleSockets => write!(f, "{crowd} idle WebSockets"),
            Self::Turns(clients) => write!(f, "turns, {}", crowd_of(*clients)),
            Self::Waiting => write!(f, "{} waiting sessions", thousands(f64::from(WAITING))),
        }
    }
}

fn crowd_of(clients: u32) -> String {
    match clients {
        1 => "1 client".to_owned(),
        _ => format!("{} clients", thousands(f64::from(clients))),
    }
}

/// One line of the comparison, ready to be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) handback: String,
    pub(crate) floor: String,
    pub(crate) ratio: String,
    pub(crate) goal: String,
    /// Whether the goal is met, where there is one.
    pub(crate) met: Option<bool>,
}

/// The medians of one server in one scenario.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Medians {
    pub(crate) rate: f64,
    /// The slowest and the fastest run.
    pub(crate) rates: (f64, f64),
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) server_cpu: f64,
    pub(crate) generator_cpu: f64,
}

/// All samples of a comparison.
pub(crate) struct Comparison {
    pub(crate) runs: u32,
    pub(crate) seconds: u32,
    /// How many cores the rest of the machine kept busy, during each run.
    pub(crate) noise: Vec<f64>,
    samples: BTreeMap<(Scenario, Peer), Vec<Sample>>,
}

impl Comparison {
    pub(crate) fn new(runs: u32, seconds: u32) -> Self {
        Self { runs, seconds, noise: Vec::new(), samples: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, peer: Peer, scenario: Scenario, sample: Sample) {
        self.samples.entry((scenario, peer)).or_default().push(sample);
    }

    /// The medians of a scenario with calls or turns.
    pub(crate) fn medians(&self, peer: Peer, scenario: Scenario) -> anyhow::Result<Medians> {
        let loads: Vec<&Load> = self.of(peer, scenario)?.iter().filter_map(|sample| sample.load.as_ref()).collect();
        let of = |figure: fn(&Load) -> f64| median(loads.iter().map(|load| figure(load)));
        let rates = || loads.iter().map(|load| load.per_second);
        Ok(Medians {
            rate: of(|load| load.per_second)?,
            rates: (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)),
            p50: of(|load| load.latency_ms.p50)?,
            p99: of(|load| load.latency_ms.p99)?,
            server_cpu: of(|load| load.server_cpu)?,
            generator_cpu: of(|load| load.generator_cpu)?,
        })
    }

    /// Every failure of every run, by server, scenario and name.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((scenario, peer), samples) in &self.samples {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            for (kind, count) in samples.iter().flat_map(|sample| &sample.errors) {
                *counts.entry(kind).or_default() += count;
            }
            lines.extend(counts.iter().map(|(kind, count)| {
                format!("{}, {scenario}: {kind}, {} times", peer.name(), thousands(*count as f64))
            }));
        }
        lines
    }

    /// The figures that have goals, and those that explain them.
    pub(crate) fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let busy = SIZES.map(Scenario::Busy);
        for scenario in busy {
            let rate = self.both(scenario, |medians| medians.rate)?;
            rows.push(Row::compared(format!("calls/s, {scenario}"), rate, thousands, Goal::AtLeast(0.85)));
        }
        rows.extend(self.crowd_rows()?);
        for scenario in busy {
            let p99 = self.both(scenario, |medians| medians.p99)?;
            let show = |milliseconds| format!("{milliseconds:.2}");
            rows.push(Row::compared(format!("p99 ms, {scenario}"), p99, show, Goal::AtMost(1.3)));
        }
        for scenario in busy {
            let cpu = self.both(scenario, |medians| medians.server_cpu)?;
            rows.push(Row::compared(format!("CPU µs/call, {scenario}"), cpu, |cpu| format!("{cpu:.1}"), Goal::None));
        }
        rows.extend(self.memory_rows()?);
        rows.extend(self.session_rows()?);
        Ok(rows)
    }

    /// What the idle clients around it cost the one that is called.
    fn crowd_rows(&self) -> anyhow::Result<[Row; 2]> {
        let alone = self.both(Scenario::Busy(1), |medians| medians.rate)?;
        let crowded = self.both(Scenario::OneOfMany, |medians| medians.rate)?;
        let kept = (crowded.0 / alone.0, crowded.1 / alone.1);
        Ok([
            Row::compared(format!("calls/s, {}", Scenario::OneOfMany), crowded, thousands, Goal::None),
            Row {
                what: "the same, of the rate with 1 client".to_owned(),
                handback: format!("{:.2}", kept.0),
                floor: format!("{:.2}", kept.1),
                ratio: String::new(),
                goal: "≥ 0.90".to_owned(),
                met: Some(kept.0 >= 0.9),
            },
        ])
    }

    fn memory_rows(&self) -> anyhow::Result<[Row; 2]> {
        let memory = |peer, scenario| -> anyhow::Result<f64> {
            median(self.of(peer, scenario)?.iter().map(|sample| sample.memory.per_client / 1e3))
        };
        let sse = memory(Peer::Handback, Scenario::OneOfMany)?;
        let floor = memory(Peer::Floor, Scenario::OneOfMany)?;
        let socket = memory(Peer::Handback, Scenario::IdleSockets)?;
        Ok([
            Row {
                what: "kB per idle client, SSE".to_owned(),
                handback: format!("{sse:.1}"),
                floor: format!("{floor:.1}"),
                ratio: format!("{:.2}", sse / floor),
                goal: "≤ 21".to_owned(),
                met: Some(sse <= 21.0),
            },
            Row {
                what: "kB per idle client, WebSocket".to_owned(),
                handback: format!("{socket:.1}"),
                goal: "≤ 10".to_owned(),
                met: Some(socket <= 10.0),
                ..Row::of_handback()
            },
        ])
    }

    /// What sessions cost; the floor has none, and what they are measured by is Handback's own calls.
    fn session_rows(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let own = |what: String, handback: String| Row { what, handback, ..Row::of_handback() };
        for clients in TURN_SIZES {
            let rate = self.medians(Peer::Handback, Scenario::Turns(clients))?.rate;
            rows.push(own(format!("turns/s, {}", crowd_of(clients)), thousands(rate)));
        }
        for clients in TURN_SIZES {
            let turn = self.medians(Peer::Handback, Scenario::Turns(clients))?.server_cpu;
            let call = self.medians(Peer::Handback, Scenario::Busy(clients))?.server_cpu;
            rows.push(own(format!("CPU µs/turn, {}", crowd_of(clients)), format!("{turn:.1}")));
            rows.push(Row {
                goal: format!("≤ {TURN_LIMIT:.2}"),
                met: Some(turn / call <= TURN_LIMIT),
                ..own("the same, of the CPU of a call".to_owned(), format!("{:.2}", turn / call))
            });
        }
        let waiting = self.of(Peer::Handback, Scenario::Waiting)?.iter().filter_map(|sample| sample.waiting.as_ref());
        let waiting = median(waiting.map(|waiting| waiting.memory.per_session / 1e3))?;
        rows.push(Row {
            goal: "≤ 32".to_owned(),
            met: Some(waiting <= 32.0),
            ..own("kB per waiting session".to_owned(), format!("{waiting:.1}"))
        });
        Ok(rows)
    }

    /// A median of Handback and of the floor.
    fn both(&self, scenario: Scenario, figure: fn(&Medians) -> f64) -> anyhow::Result<(f64, f64)> {
        Ok((figure(&self.medians(Peer::Handback, scenario)?), figure(&self.medians(Peer::Floor, scenario)?)))
    }

    fn of(&self, peer: Peer, scenario: Scenario) -> anyhow::Result<&[Sample]> {
        let samples = self.samples.get(&(scenario, peer));
        samples.map(Vec::as_slice).with_context(|| format!("{}, {scenario}: not measured", peer.name()))
    }
}

/// What the ratio of Handback to the floor should be.
enum Goal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

impl Row {
    /// A figure that the floor does not have.
    fn of_handback() -> Self {
        let empty = String::new;
        Self { what: empty(), handback: empty(), floor: "–".to_owned(), ratio: empty(), goal: empty(), met: None }
    }

    fn compared(what: String, (handback, floor): (f64, f64), show: fn(f64) -> String, goal: Goal) -> Self {
        let ratio = handback / floor;
        let (goal, met) = match goal {
            Goal::AtLeast(least) => (format!("≥ {least:.2} × floor"), Some(ratio >= least)),
            Goal::AtMost(most) => (format!("≤ {most:.2} × floor"), Some(ratio <= most)),
            Goal::None => (String::new(), None),
        };
        Self { what, handback: show(handback), floor: show(floor), ratio: format!("{ratio:.2}"), goal, met }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> anyhow::Result<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle).context("nothing was measured")?;
    Ok(if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + upper) / 2.0 } else { upper })
}
