//! Schemas and inputs that are made to keep a validator busy, thousands of them: whatever they are, compiling and checking
//! stays within the bounds. Work is counted, not time.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

/// How many schemas are made.
const SCHEMAS: usize = 10_000;

struct Maker {
    random: fastrand::Rng,
    definitions: usize,
    /// The definition that is made.
    at: usize,
}

/// Whether a subschema is for the same value as the one around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    TheSame,
    APart,
}

impl Maker {
    fn below(&mut self, end: usize) -> usize {
        self.random.usize(..end)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// References for the same value lead on, so that most schemas are not refused as loops.
    fn reference(&mut self, what: For) -> Value {
        let first = if what == For::TheSame && self.below(50) > 0 { self.at + 1 } else { 0 };
        if first >= self.definitions {
            return self.leaf();
        }
        let n = first + self.below(self.definitions - first);
        let to = match self.below(8) {
            0 if what == For::APart => "#".to_owned(),
            1 => format!("urn:root#/%24defs/d{n}"),
            2 => format!("urn:root#a{n}"),
            3 => format!("urn:e{n}"),
            4 => format!("urn:e{n}#/%24defs/inner"),
            _ => format!("urn:root#/$defs/d{n}"),
        };
        json!({ self.one(&["$ref", "$ref", "$ref", "$ref", "$dynamicRef", "$recursiveRef"]): to })
    }

    fn schema(&mut self, depth: usize, what: For) -> Value {
        if depth == 0 || self.below(4) == 0 {
            return if self.below(3) == 0 { self.leaf() } else { self.reference(what) };
        }
        let mut schema = serde_json::Map::new();
        for _ in 0..1 + self.below(3) {
            let keyword = self.one(&[
                "allOf",
                "anyOf",
                "oneOf",
                "not",
                "if",
                "then",
                "else",
                "properties",
                "additionalProperties",
                "patternProperties",
                "propertyNames",
                "items",
                "prefixItems",
                "contains",
                "unevaluatedProperties",
                "unevaluatedItems",
                "dependentSchemas",
                "uniqueItems",
                "enum",
            ]);
            let mut below = |what: For| self.schema(depth - 1, what);
            let value = match keyword {
                "allOf" | "anyOf" | "oneOf" => json!([below(what), below(what)]),
                "not" | "if" | "then" | "else" => below(what),
                "dependentSchemas" => json!({ "a": below(what), "b": below(what) }),
                "prefixItems" => json!([below(For::APart), below(For::APart)]),
                "properties" => json!({ "a": below(For::APart), "b": below(For::APart) }),
                "patternProperties" => json!({ self.pattern(): self.schema(depth - 1, For::APart) }),
                "uniqueItems" => json!(true),
                "enum" => json!([{ "a": "x".repeat(self.below(1_000)) }, 1, [], self.below(9)]),
                _ => below(For::APart),
            };
            schema.insert(keyword.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn leaf(&mut self) -> Value {
        match self.below(6) {
            0 => json!(true),
            1 => json!({ "required": ["never"] }),
            2 => json!({ "pattern": self.pattern() }),
            3 => json!({ "multipleOf": 0.000_1, "maxLength": 5 }),
            4 => json!({ "unevaluatedProperties": false, "unevaluatedItems": false }),
            _ => json!({ "type": ["object", "array", "string"] }),
        }
    }

    fn pattern(&mut self) -> String {
        let parts = [
            "a",
            "b*",
            "(a+)+",
            "(?:a|ab|b)*",
            "[ab]{900}",
            "(?=.*b)",
            "(?!a*c)",
            "(a)\\1",
            "(?<=a{9})",
            "\\p{Greek}{50}",
            "$",
            "^",
            ".*",
            "(?:a?){30}",
            "(a*)*b",
        ];
        (0..1 + self.below(5)).map(|_| self.one(&parts)).collect()
    }

    /// A chain of references, or a schema at random, with definitions that lead to each other.
    fn root(&mut self) -> Value {
        let mut definitions = serde_json::Map::new();
        let step = self.one(&["$ref", "allOf", "not", "properties", "if", "unevaluatedProperties", "anyOf"]);
        let is_chain = self.below(4) == 0;
        for n in 0..self.definitions {
            self.at = n;
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            let definition = match step {
                _ if !is_chain || n + 1 == self.definitions => json!({ "allOf": [self.schema(2, For::TheSame)] }),
                "$ref" => next,
                "allOf" | "anyOf" => json!({ step: [next, next] }),
                "properties" => json!({ step: { "a": next } }),
                "unevaluatedProperties" => json!({ "$ref": next["$ref"], step: false }),
                _ => json!({ step: next, "then": next }),
            };
            let embedded = json!({ "$id": format!("urn:e{n}"), "allOf": [{ "$ref": "#/$defs/inner" }],
                "$defs": { "inner": self.schema(1, For::TheSame) } });
            let mut definition = definition;
            definition["$anchor"] = json!(format!("a{n}"));
            definitions.insert(format!("d{n}"), definition);
            definitions.insert(format!("e{n}"), embedded);
        }
        self.at = 0;
        let first = if is_chain { json!({ "$ref": "#/$defs/d0" }) } else { self.schema(3, For::TheSame) };
        json!({ "$id": "urn:root", "allOf": [first], "$defs": definitions })
    }

    fn input(&mut self) -> Value {
        let text = "ab".repeat(1 << self.below(10));
        let mut input = match self.below(4) {
            0 => json!((0..self.below(500)).collect::<Vec<_>>()),
            1 => (0..self.below(300)).map(|n| (format!("{text:.20}{n}"), json!({ "a": n }))).collect::<Value>(),
            _ => json!(text),
        };
        for _ in 0..self.below(60) {
            // Moved, not copied as `json!` would.
            input = match self.below(3) {
                0 => Value::from_iter([("a", input), ("b", json!(1))]),
                1 => Value::from_iter([("a", input)]),
                _ => Value::Array(vec![input, json!(2)]),
            };
        }
        Value::from_iter([("a", input)])
    }
}

#[test]
fn nothing_exceeds_the_bounds() {
    // The stack of a thread that does this in the server is larger.
    let is_soak = std::env::var_os("SOAK").is_some();
    let work = move || {
        let mut maker = Maker { random: fastrand::Rng::with_seed(1), definitions: 1, at: 0 };
        let (mut refused, mut stopped, mut unfit, mut fit) = (0, 0, 0, 0);
        let mut slowest = Duration::ZERO;
        for n in 0..SCHEMAS {
            let is_hard = is_soak || n % 1_000 < 2;
            maker.definitions = if is_hard && maker.below(2) == 0 { 150 } else { 1 + maker.below(4) };
            let schema = maker.root();
            let nodes = match compile::compile(&schema, &BOUNDS) {
                Ok(nodes) => nodes,
                Err(_) => {
                    refused += 1;
                    continue;
                }
            };
            let size = schema.to_string().len();
            assert!(nodes.nodes.len() <= size, "{} nodes of {size} bytes", nodes.nodes.len());
            assert!(nodes.patterns.iter().map(pattern::Pattern::size).sum::<usize>() <= BOUNDS.all_patterns);
            let mut steps = Steps::new(if is_hard { BOUNDS.steps } else { 2_000 });
            let (input, began) = (maker.input(), Instant::now());
            let checked = check::check(&nodes, &input, &mut steps);
            slowest = slowest.max(began.elapsed());
            match checked {
                Ok(()) => fit += 1,
                Err(Unfit::Violations(violations)) => {
                    unfit += 1;
                    assert!((1..=3).contains(&violations.len()));
                    assert!(violations.iter().all(|violation| violation.len() < 2_000));
                }
                Err(Unfit::Stopped(_)) => stopped += 1,
            }
        }
        // For whoever runs all of them in a release build; on a machine that others use it proves nothing.
        println!("the slowest check took {slowest:?}");
        // All ends come about, so that the schemas are worth something.
        [refused, stopped, unfit, fit]
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap();
    let ends: [usize; 4] = thread.join().unwrap();
    assert!(ends.into_iter().all(|count| count > 100), "{ends:?}");
}
