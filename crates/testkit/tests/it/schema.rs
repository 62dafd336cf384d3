//! What is generated and committed is current: the description of the API, and schemas that schemars makes.

use handback_server::App;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Whether a committed file is what is generated now.
fn must_be_current(path: &str, current: &str) {
    let file = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&file, current).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap();
    assert!(committed == current, "{path} is not current: run `make schemas`");
}

#[test]
fn the_committed_description_of_the_api_is_current() {
    let document = App::routes().document;
    let current = format!("{}\n", document.to_pretty_json().unwrap());
    must_be_current("crates/server/openapi.json", &current);
}

/// The description has one schema of a name: of two types that share it, one would be described as the other.
#[test]
fn no_two_types_of_the_wire_have_one_name_in_the_description() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/src"))];
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for described in source.split("derive(utoipa::ToSchema)").skip(1) {
                let kind = |kind| described.split_once(kind);
                let (attributes, rest) = kind("\npub struct ").or(kind("\npub enum ")).or(kind("\nenum ")).unwrap();
                let renamed = attributes.split_once("schema(as = ").and_then(|(_, name)| name.split(')').next());
                let name = renamed.or(rest.split([' ', '<', '(', ';']).next()).unwrap_or_default();
                assert!(name.chars().all(char::is_alphanumeric), "{name} in {}", path.display());
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(names.len() > 50, "too few were found: {names:?}");
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[expect(dead_code, reason = "only their schema counts")]
enum Shape {
    Circle {
        #[schemars(range(min = 0.0))]
        radius: f64,
    },
    Line(Line),
    Nothing,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only their schema counts")]
struct Line {
    length: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only their schema counts")]
struct Everything {
    #[schemars(length(min = 1, max = 5), regex(pattern = r"^[a-z]+$"))]
    name: String,
    maybe: Option<i32>,
    pair: (u8, String),
    #[serde(default)]
    children: Vec<Everything>,
    scores: std::collections::BTreeMap<String, u16>,
    #[serde(flatten)]
    shape: Shape,
}

/// The foreign tests check these with ajv beside the server.
#[test]
fn the_committed_schemas_of_schemars_are_current() {
    let good = json!({ "name": "a", "pair": [1, "b"], "scores": { "x": 1 }, "kind": "circle", "radius": 1.5 });
    let with = |more: Value| {
        let mut value = good.clone();
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let values = [
        good.clone(),
        with(json!({ "maybe": null, "children": [good] })),
        with(json!({ "kind": "line", "length": 5 })),
        json!({ "name": "b", "pair": [0, ""], "scores": {}, "kind": "nothing" }),
        json!({ "name": "b", "pair": [0, ""], "scores": {}, "kind": "line", "length": 255 }),
        with(json!({ "kind": "square" })),
        with(json!({ "radius": -1 })),
        with(json!({ "extra": 1 })),
        with(json!({ "name": "" })),
        with(json!({ "name": "A" })),
        with(json!({ "maybe": 1.5 })),
        with(json!({ "pair": [256, "b"] })),
        with(json!({ "pair": [1] })),
        with(json!({ "scores": { "x": -1 } })),
        with(json!({ "children": [{ "name": "a" }] })),
        json!({}),
    ];
    let cases = json!([
        { "name": "everything", "schema": schemars::schema_for!(Everything), "values": values },
        { "name": "a shape", "schema": schemars::schema_for!(Shape), "values": [
            { "kind": "nothing" }, { "kind": "line", "length": 1 }, { "kind": "line" }, { "kind": "circle", "radius": "x" },
        ] },
    ]);
    must_be_current("foreign/schemas/schemars.json", &format!("{cases:#}\n"));
}
