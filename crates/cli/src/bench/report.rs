//! The figures of a run, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt;

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::metrics::ProcessMetrics;

/// With fewer clients or sessions, the memory for each one mostly reflects the start of the server.
const ENOUGH: u32 = 100;

/// The figures of a run or of one part of it, for scripts and for people.
#[derive(Default)]
pub(super) struct Report {
    /// For scripts. Figures that are null are left out.
    pub(super) json: Value,
    /// The first line for people.
    pub(super) headline: String,
    /// The other lines, with their names.
    rows: Vec<(String, String)>,
    /// The line about memory.
    pub(super) memory: String,
    /// Why the run is a failure, if it is one.
    pub(super) failure: Option<String>,
}

impl Report {
    pub(super) fn new(mut json: Value, headline: String) -> Self {
        if let Some(figures) = json.as_object_mut() {
            figures.retain(|_, figure| !figure.is_null());
        }
        Self { json, headline, ..Self::default() }
    }

    pub(super) fn row(&mut self, name: &str, text: String) {
        self.rows.push((name.to_owned(), text));
    }

    /// Adds the figures of one part of the run.
    pub(super) fn add(&mut self, name: &str, part: Self) {
        self.json[name] = part.json;
        self.headline.push_str(&part.headline);
        self.rows.extend(part.rows);
        self.memory.push_str(&part.memory);
        self.failure = self.failure.take().or(part.failure);
    }

    /// Adds the server's resident memory before and after `count` clients or sessions came.
    pub(super) fn add_memory(
        &mut self,
        ProcessMetrics { resident_bytes: before, .. }: ProcessMetrics,
        ProcessMetrics { resident_bytes: after, .. }: ProcessMetrics,
        count: u32,
        moment: &str,
        noun: &str,
    ) {
        let each = (after - before) / f64::from(count);
        let each_name = format!("per{}", capitalized(noun));
        self.json["memory"] = json!({ "before": before, (moment): after, (each_name): each });
        self.memory.push_str(&format!("{:.1} MB {moment}", after / 1e6));
        if count >= ENOUGH {
            self.memory.push_str(&format!(": {:.1} kB per {noun}", each / 1e3));
        }
    }

    /// Adds the counted failures.
    pub(super) fn add_errors(&mut self, errors: &BTreeMap<String, u64>) {
        self.json["errors"] = errors.iter().map(|(kind, count)| (kind.clone(), *count)).collect();
        self.row("memory", self.memory.clone());
        if errors.is_empty() {
            self.row("errors", "none".to_owned());
        }
        for (kind, count) in errors {
            self.row("error", format!("{kind}: {}", HumanCount(*count)));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.headline)?;
        self.rows.iter().try_for_each(|(name, text)| writeln!(f, "  {name:<12}{text}"))
    }
}

/// A count with its noun, such as `2 clients`.
pub(super) fn counted(count: u32, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(count.into()), if count == 1 { "" } else { "s" })
}

/// A noun with a capital letter, as part of a camelCase name.
pub(super) fn capitalized(noun: &str) -> String {
    noun[..1].to_uppercase() + &noun[1..]
}
