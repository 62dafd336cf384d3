//! What a model may do with the tools that it sees: call them, call them once somebody agrees, or not at all.
//!
//! Rules are patterns over full tool ids, in which `*` stands for any run of characters and nothing else is special.
//! A pattern for tools of clients is read as `client_<client>_<tool>`: `*` never crosses the boundary between the two.
//! The most specific pattern that fits decides: a whole id before any pattern, then the one with more characters of its
//! own, then the one with fewer `*`. Of equally specific ones the strictest counts.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::id::{InvalidId, is_name_character};

/// Whether a tool may be called; later ones are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// It may.
    #[default]
    Allow,
    /// It may, if somebody agrees to the call.
    Ask,
    /// It may not.
    Deny,
}

/// Which tools may be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// What holds for a client's tools that no pattern fits.
    pub client_tools: Permission,
    /// What holds for the tools that a pattern fits, in any order.
    pub tools: Vec<(ToolPattern, Permission)>,
}

impl Policy {
    /// Whether a tool may be called.
    pub fn decide(&self, tool: Named<'_>) -> Permission {
        let rules = self.tools.iter().filter(|(pattern, _)| tool.fits(pattern.as_str()));
        most_specific(rules.map(|(pattern, permission)| (pattern.as_str(), *permission))).unwrap_or(self.client_tools)
    }
}

/// A tool as patterns see it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Named<'a> {
    /// Its full id.
    pub id: &'a str,
    /// Its own name.
    pub name: &'a str,
    /// The client that runs it, if one does.
    pub client: Option<&'a str>,
}

impl Named<'_> {
    /// Whether a pattern fits. A client's name has no `*`, so there are two ways to split a pattern for tools of
    /// clients: after the client's own name, or at the first `_` after a `*`.
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

/// Whether a prompt switches a tool on or off; `None` if it says nothing of it. Its keys are full ids, tools' own
/// names, or patterns over full ids, and so `"*": false` is how to begin with none.
pub fn switched(tools: &BTreeMap<String, bool>, tool: Named<'_>) -> Option<bool> {
    let rules = tools.iter().filter(|(key, _)| *key == tool.name || tool.fits(key));
    // Off is the stricter one.
    most_specific(rules.map(|(key, on)| (key.as_str(), !on))).map(|is_off| !is_off)
}

/// A pattern over full tool ids.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolPattern(SmolStr);

impl ToolPattern {
    /// Takes a text as a pattern, if there can be a tool that it fits. No tool id is longer than 256 bytes.
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

/// What the most specific of these patterns says; of equally specific ones, the largest of what they say.
fn most_specific<'a, T: Ord>(rules: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    rules.map(|(pattern, says)| (specificity(pattern), says)).max().map(|(_, says)| says)
}

/// How specific a pattern is: larger is more so.
fn specificity(pattern: &str) -> (bool, usize, Reverse<usize>) {
    let stars = pattern.matches('*').count();
    (stars == 0, pattern.chars().count() - stars, Reverse(stars))
}

/// Whether a pattern fits all of a text. Patterns come from prompts too, so this takes time in proportion to both
/// lengths together and not, as trying every place would, to their product or worse.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let between = text.strip_prefix(start).and_then(|text| text.strip_suffix(end));
    // The first place where a piece is found leaves the most room for those after it: no other place needs to be tried.
    let found = |text, piece| str::split_once(text, piece).map(|(_, after)| after);
    between.is_some_and(|between| middle.split('*').try_fold(between, found).is_some())
}
