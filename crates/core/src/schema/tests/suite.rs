//! The public JSON-Schema-Test-Suite: what it says fits has to fit, and nothing else.

use super::*;

const DRAFT_7: &str = include_str!("../../../testdata/schema-suite/draft7.json");
const DRAFT_2020_12: &str = include_str!("../../../testdata/schema-suite/draft2020-12.json");

/// Schemas that lead to others, or to the schema of a draft: nothing is fetched.
const NOT_FETCHED: [&str; 8] = [
    "definitions: validate definition against metaschema",
    "defs: validate definition against metaschema",
    "ref: remote ref, containing refs itself",
    "dynamicRef: strict-tree schema, guards against misspelled properties",
    "dynamicRef: tests for implementation dynamic anchor and reference link",
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $defs first",
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $ref first",
    "dynamicRef: $ref to $dynamicRef finds detached $dynamicAnchor",
];

/// Schemas in which the way to a `$dynamicRef` decides what it means. No program writes such schemas for tools.
const DYNAMIC: [&str; 8] = [
    "dynamicRef: A $dynamicRef resolves to the first $dynamicAnchor still in scope that is encountered when the schema is evaluated",
    "dynamicRef: A $dynamicRef with intermediate scopes that don't include a matching $dynamicAnchor does not affect dynamic scope resolution",
    "dynamicRef: A $dynamicRef that initially resolves to a schema with a matching $dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope",
    "dynamicRef: multiple dynamic paths to the $dynamicRef keyword",
    "dynamicRef: after leaving a dynamic scope, it is not used by a $dynamicRef",
    "dynamicRef: $dynamicRef skips over intermediate resources - direct reference",
    "unevaluatedItems: unevaluatedItems with $dynamicRef",
    "unevaluatedProperties: unevaluatedProperties with $dynamicRef",
];

/// Checks a whole suite. Returns how many values were compared, and what is not as the suite says.
fn compare(draft: &str, suite: &str) -> (usize, Vec<String>) {
    let files: serde_json::Map<String, Value> = serde_json::from_str(suite).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (file, groups) in &files {
        for group in groups.as_array().unwrap() {
            let mut schema = group["schema"].clone();
            if let Value::Object(fields) = &mut schema {
                fields.entry("$schema").or_insert_with(|| json!(draft));
            }
            let name = format!("{file}: {}", group["description"].as_str().unwrap());
            let reason = match () {
                () if NOT_FETCHED.contains(&name.as_str()) => "are not followed",
                () if DYNAMIC.contains(&name.as_str()) => "several anchors is not supported",
                () => "",
            };
            let nodes = match compile::compile(&schema, &BOUNDS) {
                Ok(nodes) if reason.is_empty() => nodes,
                Err(problem) if !reason.is_empty() && problem.contains(reason) => continue,
                other => {
                    wrong.push(format!("{name}: {:?}", other.map(|_| "is not refused")));
                    continue;
                }
            };
            for test in group["tests"].as_array().unwrap() {
                compared += 1;
                let checked = check::check(&nodes, &test["data"], &mut Steps::new(BOUNDS.steps));
                if checked.is_ok() != test["valid"] || matches!(checked, Err(Unfit::Stopped(_))) {
                    wrong.push(format!("{name}: {}: {checked:?}", test["description"]));
                }
            }
        }
    }
    (compared, wrong)
}

#[test]
fn the_public_suite_agrees_about_draft_7() {
    let (compared, wrong) = compare("http://json-schema.org/draft-07/schema#", DRAFT_7);
    assert_eq!(wrong, [""; 0]);
    assert!(compared > 900, "{compared}");
}

#[test]
fn the_public_suite_agrees_about_draft_2020_12() {
    let (compared, wrong) = compare("https://json-schema.org/draft/2020-12/schema", DRAFT_2020_12);
    assert_eq!(wrong, [""; 0]);
    assert!(compared > 1_200, "{compared}");
}
