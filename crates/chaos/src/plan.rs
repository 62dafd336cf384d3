//! What is done to connections, and how often. A plan is a small TOML file; with its seed it can be repeated.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is done, and how often. Chances are between 0 and 1; times and distances are spread evenly over their orders of
/// magnitude, between the two that are given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Plan {
    /// Everything that chance decides follows from it.
    pub seed: u64,
    /// How many bytes pass in one direction of a connection before it is cut or stalled, when that is soon: in the head
    /// of a request, in a handshake, in the first frame.
    pub soon: Range,
    /// The same, when it is later.
    pub later: Range,
    /// The chance that it is soon.
    pub soon_chance: f64,
    /// The chance that a connection is stalled there, and not cut.
    pub stall_chance: f64,
    /// How long a stall takes, in milliseconds.
    pub stall: Range,
    /// The chance that the connection is cut when a stall is over.
    pub stall_ends_in_cut: f64,
    /// The chance that one direction of a connection is slow from its beginning.
    pub throttle_chance: f64,
    /// How many bytes it passes in a second then.
    pub throttle: Range,
    /// The chance that an HTTP request is delivered late.
    pub request_delay: f64,
    /// The chance that an HTTP request is delivered twice.
    pub request_repeat: f64,
    /// The chance that an HTTP request is delivered, and its answer lost.
    pub answer_loss: f64,
    /// The chance that an SSE frame or a WebSocket message is delivered late.
    pub message_delay: f64,
    /// The chance that an SSE frame or a WebSocket message is delivered twice.
    pub message_repeat: f64,
    /// How long a request, frame or message is late, in milliseconds.
    pub delay: Range,
}

/// The least and the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
pub struct Range(pub u64, pub u64);

impl From<[u64; 2]> for Range {
    fn from([least, most]: [u64; 2]) -> Self {
        Self(least, most)
    }
}

impl From<Range> for [u64; 2] {
    fn from(Range(least, most): Range) -> Self {
        [least, most]
    }
}

impl From<Range> for RangeInclusive<u64> {
    fn from(Range(least, most): Range) -> Self {
        least..=most
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            soon: Range(0, 600),
            later: Range(600, 600_000),
            soon_chance: 0.15,
            stall_chance: 0.25,
            stall: Range(5, 2_000),
            stall_ends_in_cut: 0.3,
            throttle_chance: 0.05,
            throttle: Range(20_000, 2_000_000),
            request_delay: 0.1,
            request_repeat: 0.1,
            answer_loss: 0.05,
            message_delay: 0.01,
            message_repeat: 0.1,
            delay: Range(1, 150),
        }
    }
}

/// The distance that nothing ever reaches. TOML has no larger integer.
const NEVER: u64 = i64::MAX as u64;

impl Plan {
    /// The usual plan, with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Nothing ever happens, for whoever wants one thing to.
    pub fn none() -> Self {
        Self {
            seed: 0,
            soon: Range(NEVER, NEVER),
            later: Range(NEVER, NEVER),
            soon_chance: 0.0,
            stall_chance: 0.0,
            stall: Range(1, 1),
            stall_ends_in_cut: 0.0,
            throttle_chance: 0.0,
            throttle: Range(1, 1),
            request_delay: 0.0,
            request_repeat: 0.0,
            answer_loss: 0.0,
            message_delay: 0.0,
            message_repeat: 0.0,
            delay: Range(1, 1),
        }
    }

    fn check(&self) -> Result<(), String> {
        let chances = [
            ("soonChance", self.soon_chance),
            ("stallChance", self.stall_chance),
            ("stallEndsInCut", self.stall_ends_in_cut),
            ("throttleChance", self.throttle_chance),
            ("requestDelay", self.request_delay),
            ("requestRepeat", self.request_repeat),
            ("answerLoss", self.answer_loss),
            ("messageDelay", self.message_delay),
            ("messageRepeat", self.message_repeat),
        ];
        if let Some((name, chance)) = chances.into_iter().find(|(_, chance)| !(0.0..=1.0).contains(chance)) {
            return Err(format!("{name} is a chance between 0 and 1, not {chance}"));
        }
        let ranges = [
            ("soon", self.soon),
            ("later", self.later),
            ("stall", self.stall),
            ("throttle", self.throttle),
            ("delay", self.delay),
        ];
        if let Some((name, Range(least, most))) = ranges.into_iter().find(|(_, range)| range.0 > range.1) {
            return Err(format!("{name} is [least, most], and {least} is more than {most}"));
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    /// Reads a plan. What it does not say is as usual.
    fn from_str(text: &str) -> Result<Self, String> {
        let plan: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.check()?;
        Ok(plan)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&toml::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_is_printed_can_be_read() {
        for plan in [Plan::seeded(7), Plan::none(), Plan::seeded(u64::MAX)] {
            assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
        }
        assert_eq!("seed = 7".parse::<Plan>().unwrap(), Plan::seeded(7));
        assert_eq!("".parse::<Plan>().unwrap(), Plan::default());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused = |text: &str| text.parse::<Plan>().unwrap_err();
        assert_eq!(refused("answerLoss = 2"), "answerLoss is a chance between 0 and 1, not 2");
        assert_eq!(refused("delay = [5, 1]"), "delay is [least, most], and 5 is more than 1");
        assert!(refused("anserLoss = 0.5").contains("anserLoss"));
        assert!(refused("seed = -1").contains("seed"));
    }
}
