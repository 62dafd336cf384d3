//! How much work a schema can make of checking one value: references that fan out double it at each level.

use std::collections::HashMap;

use serde_json::Value;

/// How many subschemas are visited for one value when every reference is followed. A reference back to where one is
/// counts as one: it only goes on with the parts of the value.
pub(super) fn of(schema: &Value) -> u64 {
    let mut named = HashMap::new();
    collect_names(schema, &mut named);
    Walk { root: schema, named, known: HashMap::new() }.visit(schema)
}

struct Walk<'a> {
    root: &'a Value,
    /// Subschemas by `$anchor` or by the last part of their `$id`.
    named: HashMap<&'a str, &'a Value>,
    /// The work of subschemas by their place in memory; `None` while it is being counted.
    known: HashMap<usize, Option<u64>>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value) -> u64 {
        match schema {
            Value::Array(items) => self.sum(items.iter()),
            Value::Object(fields) => {
                let place = std::ptr::from_ref(schema).addr();
                if let Some(known) = self.known.get(&place) {
                    return known.unwrap_or(1);
                }
                self.known.insert(place, None);
                let referred =
                    ["$ref", "$dynamicRef", "$recursiveRef"].iter().filter_map(|key| fields.get(*key)?.as_str());
                let referred: Vec<&Value> = referred.filter_map(|reference| self.resolve(reference)).collect();
                let work =
                    1u64.saturating_add(self.sum(fields.values())).saturating_add(self.sum(referred.into_iter()));
                self.known.insert(place, Some(work));
                work
            }
            _ => 0,
        }
    }

    fn sum(&mut self, schemas: impl Iterator<Item = &'a Value>) -> u64 {
        schemas.fold(0u64, |sum, schema| sum.saturating_add(self.visit(schema)))
    }

    fn resolve(&self, reference: &'a str) -> Option<&'a Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match last_part(document) {
            "" => self.root,
            name => self.named.get(name)?,
        };
        match fragment {
            "" => Some(document),
            pointer if pointer.starts_with('/') => document.pointer(pointer),
            anchor => self.named.get(anchor).copied(),
        }
    }
}

fn collect_names<'a>(schema: &'a Value, named: &mut HashMap<&'a str, &'a Value>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, named)),
        Value::Object(fields) => {
            for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                if let Some(name) = fields.get(key).and_then(Value::as_str) {
                    named.insert(last_part(name.trim_start_matches('#')), schema);
                }
            }
            fields.values().for_each(|value| collect_names(value, named));
        }
        _ => {}
    }
}

fn last_part(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or(uri)
}
