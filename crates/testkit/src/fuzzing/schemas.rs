//! JSON Schemas of tools, and inputs.

use handback_core::limits::Limits;
use handback_core::schema::Schema;
use serde_json::value::RawValue;

use super::sections;

/// A schema, and inputs to be checked against it. The schema on one line says the same.
pub fn schemas(bytes: &[u8]) {
    let Ok(texts) = sections(bytes).into_iter().map(std::str::from_utf8).collect::<Result<Vec<_>, _>>() else { return };
    let raw = |text: &&str| serde_json::from_str::<Box<RawValue>>(text).ok();
    let limits = Limits::default();
    let Some(source) = raw(&texts[0]) else { return };
    let Ok(schema) = Schema::compile(&source, &limits) else { return };
    assert!(!schema.source().get().contains(['\n', '\r']), "{source}");
    let again = Schema::compile(schema.source(), &limits).unwrap();
    for input in texts[1..].iter().filter_map(raw) {
        assert_eq!(schema.check(&input, &limits), again.check(&input, &limits));
    }
}
