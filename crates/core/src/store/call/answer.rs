//! A hash of the meaning of an answer, to see whether two answers are the same. It may be stored, so it never changes.

use std::hash::Hasher;

use serde_json::Value;
use siphasher::sip::SipHasher13;

use super::Outcome;

/// JSON of at most this many bytes is compared by meaning. Longer JSON is compared as text.
const COMPARED: usize = 64 << 10;

/// The hash of a client's answer; `None` if the outcome is no client's answer.
pub(super) fn hash(outcome: &Outcome) -> Option<u64> {
    let mut hash = AnswerHash(SipHasher13::new());
    match outcome {
        Outcome::Success(success) => {
            hash.tag(0);
            hash.text(&success.title);
            hash.text(&success.output);
            let attachments = success.attachments.as_deref().unwrap_or_default();
            hash.count(attachments.len());
            for attachment in attachments {
                [Some(&attachment.mime), Some(&attachment.url), attachment.filename.as_ref()]
                    .into_iter()
                    .for_each(|text| hash.optional(text));
            }
            if let Some(metadata) = &success.metadata {
                hash.json(metadata.get());
            }
        }
        Outcome::Error(error) => {
            hash.tag(1);
            hash.text(error);
        }
        Outcome::Acknowledged(ack) => {
            hash.tag(2);
            hash.json(ack.payload().get());
        }
        _ => return None,
    }
    Some(hash.0.finish())
}

/// A hasher of bytes whose order and width are the same on every machine.
struct AnswerHash(SipHasher13);

impl AnswerHash {
    fn tag(&mut self, tag: u8) {
        self.0.write(&[tag]);
    }

    fn count(&mut self, count: usize) {
        self.0.write(&(count as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.write(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&String>) {
        self.tag(u8::from(text.is_some()));
        self.text(text.map_or("", String::as_str));
    }

    /// Hashes JSON by meaning, or as text if it is long: the text still tells different answers apart.
    fn json(&mut self, json: &str) {
        // It may also be nested deeper than serde reads.
        match (json.len() <= COMPARED).then(|| serde_json::from_str(json)) {
            Some(Ok(value)) => self.value(&value),
            _ => self.text(json),
        }
    }

    /// Hashes JSON by meaning: objects regardless of the order of keys, numbers by value.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.tag(0),
            Value::Bool(value) => {
                self.tag(1);
                self.tag(u8::from(*value));
            }
            Value::Number(number) => match number.as_i64() {
                Some(number) => self.whole(number),
                None => {
                    let number = number.as_f64().unwrap_or(f64::NAN);
                    match number as i64 {
                        whole if whole as f64 == number => self.whole(whole),
                        _ => {
                            self.tag(3);
                            self.0.write(&number.to_bits().to_le_bytes());
                        }
                    }
                }
            },
            Value::String(text) => {
                self.tag(4);
                self.text(text);
            }
            Value::Array(items) => {
                self.tag(5);
                self.count(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(fields) => {
                // serde_json keeps fields sorted by key.
                self.tag(6);
                self.count(fields.len());
                for (key, value) in fields {
                    self.text(key);
                    self.value(value);
                }
            }
        }
    }

    /// Hashes a whole number. The tag sets numbers that no float can represent apart from those near them.
    fn whole(&mut self, number: i64) {
        self.tag(2);
        self.tag(u8::from(number as f64 as i64 == number));
        self.0.write(&number.to_le_bytes());
    }
}
