//! Compares JSON values, and measures them.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher};

use ahash::{HashMap, HashMapExt, RandomState};
use serde_json::Value;

use super::bounds::{Steps, Stop};
use super::number;

/// Whether two values are the same. Numbers are compared by value.
pub(super) fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => number::compare(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        // The keys of both are sorted.
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && is_equal(one.1, other.1))
        }
        _ => one == other,
    }
}

/// The cost in steps of comparing a value with others.
pub(super) fn size(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len() / 32,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() / 32 + size(value)).sum(),
        _ => 0,
    }
}

/// Whether no two items are the same. Each is compared only with those of the same hash.
pub(super) fn are_unique(items: &[Value], steps: &mut Steps) -> Result<bool, Stop> {
    let random = RandomState::new();
    let mut known: HashMap<u64, Vec<&Value>> = HashMap::new();
    for item in items {
        let size = size(item);
        steps.take(8 * size)?;
        let mut hasher = random.build_hasher();
        hash(item, &mut hasher);
        let same = known.entry(hasher.finish()).or_default();
        steps.take(size * same.len())?;
        if same.iter().any(|other| is_equal(item, other)) {
            return Ok(false);
        }
        same.push(item);
    }
    Ok(true)
}

fn hash(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number::key(number).hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(fields) => {
            fields.len().hash(hasher);
            fields.iter().for_each(|(name, value)| {
                name.hash(hasher);
                hash(value, hasher);
            });
        }
    }
}
