//! Which tools a model may call: at once, after somebody agrees, or not at all.
//!
//! Rules are patterns over full tool ids. `*` stands for any run of characters; nothing else is special. A pattern for
//! client tools is read as `client_<client>_<tool>`: a `*` never crosses the boundary between the two. The most
//! specific matching pattern decides: a whole id before any pattern, then the pattern with more literal characters,
//! then the one with fewer `*`. Of equally specific patterns the strictest counts.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::id::{InvalidId, is_name_character};

/// Whether a tool may be called. Later variants are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// The tool may be called.
    #[default]
    Allow,
    /// The tool may be called if somebody agrees to the call.
    Ask,
    /// The tool may not be called.
    Deny,
}

/// Which tools may be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The permission of client tools that no pattern matches.
    pub client_tools: Permission,
    /// The permissions of tools that a pattern matches, in any order.
    pub tools: Vec<(ToolPattern, Permission)>,
}

impl Policy {
    /// Whether a tool may be called.
    pub fn decide(&self, tool: Named<'_>) -> Permission {
        let rules = self.tools.iter().filter(|(pattern, _)| tool.fits(pattern.as_str()));
        most_specific(rules.map(|(pattern, permission)| (pattern.as_str(), *permission))).unwrap_or(self.client_tools)
    }
}

/// A tool's names, for matching patterns.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Named<'a> {
    /// The tool's full id.
    pub id: &'a str,
    /// The tool's own name.
    pub name: &'a str,
    /// The client that runs the tool, if one does.
    pub client: Option<&'a str>,
}

impl Named<'_> {
    /// Whether a pattern matches. A client's name has no `*`, so a pattern for client tools can be split in two ways:
    /// after the client's own name, or at the first `_` after a `*`.
    fn fits(&self, pattern: &str) -> bool {
        let (Some(client), Some(parts)) = (self.client, pattern.strip_prefix("client_")) else {
            return fits(pattern, self.id);
        };
        if !parts.contains('_') {
            return fits(pattern, self.id);
        }
        if let Some(tool) = parts.strip_prefix(client).and_then(|rest| rest.strip_prefix('_'))
            && fits(tool, self.name)
        {
            return true;
        }
        let boundary = parts.find('*').and_then(|star| Some(star + parts.get(star..)?.find('_')?));
        let split = boundary.and_then(|boundary| Some((parts.get(..boundary)?, parts.get(boundary + 1..)?)));
        split.is_some_and(|(clients, tools)| fits(clients, client) && fits(tools, self.name))
    }
}

/// Whether a prompt switches a tool on or off; `None` if it does neither. The keys are full ids, tools' own names, or
/// patterns over full ids: with `"*": false`, a prompt starts with no tools.
pub fn switched(tools: &BTreeMap<String, bool>, tool: Named<'_>) -> Option<bool> {
    let rules = tools.iter().filter(|(key, _)| *key == tool.name || tool.fits(key));
    // Off is the stricter value.
    most_specific(rules.map(|(key, on)| (key.as_str(), !on))).map(|is_off| !is_off)
}

/// A pattern over full tool ids.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolPattern(SmolStr);

impl ToolPattern {
    /// Parses a pattern that could match some tool. No tool id is longer than 256 bytes.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let allowed = |character| character == '*' || is_name_character(character);
        if (1..=256).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidId::new("pattern", text, "1 to 256 of A-Z a-z 0-9 _ . : @ - *".to_owned()))
        }
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for ToolPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl Serialize for ToolPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ToolPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Cow::<str>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The value of the most specific pattern; of equally specific ones, the largest value.
fn most_specific<'a, T: Ord>(rules: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    rules.map(|(pattern, says)| (specificity(pattern), says)).max().map(|(_, says)| says)
}

/// How specific a pattern is: larger is more specific.
fn specificity(pattern: &str) -> (bool, usize, Reverse<usize>) {
    let stars = pattern.matches('*').count();
    (stars == 0, pattern.chars().count() - stars, Reverse(stars))
}

/// Whether a pattern matches all of a text. Patterns come from prompts too, so this takes time in proportion to the sum
/// of both lengths, and not to their product, as trying every place would.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let between = text.strip_prefix(start).and_then(|text| text.strip_suffix(end));
    // The first place where a piece is found leaves the most room for the pieces after it, so no other place is tried.
    let found = |text, piece| str::split_once(text, piece).map(|(_, after)| after);
    between.is_some_and(|between| middle.split('*').try_fold(between, found).is_some())
}
