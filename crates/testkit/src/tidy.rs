//! JSON without what is new each time, so that whole answers and whole lists of events can be compared.

use std::collections::HashMap;

use serde_json::Value;

/// Prefixes of ids that the server makes.
const PREFIXES: [&str; 6] = ["ses_", "msg_", "prt_", "per_", "cal_", "run_"];

/// Numbers ids and leaves out times: the first session is `ses_1`, the second `ses_2`; the first call is `req_1`; every
/// time is `"time"`. What is tidied with the same tidier has the same names.
#[derive(Debug, Default)]
pub struct Tidier {
    names: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

/// Tidies one value.
pub fn tidy(value: &Value) -> Value {
    Tidier::default().tidy(value)
}

impl Tidier {
    /// Tidies a value.
    pub fn tidy(&mut self, value: &Value) -> Value {
        self.collect(value, "");
        self.renamed(value, "")
    }

    /// Gives every new id a name.
    fn collect(&mut self, value: &Value, key: &str) {
        match value {
            Value::String(text) => {
                let known = PREFIXES.into_iter().find(|prefix| text.starts_with(prefix) && text.len() == 23);
                let prefix = match known {
                    None if key == "requestID" && text.len() == 23 => Some("req_"),
                    known => known,
                };
                if let Some(prefix) = prefix
                    && !self.names.contains_key(text)
                {
                    let count = self.counts.entry(prefix).or_default();
                    *count += 1;
                    self.names.insert(text.clone(), format!("{prefix}{count}"));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, key)),
            Value::Object(fields) => fields.iter().for_each(|(key, item)| self.collect(item, key)),
            _ => {}
        }
    }

    fn renamed(&self, value: &Value, key: &str) -> Value {
        match value {
            Value::String(_) if matches!(key, "deadline" | "expiresAt" | "created" | "finished") => "time".into(),
            Value::String(text) => self.renamed_text(text).into(),
            Value::Number(_) if matches!(key, "created" | "updated" | "completed" | "start" | "end") => "time".into(),
            Value::Array(items) => items.iter().map(|item| self.renamed(item, key)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, item)| (self.renamed_text(key), self.renamed(item, key))).collect()
            }
            other => other.clone(),
        }
    }

    fn renamed_text(&self, text: &str) -> String {
        if text.len() < 23 {
            return text.to_owned();
        }
        // An id may be in the middle, as in a link.
        self.names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    }
}
